package execute

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// What programs and operators do to jobs and executes, by id; to runs: package run. Each method works in the caller's
// transaction, of whatever isolation, and leaves nothing half done if the caller rolls back to where it was called after
// an error. An id of another app is not found.

// Changed is what a verb made of the state of an execute. From and To are the same if it left the execute as it was.
type Changed struct {
	ID       int64
	From, To State
}

// operatorPage is how many executes one statement reads or writes.
const operatorPage = 500

const (
	pauseSQL = `
UPDATE %s V STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = V.ID SET E.STATE = 'PAUSED', E.PAUSED_AT = ? WHERE E.STATE = 'EXECUTING'`

	resumeSQL = `
UPDATE %s V STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = V.ID
   SET E.STATE = V.STATE1, E.NEXT_FIRE_TIME = V.NEXT1, E.PAUSED_AT = NULL WHERE E.STATE IN ('PAUSED', 'INIT')`
)

// Pause pauses those of the executes that are EXECUTING, and tells what it made of each.
func (s *Store) Pause(ctx context.Context, tx *sqlx.Tx, now time.Time, ids ...int64) (all []Changed, err error) {
	return s.changeExecutes(ctx, tx, ids, func(rows []row, changed []Changed) error {
		var active []int64
		for i, r := range rows {
			if r.State == Executing {
				changed[i].To = Paused
				active = append(active, r.ID)
			}
		}
		if len(active) == 0 {
			return nil
		}
		return schema.ByKey(ctx, s.db.On(tx), pauseSQL, active, now.UnixMilli())
	})
}

// Resume has those of the executes fire again, from now on, that are PAUSED or were never started (INIT), and tells what
// it made of each. What was due in a pause is passed over; an execute with nothing left to fire is COMPLETE. It returns an
// error if the schedule of one of them cannot be used.
func (s *Store) Resume(ctx context.Context, tx *sqlx.Tx, now time.Time, ids ...int64) ([]Changed, error) {
	return s.changeExecutes(ctx, tx, ids, func(rows []row, changed []Changed) error {
		var next []any
		for i, r := range rows {
			if r.State != Paused && r.State != Init {
				continue
			}
			e := r.execute(&s.schedules)
			if e.Problem != nil {
				return e.Problem
			}
			m := e.begunAgain(now)
			changed[i].To = m.State
			next = append(next, r.ID, m.State, nextMillis(m.Next))
		}
		if len(next) == 0 {
			return nil
		}
		table, args := schema.Values(next, "ID", "STATE1", "NEXT1")
		_, err := s.db.On(tx).Exec(ctx, fmt.Sprintf(resumeSQL, table), args...)
		return err
	})
}

// begunAgain is the move of an execute that an operator has fire. A next fire that was given to one that was never
// started stays.
func (e *Execute) begunAgain(now time.Time) Move {
	m := e.MoveTo(now)
	switch {
	case e.State == Init && e.Next.IsZero():
		m = e.BeginMove(now)
	case e.State == Init:
		m.State, m.Next = e.State, e.Next
	}
	if m.State != Complete {
		m.State = Executing
	}
	return m
}

// lockedRowsSQL has a table of ids for %s.
const lockedRowsSQL = `
SELECT ` + rowColumns + `
  FROM %s V STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = V.ID
  STRAIGHT_JOIN QRTZ_JOB J FORCE INDEX (PRIMARY) ON J.ID = E.PID
 WHERE E.APPLICATION = ? OR E.APPLICATION IS NULL AND J.APPLICATION = ?
 ORDER BY E.ID FOR UPDATE`

// changeExecutes locks executes of the app, page by page in the order of their ids, and has change write each page and say
// what becomes of its rows.
func (s *Store) changeExecutes(ctx context.Context, tx *sqlx.Tx, ids []int64, change func([]row, []Changed) error) (all []Changed, err error) {
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	for page := range slices.Chunk(sorted, operatorPage) {
		table, args := schema.Values(schema.Anys(page), "ID")
		var rows []row
		if err := s.db.On(tx).Select(ctx, &rows, fmt.Sprintf(lockedRowsSQL, table), append(args, s.app, s.app)...); err != nil {
			return nil, err
		}
		changed := make([]Changed, len(rows))
		for i, r := range rows {
			changed[i] = Changed{r.ID, r.State, r.State}
		}
		for i, id := range page {
			if i >= len(rows) || rows[i].ID != id {
				return nil, s.noExecute(id)
			}
		}
		if err := change(rows, changed); err != nil {
			return nil, err
		}
		all = append(all, changed...)
	}
	return all, nil
}

func (s *Store) noExecute(id int64) error {
	return fmt.Errorf("%w: app %q has no schedule %d", run.ErrNotFound, s.app, id)
}

const (
	lockJobSQL        = `SELECT ID FROM QRTZ_JOB WHERE ID = ? AND APPLICATION = ? FOR UPDATE`
	deleteExecutesSQL = `DELETE FROM QRTZ_EXECUTE WHERE PID = ?`
	deleteJobSQL      = `DELETE FROM QRTZ_JOB WHERE ID = ?`

	lockExecuteSQL   = `SELECT PID, APPLICATION = ? AS OURS FROM QRTZ_EXECUTE WHERE ID = ? FOR UPDATE`
	jobIsOursSQL     = `SELECT APPLICATION = ? FROM QRTZ_JOB WHERE ID = ?`
	deleteExecuteSQL = `DELETE FROM QRTZ_EXECUTE WHERE ID = ?`
)

// DeleteJob deletes a job and its executes. Its runs stay on record: those that are RUNNING continue, those that are
// PENDING are CANCELLED. What is enqueued meanwhile, the misfire handler cancels.
func (s *Store) DeleteJob(ctx context.Context, tx *sqlx.Tx, now time.Time, id int64) error {
	var locked []int64
	if err := s.db.On(tx).Select(ctx, &locked, lockJobSQL, id, s.app); err != nil {
		return err
	}
	if len(locked) == 0 {
		return fmt.Errorf("%w: app %q has no job %d", run.ErrNotFound, s.app, id)
	}
	for _, statement := range []string{deleteExecutesSQL, deleteJobSQL} {
		if _, err := s.db.On(tx).Exec(ctx, statement, id); err != nil {
			return err
		}
	}
	return s.runs.CancelPendingOfJob(ctx, tx, now, id)
}

// DeleteExecute deletes an execute. Its runs stay on record, as with DeleteJob.
func (s *Store) DeleteExecute(ctx context.Context, tx *sqlx.Tx, now time.Time, id int64) error {
	var row struct {
		Job  int64        `db:"PID"`
		Ours sql.NullBool `db:"OURS"` // NULL: it has not been adopted, and belongs to the app of its job, if there is one
	}
	err := s.db.On(tx).Get(ctx, &row, lockExecuteSQL, s.app, id)
	if err == nil && !row.Ours.Valid {
		row.Ours.Bool = true
		if err = s.db.On(tx).Get(ctx, &row.Ours.Bool, jobIsOursSQL, s.app, row.Job); errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
	}
	if errors.Is(err, sql.ErrNoRows) || err == nil && !row.Ours.Bool {
		return s.noExecute(id)
	}
	if err != nil {
		return err
	}
	if _, err := s.db.On(tx).Exec(ctx, deleteExecuteSQL, id); err != nil {
		return err
	}
	return s.runs.CancelPendingOfExecute(ctx, tx, now, id)
}
