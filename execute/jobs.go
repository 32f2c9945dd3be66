package execute

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/schema"
)

const (
	changedJobsSQL = `
SELECT DISTINCT PID FROM QRTZ_EXECUTE WHERE APPLICATION = ? AND CHANGED_AT >= FROM_UNIXTIME(? / 1000)`

	derivedSQL = `
SELECT J.ID, J.STATE AS WAS,
       CASE WHEN MAX(E.STATE = 'ERROR') THEN 'ERROR' WHEN MAX(E.STATE = 'EXECUTING') THEN 'EXECUTING'
            WHEN MAX(E.STATE = 'PAUSED') THEN 'PAUSED' WHEN MIN(E.STATE = 'COMPLETE') THEN 'COMPLETE' ELSE 'INIT' END AS DERIVED
  FROM QRTZ_JOB J JOIN QRTZ_EXECUTE E ON E.PID = J.ID
 WHERE J.ID IN (?) GROUP BY J.ID, J.STATE HAVING DERIVED <> WAS`

	setJobStateSQL = `UPDATE QRTZ_JOB SET STATE = ? WHERE ID = ? AND STATE = ?`
)

// jobPage is how many jobs one statement derives: it reads all their executes.
const jobPage = 500

// DeriveJobStates makes the state of every job that had an execute added or changed since a time follow from its
// executes: ERROR if any is in ERROR, else EXECUTING, else PAUSED, else COMPLETE if all are, else INIT.
// Claims do not count as changes, unless they complete a schedule. It reads without locks and writes only
// what differs.
func (s *Store) DeriveJobStates(ctx context.Context, since time.Time) error {
	var jobs []int64
	if err := s.selectRows(ctx, s.db, &jobs, changedJobsSQL, s.app, max(since.UnixMilli(), 1)); err != nil {
		return fmt.Errorf("derive job states: %w", err)
	}
	for some := range slices.Chunk(jobs, jobPage) {
		var differ []struct {
			ID      int64 `db:"ID"`
			Was     State `db:"WAS"`
			Derived State `db:"DERIVED"`
		}
		if err := s.selectRows(ctx, s.db, &differ, derivedSQL, some); err != nil {
			return fmt.Errorf("derive job states: %w", err)
		}
		for _, job := range differ {
			if _, err := schema.Exec(ctx, s.db, s.prefix.SQL(setJobStateSQL), job.Derived, job.ID, job.Was); err != nil {
				return fmt.Errorf("derive the state of job %d: %w", job.ID, err)
			}
		}
	}
	return nil
}
