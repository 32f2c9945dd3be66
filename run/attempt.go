package run

// All attempts of one fire, or of one run that was asked for, are known by the id of the first, which is the ORIGIN of
// the others. The unique key on (ORIGIN, ATTEMPT) allows one attempt of each number, as that of fires does.
//
// A key that the program gave the run (RUN_KEY) goes with them: KEY_LIVE is 1 in one row, that of the attempt which is PENDING
// or RUNNING. It passes to the next attempt within the transaction that ends the one before, in three steps, since
// the unique key allows no two rows with it even for a moment: remember who has a key, take it away, give it to the next.

const (
	// attemptColumns are those of a further attempt, but for AVAILABLE_AT and what tells of recoveries; attemptValues is what they
	// get of the row R of the attempt before.
	attemptColumns = `APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, ATTEMPT, STATE, FENCE, JOB_DATA, ORIGIN, RUN_KEY, KEY_ONCE,
       RUN_TIMEOUT, ATTEMPTS, PRIORITY, CHECKPOINT, KEY_LIVE`

	attemptValues = `R.APPLICATION, R.JOB_ID, R.EXECUTE_ID, R.FIRE_TIME, R.ATTEMPT + 1, 'PENDING', R.FENCE, R.JOB_DATA,
       COALESCE(R.ORIGIN, R.ID), R.RUN_KEY, R.KEY_ONCE, R.RUN_TIMEOUT, R.ATTEMPTS, R.PRIORITY, R.CHECKPOINT, ` // and a value for KEY_LIVE

	// keyPassed is the KEY_LIVE of an attempt to which the keys pass that passKeysSQL takes away.
	keyPassed = `IF(FIND_IN_SET(R.ID, @QRTZ_KEYED), 1, NULL)`

	// keepAttemptSQL leaves an attempt as it is that is there already, since a person set the one before back to PENDING.
	keepAttemptSQL = ` ON DUPLICATE KEY UPDATE QRTZ_RUN.ATTEMPT = QRTZ_RUN.ATTEMPT`

	// passKeysSQL takes the keys away from the runs that rememberKeys has noted.
	passKeysSQL = `UPDATE QRTZ_RUN R FORCE INDEX (PRIMARY) SET R.KEY_LIVE = NULL WHERE R.ID IN (?) AND FIND_IN_SET(R.ID, @QRTZ_KEYED)`

	rememberKeysSQL = `SELECT GROUP_CONCAT(R.ID) INTO @QRTZ_KEYED `

	// releaseKeySQL is for each UPDATE that ends a run: its key is free. A key that may be used once is so only when the row is
	// gone.
	releaseKeySQL = `R.KEY_LIVE = IF(R.KEY_ONCE = 1, R.KEY_LIVE, NULL)`
)

// followedSQL tells whether a run that ends may be followed by a further attempt at all.
const followedSQL = `R.CANCEL_AT IS NULL AND R.ATTEMPT < 2000000000`
