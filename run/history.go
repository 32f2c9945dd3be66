package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/schema"
)

const (
	cleanPage   = 500       // rows looked at, and so deleted, by one statement
	cleanPages  = 20        // pages of one call with something to delete
	barrenPages = 20        // pages of one pass with nothing to delete, so that a pass at rest costs little
	oddPages    = 2         // the same among runs that ended before their time, of which there are few
	cleanAgain  = time.Hour // after which a walk that found nothing to delete is made again: KEEP_FOR may be another
	countedJobs = 100       // jobs with KEEP_RUNS of one call
	countedRuns = 20_000    // their runs that are kept, and so looked at, of one call
)

const (
	// Runs whose job has been deleted are kept as long as by default. A run that was given its state by SQL may lack
	// FINISHED_AT; it ended no earlier than it was to begin.
	//
	// Per state, in the order of QRTZ_RUN_STATE: a walk by id would go through every other app's runs. The server is told the index, as
	// for what is stuck.
	expiredSQL = `
SELECT R.ID, R.AVAILABLE_AT, COALESCE(R.FINISHED_AT, R.CLAIMED_AT, R.AVAILABLE_AT) AS FINISHED, COALESCE(J.KEEP_FOR, ?) AS KEEP_FOR
  FROM QRTZ_RUN R FORCE INDEX (QRTZ_RUN_STATE) LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.APPLICATION = ? AND R.STATE = ? AND `
	expiredSameSQL  = expiredSQL + `R.AVAILABLE_AT = ? AND R.ID > ? ORDER BY R.ID LIMIT ?`
	expiredAfterSQL = expiredSQL + `R.AVAILABLE_AT > ? AND R.AVAILABLE_AT <= ? ORDER BY R.AVAILABLE_AT, R.ID LIMIT ?`

	shortestSQL = `SELECT LEAST(COALESCE(MIN(KEEP_FOR), ?), ?) FROM QRTZ_JOB WHERE APPLICATION = ? AND KEEP_FOR > 0`

	soonestSQL = `SELECT COALESCE(MIN(AVAILABLE_AT), ?) FROM QRTZ_RUN WHERE APPLICATION = ? AND STATE = ? AND AVAILABLE_AT > ?`

	// In the order of QRTZ_JOB_KEEP_RUNS: jobs that keep all their runs are none of its range.
	countedJobsSQL = `
SELECT ID, KEEP_RUNS FROM QRTZ_JOB FORCE INDEX (QRTZ_JOB_KEEP_RUNS)
 WHERE APPLICATION = ? AND (KEEP_RUNS = ? AND ID > ? OR KEEP_RUNS > ?) ORDER BY KEEP_RUNS, ID LIMIT ?`

	surplusRunsSQL = `
SELECT ID FROM QRTZ_RUN WHERE JOB_ID = ? AND APPLICATION = ? AND STATE NOT IN ('PENDING', 'RUNNING') ORDER BY ID DESC LIMIT ? OFFSET ?`

	deleteRunsSQL = `
DELETE R FROM %s V STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID WHERE R.STATE NOT IN ('PENDING', 'RUNNING')`
)

// finalStates are those of runs that have ended.
var finalStates = []State{Succeeded, Failed, Lost, Cancelled, Skipped}

// cleanedTo is how far CleanHistory has come.
type cleanedTo struct {
	aged    runWalk    // the runs that were due long enough ago
	odd     runWalk    // the others: they may have ended before their time
	counted countedJob // the job up to which KEEP_RUNS has been looked at
}

// countedJob is a job that keeps a number of runs. The zero value is before all of them.
type countedJob struct {
	ID       int64 `db:"ID"`
	KeepRuns int   `db:"KEEP_RUNS"`
}

// runWalk is a walk through the finished runs of the app: state by state, in the order of the time they were due.
type runWalk struct {
	state   int    // of finalStates
	at      cursor // within that state
	begun   bool
	next    int64 // the earliest time, in ms, at which a run seen may be deleted
	resting int64 // the walk has come to its end, and begins again at this time
}

type cursor struct{ available, id int64 }

// CleanHistory deletes finished runs that their job keeps no longer, by age (KEEP_FOR) and by number (KEEP_RUNS), in small
// batches by primary key, and returns how many. One call does a bounded amount of work; the next continues where it ended.
// It tells whether it left some that it could have deleted.
func (s *Store) CleanHistory(ctx context.Context, now time.Time) (deleted int, more bool, err error) {
	byAge, moreByAge, err := s.cleanByAge(ctx, now.UnixMilli())
	if err != nil {
		err = fmt.Errorf("clean history by age: %w", err)
	}
	byNumber, moreByNumber, err2 := s.cleanByNumber(ctx)
	if err2 != nil {
		err2 = fmt.Errorf("clean history by number: %w", err2)
	}
	return byAge + byNumber, moreByAge || moreByNumber, errors.Join(err, err2)
}

// cleanByAge walks through the runs that were due before any job wants runs deleted that ended now; almost all that
// are to be deleted are among them, whatever the order of ids. Runs that are kept longer than others lie in its way; it
// remembers how far it came, and continues there. More slowly it walks through all others.
func (s *Store) cleanByAge(ctx context.Context, now int64) (deleted int, more bool, err error) {
	var shortest int64
	withoutJob := Defaults().KeepFor.Milliseconds()
	if err := s.db.Get(ctx, &shortest, shortestSQL, withoutJob, withoutJob, s.app); err != nil {
		return 0, false, err
	}
	bound := now - shortest
	aged, more, err := s.cleanWalk(ctx, &s.cleaned.aged, runRange{math.MinInt64, bound}, now, barrenPages, func() (int64, error) {
		return s.soonest(ctx, bound, shortest)
	})
	if err != nil {
		return aged, more, err
	}
	odd, _, err := s.cleanWalk(ctx, &s.cleaned.odd, runRange{bound, math.MaxInt64}, now, oddPages, func() (int64, error) {
		return math.MaxInt64, nil
	})
	return aged + odd, more, err
}

// soonest is when the first of the runs that were due after bound may have to be deleted.
func (s *Store) soonest(ctx context.Context, bound, shortest int64) (int64, error) {
	soonest := int64(math.MaxInt64)
	for _, state := range finalStates {
		var due int64
		if err := s.db.Get(ctx, &due, soonestSQL, int64(math.MaxInt64)-shortest, s.app, state, bound); err != nil {
			return 0, err
		}
		soonest = min(soonest, min(due, math.MaxInt64-shortest)+shortest)
	}
	return soonest, nil
}

// runRange are runs that were due after a time and not after another, in ms.
type runRange struct{ after, until int64 }

// cleanWalk continues a walk for a number of pages. At its end it rests until some run may have to be deleted:
// one that it has seen, or one that has come into its range by then, which others knows.
func (s *Store) cleanWalk(ctx context.Context, w *runWalk, in runRange, now int64, barren int, others func() (int64, error)) (deleted int, more bool, err error) {
	if now < w.resting && w.resting-now <= cleanAgain.Milliseconds() {
		return 0, false, nil
	}
	for full := 0; full < cleanPages && barren > 0 && ctx.Err() == nil; {
		n, ended, err := s.cleanRuns(ctx, w, in, now)
		deleted += n
		if err != nil {
			return deleted, false, err
		}
		if n > 0 {
			full++
		} else {
			barren--
		}
		if more = full == cleanPages && !ended; ended {
			soonest, err := others()
			w.resting = min(w.next, soonest, now+cleanAgain.Milliseconds())
			w.begun = false
			return deleted, false, err
		}
	}
	return deleted, more, nil
}

// cleanRuns deletes what is to be deleted of the next page, and continues behind it. It tells whether that was the last one.
func (s *Store) cleanRuns(ctx context.Context, w *runWalk, in runRange, now int64) (deleted int, ended bool, err error) {
	if !w.begun {
		*w = runWalk{begun: true, at: cursor{in.after, math.MaxInt64}, next: math.MaxInt64}
	}
	w.at.available = max(w.at.available, in.after)
	page, err := s.finished(ctx, w, in.until)
	if err != nil {
		return 0, false, err
	}
	var ids []int64
	for _, r := range page {
		switch {
		case r.KeepFor <= 0: // for ever
		case r.Finished < now-r.KeepFor:
			ids = append(ids, r.ID)
		default:
			w.next = min(w.next, max(r.Finished, 0)+min(r.KeepFor, math.MaxInt64/2)+1)
		}
	}
	locked, err := s.deleteRuns(ctx, ids)
	if err != nil && !schema.RowFault(err) {
		return 0, false, err
	}
	if len(locked) > 0 {
		w.next = now
	}
	if len(page) == cleanPage {
		w.at = cursor{page[len(page)-1].Available, page[len(page)-1].ID}
	} else {
		w.state, w.at = w.state+1, cursor{in.after, math.MaxInt64}
		ended = w.state == len(finalStates)
	}
	return len(ids) - len(locked), ended, err
}

// finishedRun is a run that has ended, and how long it is kept.
type finishedRun struct {
	ID        int64 `db:"ID"`
	Available int64 `db:"AVAILABLE_AT"`
	Finished  int64 `db:"FINISHED"`
	KeepFor   int64 `db:"KEEP_FOR"`
}

// finished reads the next page of a walk. Those that were due in the same millisecond as the last one come first.
func (s *Store) finished(ctx context.Context, w *runWalk, until int64) (page []finishedRun, err error) {
	withoutJob, state := Defaults().KeepFor.Milliseconds(), finalStates[w.state]
	if w.at.id < math.MaxInt64 {
		err = s.db.Select(ctx, &page, expiredSameSQL, withoutJob, s.app, state, w.at.available, w.at.id, cleanPage)
		if err != nil || len(page) == cleanPage {
			return page, err
		}
	}
	var later []finishedRun
	err = s.db.Select(ctx, &later, expiredAfterSQL, withoutJob, s.app, state, w.at.available, until, cleanPage-len(page))
	return append(page, later...), err
}

func (s *Store) deleteRuns(ctx context.Context, ids []int64) (locked []int64, err error) {
	return s.db.WriteEach(ctx, `QRTZ_RUN`, ids, func(ids []int64) error { return schema.ByKey(ctx, s.db, deleteRunsSQL, ids) })
}

// cleanByNumber continues with the jobs that keep a number of runs. It looks at all that they keep, so that it takes some
// of the jobs at a time.
func (s *Store) cleanByNumber(ctx context.Context) (deleted int, more bool, err error) {
	at := s.cleaned.counted
	if at.KeepRuns == 0 { // at the beginning: behind the jobs that keep all
		at.ID = math.MaxInt64
	}
	var jobs []countedJob
	if err := s.db.Select(ctx, &jobs, countedJobsSQL, s.app, at.KeepRuns, at.ID, at.KeepRuns, countedJobs); err != nil {
		return 0, false, err
	}
	var problems []error
	looked := 0
	for _, job := range jobs {
		if looked > countedRuns || ctx.Err() != nil {
			return deleted, false, errors.Join(problems...)
		}
		n, left, err := s.cleanJob(ctx, job.ID, job.KeepRuns)
		deleted, looked, more = deleted+n, looked+job.KeepRuns, more || left
		problems = append(problems, err)
		s.cleaned.counted = job
	}
	if len(jobs) < countedJobs {
		s.cleaned.counted = countedJob{}
	}
	return deleted, more, errors.Join(problems...)
}

// cleanJob deletes the runs of a job beyond those that it keeps.
func (s *Store) cleanJob(ctx context.Context, job int64, keep int) (deleted int, more bool, err error) {
	for range cleanPages {
		var ids []int64
		if err := s.db.Select(ctx, &ids, surplusRunsSQL, job, s.app, cleanPage, keep); err != nil {
			return deleted, false, err
		}
		slices.Sort(ids)
		locked, err := s.deleteRuns(ctx, ids)
		deleted += len(ids) - len(locked)
		if err != nil || len(ids) < cleanPage || len(locked) == len(ids) {
			return deleted, false, err
		}
	}
	return deleted, true, nil
}
