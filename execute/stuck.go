package execute

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// What contradicts its job is never moved, so that it stays overdue, or without a next fire. The server is told the index, so that it
// continues within one millisecond where the last page ended.
const (
	stuckSQL = `
SELECT E.ID, E.PID, E.NEXT_FIRE_TIME, COALESCE(J.JOB_CLASS, '') AS JOB_CLASS, J.ID IS NULL AS WITHOUT_JOB,
       COALESCE(J.APPLICATION <> E.APPLICATION, 0) AS ELSEWHERE
  FROM QRTZ_EXECUTE E FORCE INDEX (QRTZ_EXECUTE_DUE) LEFT JOIN QRTZ_JOB J ON J.ID = E.PID
 WHERE E.APPLICATION = ? AND E.STATE = 'EXECUTING' AND `
	stuckNewSQL   = stuckSQL + `E.NEXT_FIRE_TIME IS NULL ORDER BY E.ID LIMIT ?`
	stuckSameSQL  = stuckSQL + `E.NEXT_FIRE_TIME = ? AND E.ID > ? ORDER BY E.ID LIMIT ?`
	stuckAfterSQL = stuckSQL + `E.NEXT_FIRE_TIME > ? AND E.NEXT_FIRE_TIME <= ? ORDER BY E.NEXT_FIRE_TIME, E.ID LIMIT ?`
)

type stuckExecute struct {
	ID         int64  `db:"ID"`
	JobID      int64  `db:"PID"`
	Next       *int64 `db:"NEXT_FIRE_TIME"`
	Class      string `db:"JOB_CLASS"`
	WithoutJob bool   `db:"WITHOUT_JOB"`
	Elsewhere  bool   `db:"ELSEWHERE"`
}

// StuckExecutes returns active executes that contradict their jobs, and the classes of others that are due, or have no
// next fire: perhaps no node has a handler for them. Like run.Store.StuckRuns it looks at a bounded number of them in one call.
func (s *Store) StuckExecutes(ctx context.Context, now time.Time) ([]run.Stuck, error) {
	var rows []stuckExecute
	err := s.db.Select(ctx, &rows, stuckNewSQL, s.app, run.StuckPage)
	found := run.Tally{}
	for pages := 0; err == nil; pages++ {
		for _, e := range rows {
			stuck := run.Stuck{Class: e.Class, ExecuteID: e.ID, JobID: e.JobID}
			switch {
			case e.WithoutJob:
				stuck.Why = run.JobGone
			case e.Elsewhere:
				stuck.Why = run.JobElsewhere
			}
			found.Add(stuck)
		}
		if pages > 0 {
			if s.stuckTo = nil; len(rows) < run.StuckPage {
				break
			}
			s.stuckTo = &Cursor{*rows[len(rows)-1].Next, rows[len(rows)-1].ID}
		}
		if pages == run.StuckPages {
			break
		}
		rows, err = s.overduePage(ctx, now.UnixMilli())
	}
	if err != nil {
		err = fmt.Errorf("look for executes that cannot run: %w", err)
	}
	return found.All(), err
}

func (s *Store) overduePage(ctx context.Context, now int64) (page []stuckExecute, err error) {
	after := int64(math.MinInt64)
	if at := s.stuckTo; at != nil {
		after = at.Next
		err = s.db.Select(ctx, &page, stuckSameSQL, s.app, at.Next, at.ID, run.StuckPage)
		if err != nil || len(page) == run.StuckPage {
			return page, err
		}
	}
	var later []stuckExecute
	err = s.db.Select(ctx, &later, stuckAfterSQL, s.app, after, now, run.StuckPage-len(page))
	return append(page, later...), err
}
