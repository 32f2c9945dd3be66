package run

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// What programs and operators do to runs, by id. Each method works in the caller's transaction, of whatever isolation,
// and leaves nothing half done if the caller rolls back to where it was called after an error. An id of another app is not
// found.

var (
	// ErrNotFound says that there is no such job, schedule or run in the app.
	ErrNotFound = errors.New("not found")

	// ErrWrongState is returned by Cancel for a run that has ended, and by Retry for one that has not failed.
	ErrWrongState = errors.New("wrong state")

	// ErrKeyTaken says that another run of the job has the key.
	ErrKeyTaken = errors.New("the key is taken")
)

const (
	pendingOfJobSQL     = `SELECT ID FROM QRTZ_RUN WHERE JOB_ID = ? AND APPLICATION = ? AND STATE = 'PENDING' AND ID > ? ORDER BY ID LIMIT ?`
	pendingOfExecuteSQL = `SELECT ID FROM QRTZ_RUN WHERE EXECUTE_ID = ? AND APPLICATION = ? AND STATE = 'PENDING' AND ID > ? ORDER BY ID LIMIT ?`

	cancelPendingOfSQL = `
UPDATE %s V STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID
   SET R.STATE = 'CANCELLED', R.FINISHED_AT = ?, R.MESSAGE = ?, ` + releaseKeySQL + ` WHERE R.STATE = 'PENDING'`

	jobDeleted      = "its job was deleted"
	scheduleDeleted = "its schedule was deleted"
)

// CancelPendingOfJob cancels the PENDING runs of a job that is being deleted.
func (s *Store) CancelPendingOfJob(ctx context.Context, tx *sqlx.Tx, now time.Time, jobID int64) error {
	return s.cancelPendingOf(ctx, tx, now, pendingOfJobSQL, jobID, jobDeleted)
}

// CancelPendingOfExecute cancels the PENDING runs of an execute that is being deleted.
func (s *Store) CancelPendingOfExecute(ctx context.Context, tx *sqlx.Tx, now time.Time, executeID int64) error {
	return s.cancelPendingOf(ctx, tx, now, pendingOfExecuteSQL, executeID, scheduleDeleted)
}

// cancelPendingOf looks for the runs without locks and writes by primary key: at REPEATABLE READ, which the caller's
// transaction may have, an UPDATE by job would lock all that it looks at, and the gaps beside them, in which other apps'
// runs are.
func (s *Store) cancelPendingOf(ctx context.Context, tx *sqlx.Tx, now time.Time, query string, id int64, why string) error {
	for after := int64(math.MinInt64); ; {
		var ids []int64
		err := s.db.On(tx).Select(ctx, &ids, query, id, s.app, after, cleanPage)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := schema.ByKey(ctx, s.db.On(tx), cancelPendingOfSQL, ids, now.UnixMilli(), why); err != nil {
			return err
		}
		after = ids[len(ids)-1]
	}
}

// attempt is one of a run, as a person or a program finds it.
type attempt struct {
	ID      int64 `db:"ID"`
	Origin  int64 `db:"ORIGIN"`
	State   State `db:"STATE"`
	Attempt int   `db:"ATTEMPT"`
	Keyed   bool  `db:"KEYED"` // it has a key of the program's
}

func (a attempt) live() bool { return a.State == Pending || a.State == Running }

const (
	originSQL = `SELECT COALESCE(ORIGIN, ID) FROM QRTZ_RUN WHERE ID = ? AND APPLICATION = ?`

	attemptSQL = `SELECT R.ID, COALESCE(R.ORIGIN, R.ID) AS ORIGIN, R.STATE, R.ATTEMPT, R.RUN_KEY IS NOT NULL AS KEYED FROM QRTZ_RUN R `

	firstAttemptSQL    = attemptSQL + `WHERE R.ID = ? AND R.APPLICATION = ?`
	furtherAttemptsSQL = attemptSQL + `WHERE R.ORIGIN = ? AND R.APPLICATION = ? ORDER BY R.ATTEMPT`

	lockAttemptSQL     = firstAttemptSQL + ` FOR UPDATE`
	lockNextAttemptSQL = attemptSQL + `WHERE R.ORIGIN = ? AND R.ATTEMPT = ? AND R.APPLICATION = ? FOR UPDATE`

	cancelPendingSQL = `
UPDATE QRTZ_RUN R SET R.STATE = 'CANCELLED', R.FINISHED_AT = ?, R.MESSAGE = 'cancelled before it started', ` + releaseKeySQL + `
 WHERE R.ID = ?`

	askToCancelSQL = `UPDATE QRTZ_RUN SET CANCEL_AT = COALESCE(CANCEL_AT, ?) WHERE ID = ?`
)

// attempts reads the attempts of a run that are on record, the first one first, by the id of any of them, without locks. The id
// of the first will do even if its row is gone (HISTORY).
func (s *Store) attempts(ctx context.Context, tx *sqlx.Tx, runID int64) (all []attempt, err error) {
	origin := runID
	err = s.db.On(tx).Get(ctx, &origin, originSQL, runID, s.app)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if err := s.db.On(tx).Select(ctx, &all, firstAttemptSQL, origin, s.app); err != nil {
		return nil, err
	}
	var further []attempt
	err = s.db.On(tx).Select(ctx, &further, furtherAttemptsSQL, origin, s.app)
	return append(all, further...), err
}

// lockAttempts locks those attempts of a run that are PENDING or RUNNING, and the latest one, and returns them as they are
// now, the latest one last.
//
// At REPEATABLE READ the look for them sees what was there when the transaction began. What has failed or was lost since may have a
// further attempt, which is looked for by its number. Only that locks, until the transaction ends, a gap in which attempts of other
// runs may belong.
func (s *Store) lockAttempts(ctx context.Context, tx *sqlx.Tx, runID int64) (locked []attempt, err error) {
	all, err := s.attempts(ctx, tx, runID)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 { // it may be younger than the transaction
		all = []attempt{{ID: runID, Origin: runID, State: Pending, Attempt: 1}}
	}
	last := all[len(all)-1]
	for _, a := range all {
		if !a.live() && a != last {
			continue
		}
		is, found, err := s.lockOne(ctx, tx, lockAttemptSQL, a.ID, s.app)
		if err != nil {
			return nil, err
		}
		if found {
			locked = append(locked, is)
		}
	}
	var latest attempt
	if len(locked) > 0 {
		latest = locked[len(locked)-1]
	}
	gone := latest.Attempt < last.Attempt
	if gone {
		latest = last
	}
	for last.live() && (gone || latest.State == Failed || latest.State == Lost) {
		next, found, err := s.lockOne(ctx, tx, lockNextAttemptSQL, latest.Origin, latest.Attempt+1, s.app)
		if err != nil {
			return nil, err
		}
		if !found {
			break
		}
		locked, latest, gone = append(locked, next), next, false
	}
	if len(locked) == 0 {
		return nil, fmt.Errorf("%w: app %q has no run %d on record", ErrNotFound, s.app, runID)
	}
	return locked, nil
}

// lockOne locks one attempt, and reads it as it is now.
func (s *Store) lockOne(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (a attempt, found bool, err error) {
	err = s.db.On(tx).Get(ctx, &a, query, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return a, false, nil
	}
	return a, err == nil, err
}

// Cancel cancels a run, given the id of any of its attempts: it ends the attempt that is PENDING as CANCELLED, or asks the node of
// the one that is RUNNING to cancel it. It returns the ids of those it asked for.
func (s *Store) Cancel(ctx context.Context, tx *sqlx.Tx, at time.Time, runID int64) (running []int64, err error) {
	all, err := s.lockAttempts(ctx, tx, runID)
	if err != nil {
		return nil, err
	}
	ended := true
	for _, a := range all {
		switch a.State {
		case Pending:
			_, err = s.db.On(tx).Exec(ctx, cancelPendingSQL, at.UnixMilli(), a.ID)
		case Running:
			running = append(running, a.ID)
			_, err = s.db.On(tx).Exec(ctx, askToCancelSQL, at.UnixMilli(), a.ID)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		ended = false
	}
	if ended {
		last := all[len(all)-1]
		return nil, fmt.Errorf("%w: run %d is %s; only a PENDING or RUNNING run can be cancelled", ErrWrongState, last.ID, last.State)
	}
	return running, nil
}

const (
	retryRunSQL = `
INSERT INTO QRTZ_RUN (` + attemptColumns + `, AVAILABLE_AT, RECOVERS, RECOVERIES)
SELECT ` + attemptValues + `IF(R.RUN_KEY IS NULL, NULL, 1), ?, IF(R.STATE = 'LOST', R.ID, NULL), R.RECOVERIES
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE R.ID = ?`

	takeKeySQL = `UPDATE QRTZ_RUN SET KEY_LIVE = NULL WHERE ID = ?`
)

// Retry adds a further attempt of a run whose latest attempt did not succeed, due now, and returns its id. The run is given by
// the id of any of its attempts.
func (s *Store) Retry(ctx context.Context, tx *sqlx.Tx, at time.Time, runID int64) (newID int64, err error) {
	all, err := s.lockAttempts(ctx, tx, runID)
	if err != nil {
		return 0, err
	}
	last := all[len(all)-1]
	for _, a := range all {
		if a.live() {
			last = a // perhaps not the latest: a person set it back to PENDING
		}
	}
	if last.State != Failed && last.State != Lost && last.State != Cancelled {
		return 0, fmt.Errorf("%w: run %d is %s; only a FAILED, LOST or CANCELLED run can be tried again", ErrWrongState, last.ID, last.State)
	}
	if last.Keyed {
		if _, err := s.db.On(tx).Exec(ctx, takeKeySQL, last.ID); err != nil {
			return 0, err
		}
	}
	done, err := s.db.On(tx).Exec(ctx, retryRunSQL, at.UnixMilli(), last.ID)
	switch {
	case schema.DuplicateKey(err, s.db.Prefix, "QRTZ_RUN_KEY"):
		return 0, fmt.Errorf("%w: %w: run %d cannot be tried again while another run of its job has its key", ErrWrongState, ErrKeyTaken, last.ID)
	case schema.Duplicate(err):
		return 0, fmt.Errorf("%w: run %d has been tried again already", ErrWrongState, last.ID)
	case err != nil:
		return 0, schema.ExplainNoID(err, s.db.Prefix, "QRTZ_RUN")
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return 0, errors.Join(err, fmt.Errorf("%w: the job of run %d has been deleted", ErrNotFound, last.ID))
	}
	return done.LastInsertId()
}
