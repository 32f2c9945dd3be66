package main

import (
	"context"
	"fmt"
	"time"
)

// brokenPromisesSQL lists what a run was promised and is not so. What a person has ended by SQL may keep its key for a while.
const brokenPromisesSQL = `
SELECT 'key' AS WHAT, 0 AS EXECUTE_ID, MIN(FIRE_TIME) AS AT, CONCAT(COUNT(*), ' live runs have key ', RUN_KEY, ': ', GROUP_CONCAT(ID)) AS DETAIL
  FROM QRTZ_RUN WHERE STATE IN ('PENDING', 'RUNNING') AND RUN_KEY IS NOT NULL GROUP BY JOB_ID, RUN_KEY HAVING COUNT(*) > 1
UNION ALL
SELECT 'key', 0, FIRE_TIME, CONCAT('run ', ID, ' is ', STATE, ', its key ', RUN_KEY, ' is ', IF(KEY_LIVE IS NULL, 'free', 'taken'))
  FROM QRTZ_RUN WHERE RUN_KEY IS NOT NULL
   AND (STATE IN ('PENDING', 'RUNNING') AND KEY_LIVE IS NULL
     OR STATE NOT IN ('PENDING', 'RUNNING') AND KEY_LIVE IS NOT NULL AND KEY_ONCE = 0 AND FINISHED_AT < UNIX_TIMESTAMP() * 1000 - 60000)
UNION ALL
SELECT 'slot', COALESCE(R.EXECUTE_ID, 0), R.FIRE_TIME, CONCAT('run ', R.ID, ' is RUNNING in slot ', R.OVERLAP_SLOT, ' of ', J.MAX_RUNNING, ', key ', COALESCE(R.OVERLAP_KEY, 'none'))
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.STATE = 'RUNNING' AND J.MAX_RUNNING > 0 AND (R.OVERLAP_KEY IS NULL OR R.OVERLAP_SLOT >= J.MAX_RUNNING)
UNION ALL
SELECT 'interruption', COALESCE(EXECUTE_ID, 0), FIRE_TIME, CONCAT('run ', ID, ' is FAILED, though only its node has stopped: ', MESSAGE)
  FROM QRTZ_RUN WHERE STATE = 'FAILED' AND MESSAGE LIKE '%did not end within DrainTimeout%'
UNION ALL
SELECT 'not tried again', 0, R.FIRE_TIME, CONCAT('run ', R.ID, ' of job ', J.NAME, ' is ', R.STATE, ', attempt ', R.ATTEMPT, ' of ', J.ATTEMPTS, ', recovered ',
       R.RECOVERIES, ' times, and there is no further one')
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.EXECUTE_ID IS NULL AND R.CANCEL_AT IS NULL AND J.NAME IN ('` + paying + `', '` + keyed + `', '` + stepwise + `', '` + patient + `', '` + limited + `')
   AND (R.STATE = 'LOST' AND R.RECOVERIES < 5 OR R.STATE = 'FAILED' AND R.ATTEMPT - R.RECOVERIES < J.ATTEMPTS)
   AND R.MESSAGE NOT LIKE '%by SQL%' AND R.MESSAGE NOT LIKE '%refuse%'
   AND NOT EXISTS (SELECT 1 FROM QRTZ_RUN L WHERE L.ORIGIN = COALESCE(R.ORIGIN, R.ID) AND L.ATTEMPT > R.ATTEMPT)
UNION ALL
SELECT 'payment', 0, 0, CONCAT('account ', A.ID, ' says ', A.PAYMENTS, ' payments, ', A.BALANCE, ' in all; its runs that SUCCEEDED say ', COALESCE(S.N, 0), ', ', COALESCE(S.AMOUNT, 0))
  FROM TORTURE_ACCOUNT A LEFT JOIN (
       SELECT JSON_VALUE(R.JOB_DATA, '$.Account') AS ACCOUNT, COUNT(*) AS N, SUM(JSON_VALUE(R.JOB_DATA, '$.Amount')) AS AMOUNT
         FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = '` + paying + `' AND R.STATE = 'SUCCEEDED' GROUP BY 1) S ON S.ACCOUNT = A.ID
 WHERE A.PAYMENTS <> COALESCE(S.N, 0) OR A.BALANCE <> COALESCE(S.AMOUNT, 0)
UNION ALL
SELECT 'payment', 0, MIN(R.FIRE_TIME), CONCAT(R.RUN_KEY, ' was made ', SUM(R.STATE = 'SUCCEEDED'), ' times, by ', COUNT(DISTINCT COALESCE(R.ORIGIN, R.ID)), ' runs')
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = '` + paying + `' GROUP BY R.RUN_KEY
HAVING SUM(R.STATE = 'SUCCEEDED') > 1 OR COUNT(DISTINCT COALESCE(R.ORIGIN, R.ID)) > 1
UNION ALL
SELECT 'payment', 0, 0, CONCAT('payment ', A.ID, ' was asked for in a transaction that has committed, and has no run')
  FROM TORTURE_ASKED A WHERE NOT EXISTS (SELECT 1 FROM QRTZ_RUN R WHERE R.RUN_KEY = CONCAT('payment ', A.ID))
 LIMIT 20`

// brokenPromises are what the tables say against what runs were promised.
func (j *judge) brokenPromises(ctx context.Context) ([]finding, error) {
	found, err := j.listed(ctx, brokenPromisesSQL)
	if err != nil {
		return nil, fmt.Errorf("promises: %w", err)
	}
	return found, nil
}

// forgotten finds attempts that did not begin where the attempts before them had saved that they were.
func forgotten(byRun map[int64][]*account) (found []finding) {
	type progress struct {
		account       *account
		loaded, saved int
	}
	attempts := map[string][]progress{}
	for _, same := range byRun {
		for _, a := range same {
			if a.Class == stepwise {
				attempts[a.Key] = append(attempts[a.Key], progress{a, a.loaded - 1, a.saved})
			}
		}
	}
	for _, all := range attempts {
		for _, later := range all {
			for _, earlier := range all {
				if later.loaded >= 0 && earlier.account.Attempt < later.account.Attempt && later.loaded < earlier.saved {
					found = append(found, finding{"checkpoint", 0, time.UnixMilli(later.account.Fire), fmt.Sprintf("began at step %d: %s; but step %d had been saved: %s",
						later.loaded, later.account, earlier.saved, earlier.account)})
				}
			}
		}
	}
	return found
}
