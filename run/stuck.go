package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/schema"
)

// Some rows can never run by themselves: they contradict each other, or what they need is missing. They are found
// among the runs that are PENDING and the executes that are overdue, some of them in each pass.

const (
	// StuckPage is how many rows one statement looks at for what is stuck.
	StuckPage = 500

	// StuckPages is how many such pages belong to one pass.
	StuckPages = 20
)

// Stuck are rows of one class that cannot run by themselves, for one reason.
type Stuck struct {
	Class string
	Why   string // empty if the class needs but a node that handles it
	Count int64  // rows seen in this pass

	// One of the rows: a run, or an execute.
	RunID, ExecuteID, JobID int64
}

// Why a row is stuck, in the words of the view and the log.
const (
	JobGone       = "its job is gone"
	JobElsewhere  = "its job belongs to another app"
	noInstance    = "it is RUNNING without an instance: no node runs it; set it to PENDING to have it run"
	cancelledSoon = "cancelled before it started"
)

// In the order of QRTZ_RUN_STATE, whenever they are due: what is asked to be cancelled need not have come to its time. The server is told
// the index: it would else find those that are due in one millisecond by that alone, and pass the ids before the one wanted one by one.
const (
	stuckSQL = `
SELECT R.ID, R.JOB_ID, R.AVAILABLE_AT, COALESCE(J.JOB_CLASS, '') AS JOB_CLASS, J.ID IS NULL AS WITHOUT_JOB,
       COALESCE(J.APPLICATION <> R.APPLICATION, 0) AS ELSEWHERE, R.CANCEL_AT IS NOT NULL AS CANCEL, R.MESSAGE IS NULL AS UNSAID
  FROM QRTZ_RUN R FORCE INDEX (QRTZ_RUN_STATE) LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.APPLICATION = ? AND R.STATE = 'PENDING' AND `
	stuckSameSQL  = stuckSQL + `R.AVAILABLE_AT = ? AND R.ID > ? ORDER BY R.ID LIMIT ?`
	stuckAfterSQL = stuckSQL + `R.AVAILABLE_AT > ? ORDER BY R.AVAILABLE_AT, R.ID LIMIT ?`

	cancelStuckSQL = `
UPDATE %s V STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID 
   SET R.STATE = 'CANCELLED', R.FINISHED_AT = ?, R.MESSAGE = ?, ` + releaseKeySQL + ` WHERE R.STATE = 'PENDING'`

	withoutInstanceSQL = `
SELECT R.ID, R.JOB_ID, COALESCE(J.JOB_CLASS, '') AS JOB_CLASS, R.MESSAGE IS NULL AS UNSAID
  FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.APPLICATION = ? AND R.STATE = 'RUNNING' AND R.INSTANCE IS NULL ORDER BY R.ID LIMIT ?`

	sayWhySQL = `UPDATE %s V STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID SET R.MESSAGE = ? WHERE R.STATE = ? AND R.MESSAGE IS NULL`
)

// maybeStuck is a run, and what may keep it from ever running.
type maybeStuck struct {
	ID         int64  `db:"ID"`
	JobID      int64  `db:"JOB_ID"`
	Available  int64  `db:"AVAILABLE_AT"`
	Class      string `db:"JOB_CLASS"`
	WithoutJob bool   `db:"WITHOUT_JOB"`
	Elsewhere  bool   `db:"ELSEWHERE"`
	Cancel     bool   `db:"CANCEL"`
	Unsaid     bool   `db:"UNSAID"` // the row has no message
}

// StuckRuns cancels PENDING runs with a CANCEL_AT, and those whose job is gone: it was deleted by SQL, or while they were
// being enqueued, which locks no job. It returns the other runs that cannot run by themselves, and says so on their rows. It
// also returns the classes of PENDING runs that are due: perhaps no node has a handler for them.
//
// One call looks at a bounded number of runs; the next continues behind them, and begins again after the last.
func (s *Store) StuckRuns(ctx context.Context, now time.Time) ([]Stuck, error) {
	found := Tally{}
	err := errors.Join(s.findStuck(ctx, now.UnixMilli(), found), s.withoutInstance(ctx, found))
	if err != nil {
		err = fmt.Errorf("look for runs that cannot run: %w", err)
	}
	return found.All(), err
}

func (s *Store) findStuck(ctx context.Context, now int64, found Tally) error {
	var problems []error
	for range StuckPages {
		page, err := s.pendingPage(ctx)
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		var cancel, withoutJob, say []int64
		for _, r := range page {
			switch {
			case r.Cancel:
				cancel = append(cancel, r.ID)
			case r.WithoutJob && r.Available <= now:
				withoutJob = append(withoutJob, r.ID)
			case r.Elsewhere:
				found.Add(Stuck{Class: r.Class, Why: JobElsewhere, RunID: r.ID, JobID: r.JobID})
				if r.Unsaid {
					say = append(say, r.ID)
				}
			case !r.WithoutJob && r.Available <= now:
				found.Add(Stuck{Class: r.Class, RunID: r.ID, JobID: r.JobID})
			}
		}
		problems = append(problems,
			s.cancelRuns(ctx, now, cancel, cancelledSoon), s.cancelRuns(ctx, now, withoutJob, jobDeleted), s.sayWhy(ctx, say, Pending, JobElsewhere))
		if s.stuckTo = nil; len(page) < StuckPage {
			break
		}
		s.stuckTo = &cursor{page[len(page)-1].Available, page[len(page)-1].ID}
	}
	return errors.Join(problems...)
}

// pendingPage reads the next PENDING runs.
func (s *Store) pendingPage(ctx context.Context) (page []maybeStuck, err error) {
	after := int64(math.MinInt64)
	if at := s.stuckTo; at != nil {
		after = at.available
		err = s.db.Select(ctx, &page, stuckSameSQL, s.app, at.available, at.id, StuckPage)
		if err != nil || len(page) == StuckPage {
			return page, err
		}
	}
	var later []maybeStuck
	err = s.db.Select(ctx, &later, stuckAfterSQL, s.app, after, StuckPage-len(page))
	return append(page, later...), err
}

func (s *Store) cancelRuns(ctx context.Context, now int64, ids []int64, why string) error {
	slices.Sort(ids)
	_, err := s.db.WriteEach(ctx, `QRTZ_RUN`, ids, func(ids []int64) error {
		return schema.ByKey(ctx, s.db, cancelStuckSQL, ids, now, why)
	})
	return err
}

// withoutInstance finds runs that are RUNNING without an instance, so that no death of a node ends them.
func (s *Store) withoutInstance(ctx context.Context, found Tally) error {
	var rows []maybeStuck
	if err := s.db.Select(ctx, &rows, withoutInstanceSQL, s.app, StuckPage); err != nil {
		return err
	}
	var say []int64
	for _, r := range rows {
		found.Add(Stuck{Class: r.Class, Why: noInstance, RunID: r.ID, JobID: r.JobID})
		if r.Unsaid {
			say = append(say, r.ID)
		}
	}
	return s.sayWhy(ctx, say, Running, noInstance)
}

func (s *Store) sayWhy(ctx context.Context, ids []int64, state State, why string) error {
	slices.Sort(ids)
	_, err := s.db.WriteEach(ctx, `QRTZ_RUN`, ids, func(ids []int64) error { return schema.ByKey(ctx, s.db, sayWhySQL, ids, why, state) })
	return err
}

// Tally counts rows that are stuck for the same reason.
type Tally map[[2]string]*Stuck

// Add counts one row more, which is remembered if it is the first for its reason.
func (t Tally) Add(row Stuck) {
	key := [2]string{row.Class, row.Why}
	if t[key] == nil {
		t[key] = &row
	}
	t[key].Count++
}

// All lists the reasons, by class.
func (t Tally) All() []Stuck {
	all := make([]Stuck, 0, len(t))
	for _, stuck := range t {
		all = append(all, *stuck)
	}
	slices.SortFunc(all, func(a, b Stuck) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Why, b.Why)) })
	return all
}
