package run

import (
	"context"
	"fmt"
	"time"
)

// Which run of a schedule, or of a job, has succeeded last is found by a walk back through an index, in pages.
const (
	lastOfScheduleSQL = `
SELECT ID, FIRE_TIME, ATTEMPT, STATE = 'SUCCEEDED' AS DONE FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_FIRE)
 WHERE EXECUTE_ID = ? AND FIRE_TIME <= ? AND (FIRE_TIME < ? OR ATTEMPT < ?) ORDER BY EXECUTE_ID DESC, FIRE_TIME DESC, ATTEMPT DESC LIMIT ?`

	lastOfJobSQL = `
SELECT ID, FIRE_TIME, ATTEMPT, STATE = 'SUCCEEDED' AND EXECUTE_ID IS NULL AS DONE FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_JOB)
 WHERE JOB_ID = ? AND ID < ? ORDER BY JOB_ID DESC, ID DESC LIMIT ?`

	lastFirst = 10   // rows that are looked at first: nearly always the run before has succeeded
	lastPage  = 1000 // rows of each further page
)

// MaxLookBack is how many runs LastSuccess looks at.
const MaxLookBack = 100_000

// lastRow is a run that a walk back comes by.
type lastRow struct {
	ID       int64 `db:"ID"`
	FireTime int64 `db:"FIRE_TIME"`
	Attempt  int   `db:"ATTEMPT"`
	Done     bool  `db:"DONE"`
}

// LastSuccess is when the last run before r was due that has SUCCEEDED: of the same schedule, or of the job's without one. It is
// the zero time if none is on record, and an error if none is among the last MaxLookBack.
func (s *Store) LastSuccess(ctx context.Context, r Run) (time.Time, error) {
	at, limit := lastRow{ID: r.ID, FireTime: r.FireTime.UnixMilli()}, lastFirst // and not an attempt of the same fire
	for looked := 0; looked < MaxLookBack; looked += limit {
		if looked > 0 {
			limit = lastPage
		}
		page, err := s.pageBack(ctx, r, at, limit)
		if err != nil {
			return time.Time{}, err
		}
		for _, row := range page {
			if row.Done {
				return time.UnixMilli(row.FireTime), nil
			}
		}
		if len(page) < limit {
			return time.Time{}, nil
		}
		at = page[len(page)-1]
	}
	return time.Time{}, fmt.Errorf("none of the %d runs before it has succeeded", MaxLookBack)
}

// pageBack reads the runs before one.
func (s *Store) pageBack(ctx context.Context, r Run, before lastRow, limit int) (page []lastRow, err error) {
	if r.ExecuteID != 0 {
		err = s.db.Select(ctx, &page, lastOfScheduleSQL, r.ExecuteID, before.FireTime, before.FireTime, before.Attempt, limit)
	} else {
		err = s.db.Select(ctx, &page, lastOfJobSQL, r.JobID, before.ID, limit)
	}
	return page, err
}
