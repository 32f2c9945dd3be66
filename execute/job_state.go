package execute

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/schema"
)

const (
	derivedToSQL = `SELECT DERIVED_TO, DERIVED_ID, ` + schema.NowMillisSQL + ` AS NOW_MS FROM QRTZ_APP WHERE APPLICATION = ?`

	changedExecutesSQL = `
SELECT ID, PID, CAST(UNIX_TIMESTAMP(CHANGED_AT) * 1000 AS SIGNED) AS CHANGED_MS FROM QRTZ_EXECUTE
 WHERE APPLICATION = ? AND CHANGED_AT >= FROM_UNIXTIME(? / 1000) AND (CHANGED_AT > FROM_UNIXTIME(? / 1000) OR ID > ?)
 ORDER BY CHANGED_AT, ID LIMIT ?`

	derivedSQL = `
SELECT J.ID, J.STATE AS WAS,
       CASE WHEN MAX(E.STATE = 'ERROR') THEN 'ERROR' WHEN MAX(E.STATE = 'EXECUTING') THEN 'EXECUTING'
            WHEN MAX(E.STATE = 'PAUSED') THEN 'PAUSED' WHEN MIN(E.STATE = 'COMPLETE') THEN 'COMPLETE' ELSE 'INIT' END AS DERIVED
  FROM QRTZ_JOB J JOIN QRTZ_EXECUTE E ON E.PID = J.ID
 WHERE J.ID IN (?) AND J.APPLICATION = ? GROUP BY J.ID, J.STATE HAVING DERIVED <> WAS`

	setJobStatesSQL = `UPDATE %s V STRAIGHT_JOIN QRTZ_JOB J ON J.ID = V.ID SET J.STATE = V.STATE1 WHERE J.STATE = V.STATE0`

	setDerivedToSQL = `UPDATE QRTZ_APP SET DERIVED_TO = ?, DERIVED_ID = ?, SWITCHED_AT = SWITCHED_AT WHERE APPLICATION = ?`
)

const (
	jobPage = 500 // executes looked at by one statement, whose jobs the next one writes

	// derivePages is how many pages of one call are done, after which it is noted how far it has come.
	derivePages = 20

	// lateCommit is how long a change by SQL may take to be committed and still be noticed.
	lateCommit = time.Minute
)

// derived is how far the states of jobs follow from their executes: to the changes of executes up to a time, and of
// those of that very millisecond up to an id.
type derived struct{ to, id int64 }

// DeriveJobStates makes the state of every job that had an execute added or changed follow from its
// executes: ERROR if any is in ERROR, else EXECUTING, else PAUSED, else COMPLETE if all are, else INIT.
// Claims do not count as changes, unless they complete a schedule. It reads without locks and writes only
// what differs.
//
// It walks through the executes in order of their changes. QRTZ_APP says how far the walk has come: one that is cut off
// continues there, on any node. It tells whether there is more to do.
func (s *Store) DeriveJobStates(ctx context.Context) (more bool, err error) {
	if more, err = s.deriveSome(ctx); err != nil {
		return false, fmt.Errorf("derive job states: %w", err)
	}
	return more, nil
}

func (s *Store) deriveSome(ctx context.Context) (more bool, err error) {
	was, now, err := s.derivedTo(ctx)
	if err != nil {
		return false, err
	}
	w := s.deriving
	if w == nil {
		w = &derivation{at: was, done: was}
	}
	s.deriving = nil
	var problems []error
	for pages, n := 0, jobPage; pages < derivePages && n == jobPage; pages++ {
		n, err = s.derivePage(ctx, w)
		if problems = append(problems, err); err != nil && !schema.RowFault(err) {
			break
		}
		more = n == jobPage
	}
	if more {
		s.deriving = w
	}
	return more, errors.Join(append(problems, s.noteDerived(ctx, was, w.done, now))...)
}

// derivation is a walk through changed executes.
type derivation struct {
	at   derived // how far it has come
	done derived // how far all has been done
	held bool    // some job was locked: the next walk begins before it
}

// derivedTo is how far the last walk has come. A time that is still to come, or none, was written by SQL.
func (s *Store) derivedTo(ctx context.Context) (to derived, now int64, err error) {
	var noted struct {
		To  sql.NullInt64 `db:"DERIVED_TO"`
		ID  sql.NullInt64 `db:"DERIVED_ID"`
		Now int64         `db:"NOW_MS"`
	}
	err = s.db.Get(ctx, &noted, derivedToSQL, s.app)
	if !noted.ID.Valid || noted.To.Int64 < 1 || noted.To.Int64 > noted.Now {
		return derived{1, math.MinInt64}, noted.Now, err
	}
	return derived{noted.To.Int64, noted.ID.Int64}, noted.Now, err
}

// derivePage brings the jobs of the next page of changed executes in line, and returns how many executes those were.
func (s *Store) derivePage(ctx context.Context, w *derivation) (n int, err error) {
	var page []struct {
		ID      int64 `db:"ID"`
		JobID   int64 `db:"PID"`
		Changed int64 `db:"CHANGED_MS"`
	}
	err = s.db.Select(ctx, &page, changedExecutesSQL, s.app, w.at.to, w.at.to, w.at.id, jobPage)
	if err != nil || len(page) == 0 {
		return 0, err
	}
	jobs := make([]int64, len(page))
	for i, e := range page {
		jobs[i] = e.JobID
	}
	slices.Sort(jobs)
	locked, err := s.deriveJobs(ctx, slices.Compact(jobs))
	if err != nil && !schema.RowFault(err) {
		return 0, err
	}
	last := page[len(page)-1]
	w.at, w.held = derived{last.Changed, last.ID}, w.held || len(locked) > 0
	if !w.held {
		w.done = w.at
	}
	return len(page), err
}

// deriveJobs brings jobs in line, and returns those that another transaction has locked.
func (s *Store) deriveJobs(ctx context.Context, jobs []int64) (locked []int64, err error) {
	type job struct {
		ID      int64 `db:"ID"`
		Was     State `db:"WAS"`
		Derived State `db:"DERIVED"`
	}
	var differ []job
	if err := s.db.Select(ctx, &differ, derivedSQL, jobs, s.app); err != nil {
		return nil, err
	}
	ids, byID := make([]int64, len(differ)), make(map[int64]job, len(differ))
	for i, j := range differ {
		ids[i], byID[j.ID] = j.ID, j
	}
	slices.Sort(ids)
	return s.db.WriteEach(ctx, `QRTZ_JOB`, ids, func(ids []int64) error {
		rows := make([]any, 0, 3*len(ids))
		for _, id := range ids {
			rows = append(rows, id, byID[id].Was, byID[id].Derived)
		}
		table, args := schema.Values(rows, "ID", "STATE0", "STATE1")
		return s.db.Write(ctx, fmt.Sprintf(setJobStatesSQL, table), args...)
	})
}

// noteDerived notes how far a walk has come, if that is further than before. What changed within the last minute is
// looked at again.
func (s *Store) noteDerived(ctx context.Context, was, done derived, now int64) error {
	if latest := now - lateCommit.Milliseconds(); done.to >= latest {
		done = derived{latest, math.MinInt64}
	}
	if done.to < was.to || done.to == was.to && done.id <= was.id {
		return nil
	}
	_, err := s.db.Exec(ctx, setDerivedToSQL, done.to, done.id, s.app)
	return err
}
