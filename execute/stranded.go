package execute

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	strandedPage  = 500 // PENDING runs looked at by one statement
	strandedPages = 20  // of one pass
)

// In the order of QRTZ_RUN_STATE, whenever they are due: what is asked to be cancelled need not have come to its time.
const (
	strandedSQL = `
SELECT R.ID, R.AVAILABLE_AT, J.ID IS NULL AS WITHOUT_JOB, R.CANCEL_AT IS NOT NULL AS CANCEL
  FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.APPLICATION = ? AND R.STATE = 'PENDING' AND `
	strandedSameSQL  = strandedSQL + `R.AVAILABLE_AT = ? AND R.ID > ? ORDER BY R.ID LIMIT ?`
	strandedAfterSQL = strandedSQL + `R.AVAILABLE_AT > ? ORDER BY R.AVAILABLE_AT, R.ID LIMIT ?`

	cancelStrandedSQL = `
UPDATE QRTZ_RUN SET STATE = 'CANCELLED', FINISHED_AT = ?, MESSAGE = ? WHERE ID IN (?) AND STATE = 'PENDING'`

	cancelledEarly = "cancelled before it started"
)

// strandedRun is a PENDING run, and what may keep it from ever running.
type strandedRun struct {
	ID         int64 `db:"ID"`
	Available  int64 `db:"AVAILABLE_AT"`
	WithoutJob bool  `db:"WITHOUT_JOB"`
	Cancel     bool  `db:"CANCEL"`
}

// CancelStranded cancels PENDING runs that somebody wants cancelled by CANCEL_AT, and those whose job is gone: it was
// removed by SQL, or while they were being enqueued, which locks no job. One call looks at a bounded number of runs; the
// next goes on behind them, and after the last begins again.
func (s *Store) CancelStranded(ctx context.Context, now time.Time) error {
	var problems []error
	for range strandedPages {
		page, err := s.pendingPage(ctx)
		if err != nil {
			return fmt.Errorf("look for runs to be cancelled: %w", err)
		}
		var cancel, withoutJob []int64
		for _, r := range page {
			switch {
			case r.Cancel:
				cancel = append(cancel, r.ID)
			case r.WithoutJob && r.Available <= now.UnixMilli():
				withoutJob = append(withoutJob, r.ID)
			}
		}
		problems = append(problems, s.cancelRuns(ctx, now, cancel, cancelledEarly), s.cancelRuns(ctx, now, withoutJob, jobRemoved))
		if s.stranded = nil; len(page) < strandedPage {
			break
		}
		s.stranded = &runCursor{page[len(page)-1].Available, page[len(page)-1].ID}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("cancel runs: %w", err)
	}
	return nil
}

// pendingPage reads the next PENDING runs.
func (s *Store) pendingPage(ctx context.Context) (page []strandedRun, err error) {
	after := int64(math.MinInt64)
	if at := s.stranded; at != nil {
		after = at.available
		err = s.selectRows(ctx, s.db, &page, strandedSameSQL, s.app, at.available, at.id, strandedPage)
		if err != nil || len(page) == strandedPage {
			return page, err
		}
	}
	var later []strandedRun
	err = s.selectRows(ctx, s.db, &later, strandedAfterSQL, s.app, after, strandedPage-len(page))
	return append(page, later...), err
}

func (s *Store) cancelRuns(ctx context.Context, now time.Time, ids []int64, why string) error {
	slices.Sort(ids)
	_, err := s.writeEach(ctx, `QRTZ_RUN`, ids, func(ids []int64) error {
		return s.execIn(ctx, s.db, cancelStrandedSQL, now.UnixMilli(), why, ids)
	})
	return err
}
