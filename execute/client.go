package execute

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// What programs do to jobs, schedules and runs. Each method works in the caller's transaction, of whatever isolation,
// and leaves nothing half done if the caller rolls back to where it was called after an error.

var (
	// ErrNotFound says that there is no such job, schedule or run in the app.
	ErrNotFound = errors.New("not found")

	// ErrWrongState says that a run is not in a state in which this can be done to it.
	ErrWrongState = errors.New("wrong state")
)

const enqueueSQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE, AVAILABLE_AT, JOB_DATA) VALUES (?, ?, ?, 'PENDING', ?, ?)`

// Enqueue adds a run of a job, due at a time, and returns its id. Data that is nil stands for the job's.
func (s *Store) Enqueue(ctx context.Context, tx *sqlx.Tx, job string, data []byte, at time.Time) (runID int64, err error) {
	jobID, err := s.jobNamed(ctx, tx, job)
	if err != nil {
		return 0, err
	}
	due := at.UnixMilli()
	done, err := tx.ExecContext(ctx, s.prefix.SQL(enqueueSQL), s.app, jobID, due, due, sql.NullString{String: string(data), Valid: data != nil})
	if err != nil {
		return 0, schema.ExplainNoID(err, s.prefix, "QRTZ_RUN")
	}
	return done.LastInsertId()
}

const (
	jobNamedSQL = `SELECT ID FROM QRTZ_JOB WHERE APPLICATION = ? AND NAME = ?`

	// The caller's snapshot may be older than the job.
	jobNamedNowSQL = jobNamedSQL + ` LOCK IN SHARE MODE`

	jobNamesSQL = `SELECT NAME FROM QRTZ_JOB WHERE APPLICATION = ? AND NAME IS NOT NULL ORDER BY NAME LIMIT 1000`
)

// jobNamed finds a job. It locks nothing if it can: a caller's long transaction must not hold up the app's nodes.
func (s *Store) jobNamed(ctx context.Context, tx *sqlx.Tx, name string) (id int64, err error) {
	for _, query := range []string{jobNamedSQL, jobNamedNowSQL} {
		err = tx.GetContext(ctx, &id, s.prefix.SQL(query), s.app, name)
		if err == nil || !errors.Is(err, sql.ErrNoRows) {
			return id, err
		}
	}
	var names []string
	if err := tx.SelectContext(ctx, &names, s.prefix.SQL(jobNamesSQL), s.app); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%w: app %q has no job named %q%s", ErrNotFound, s.app, name, suggest(name, names))
}

const (
	schedulesOfSQL = `
SELECT COALESCE(E.NAME, '') AS NAME, E.STATE_REASON, ` + rowColumns + `
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID
 WHERE E.PID = ? AND (? = '' OR E.NAME = ?) ORDER BY E.ID FOR UPDATE`

	scheduleNamesSQL = `SELECT NAME FROM QRTZ_EXECUTE WHERE PID = ? AND NAME <> '' ORDER BY NAME LIMIT 1000`
)

// schedulesOf reads and locks a schedule of a job, or all of them if the schedule's name is empty.
func (s *Store) schedulesOf(ctx context.Context, tx *sqlx.Tx, job, schedule string) ([]declaredRow, error) {
	jobID, err := s.jobNamed(ctx, tx, job)
	if err != nil {
		return nil, err
	}
	var rows []declaredRow
	if err := tx.SelectContext(ctx, &rows, s.prefix.SQL(schedulesOfSQL), jobID, schedule, schedule); err != nil {
		return nil, err
	}
	if len(rows) > 0 || schedule == "" {
		return rows, nil
	}
	var names []string
	if err := tx.SelectContext(ctx, &names, s.prefix.SQL(scheduleNamesSQL), jobID); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: job %q has no schedule named %q%s", ErrNotFound, job, schedule, suggest(schedule, names))
}

const pauseSQL = `UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED', PAUSED_AT = ? WHERE ID = ? AND STATE = 'EXECUTING'`

// Pause stops a schedule of a job, or all of them if its name is empty. What is not active stays as it is.
func (s *Store) Pause(ctx context.Context, tx *sqlx.Tx, now time.Time, job, schedule string) error {
	rows, err := s.schedulesOf(ctx, tx, job, schedule)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if _, err := tx.ExecContext(ctx, s.prefix.SQL(pauseSQL), now.UnixMilli(), r.ID); err != nil {
			return err
		}
	}
	return nil
}

const resumeSQL = `
UPDATE QRTZ_EXECUTE SET STATE = ?, NEXT_FIRE_TIME = ?, PAUSED_AT = NULL WHERE ID = ? AND STATE = 'PAUSED'`

// Resume has a paused schedule of a job, or all of them if its name is empty, fire again, from now on: what was due
// in the pause is passed over. What is not paused stays as it is.
func (s *Store) Resume(ctx context.Context, tx *sqlx.Tx, now time.Time, job, schedule string) error {
	rows, err := s.schedulesOf(ctx, tx, job, schedule)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.State != Paused {
			continue
		}
		e := r.execute(&s.schedules)
		if e.Problem != nil {
			return e.Problem
		}
		m := e.Resume(now)
		if m.State == Paused {
			m.State = Executing
		}
		if _, err := tx.ExecContext(ctx, s.prefix.SQL(resumeSQL), m.State, nextMillis(m.Next), r.ID); err != nil {
			return err
		}
	}
	return nil
}

const (
	lockJobSQL        = `SELECT ID FROM QRTZ_JOB WHERE ID = ? FOR UPDATE`
	removeExecutesSQL = `DELETE FROM QRTZ_EXECUTE WHERE PID = ?`
	removeJobSQL      = `DELETE FROM QRTZ_JOB WHERE ID = ?`

	pendingOfSQL = `SELECT ID FROM QRTZ_RUN WHERE JOB_ID = ? AND APPLICATION = ? AND STATE = 'PENDING' AND ID > ? ORDER BY ID LIMIT ?`

	cancelWaitingSQL = `
UPDATE %s V STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID
   SET R.STATE = 'CANCELLED', R.FINISHED_AT = ?, R.MESSAGE = '` + jobRemoved + `' WHERE R.STATE = 'PENDING'`

	jobRemoved = "its job was removed"
)

// Remove deletes a job and its schedules. Its runs stay on record; what runs goes on, what waits is CANCELLED. What is
// enqueued meanwhile, the misfire handler cancels.
func (s *Store) Remove(ctx context.Context, tx *sqlx.Tx, now time.Time, job string) error {
	jobID, err := s.jobNamed(ctx, tx, job)
	if err != nil {
		return err
	}
	var locked []int64 // may be none: then somebody else has just removed it
	if err := tx.SelectContext(ctx, &locked, s.prefix.SQL(lockJobSQL), jobID); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, s.prefix.SQL(removeExecutesSQL), jobID); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, s.prefix.SQL(removeJobSQL), jobID); err != nil {
		return err
	}
	return s.cancelPendingOf(ctx, tx, now, jobID)
}

// cancelPendingOf cancels the PENDING runs of a job. It looks for them without locks and writes by primary key: at
// REPEATABLE READ, which the caller's transaction may have, an UPDATE by job would lock all that it looks at, and the
// gaps beside them, in which other apps' runs are.
func (s *Store) cancelPendingOf(ctx context.Context, tx *sqlx.Tx, now time.Time, jobID int64) error {
	for after := int64(math.MinInt64); ; {
		var ids []int64
		err := s.selectRows(ctx, tx, &ids, pendingOfSQL, jobID, s.app, after, cleanPage)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := s.byKey(ctx, tx, cancelWaitingSQL, ids, now.UnixMilli()); err != nil {
			return err
		}
		after = ids[len(ids)-1]
	}
}

const (
	lockRunSQL = `SELECT STATE FROM QRTZ_RUN WHERE ID = ? AND APPLICATION = ? FOR UPDATE`

	cancelPendingSQL = `
UPDATE QRTZ_RUN SET STATE = 'CANCELLED', FINISHED_AT = ?, MESSAGE = 'cancelled before it started' WHERE ID = ?`

	askToCancelSQL = `UPDATE QRTZ_RUN SET CANCEL_AT = COALESCE(CANCEL_AT, ?) WHERE ID = ?`
)

// Cancel ends a PENDING run as CANCELLED, and asks the node of a RUNNING one to cancel it.
func (s *Store) Cancel(ctx context.Context, tx *sqlx.Tx, now time.Time, runID int64) error {
	state, err := s.lockRun(ctx, tx, runID)
	if err != nil {
		return err
	}
	switch state {
	case Pending:
		_, err = tx.ExecContext(ctx, s.prefix.SQL(cancelPendingSQL), now.UnixMilli(), runID)
	case Running:
		_, err = tx.ExecContext(ctx, s.prefix.SQL(askToCancelSQL), now.UnixMilli(), runID)
	default:
		err = fmt.Errorf("%w: run %d is %s; only a PENDING or RUNNING run can be cancelled", ErrWrongState, runID, state)
	}
	return err
}

func (s *Store) lockRun(ctx context.Context, tx *sqlx.Tx, runID int64) (state RunState, err error) {
	err = tx.GetContext(ctx, &state, s.prefix.SQL(lockRunSQL), runID, s.app)
	if errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("%w: app %q has no run %d on record", ErrNotFound, s.app, runID)
	}
	return state, err
}

const retryRunSQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, ATTEMPT, STATE, AVAILABLE_AT, FENCE, JOB_DATA, RECOVERS, RECOVERIES)
SELECT R.APPLICATION, R.JOB_ID, R.EXECUTE_ID, R.FIRE_TIME, R.ATTEMPT + 1, 'PENDING', ?, R.FENCE, R.JOB_DATA,
       IF(R.STATE = 'LOST', R.ID, NULL), R.RECOVERIES
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE R.ID = ?`

// Retry adds a further attempt of a run that did not succeed, due now, and returns its id.
func (s *Store) Retry(ctx context.Context, tx *sqlx.Tx, now time.Time, runID int64) (newID int64, err error) {
	state, err := s.lockRun(ctx, tx, runID)
	if err != nil {
		return 0, err
	}
	if state != Failed && state != Lost && state != Cancelled {
		return 0, fmt.Errorf("%w: run %d is %s; only a FAILED, LOST or CANCELLED run can be tried again", ErrWrongState, runID, state)
	}
	done, err := tx.ExecContext(ctx, s.prefix.SQL(retryRunSQL), now.UnixMilli(), runID)
	if schema.Duplicate(err) {
		return 0, fmt.Errorf("%w: run %d has been tried again already", ErrWrongState, runID)
	}
	if err != nil {
		return 0, schema.ExplainNoID(err, s.prefix, "QRTZ_RUN")
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return 0, errors.Join(err, fmt.Errorf("%w: the job of run %d has been removed", ErrNotFound, runID))
	}
	return done.LastInsertId()
}

// suggest names what somebody who wrote name may have meant.
func suggest(name string, names []string) string {
	var alike []string
	for _, n := range names {
		if distance(strings.ToLower(name), strings.ToLower(n)) <= 1+len(name)/5 {
			alike = append(alike, fmt.Sprintf("%q", n))
		}
	}
	if len(alike) == 0 || len(alike) > 5 {
		return ""
	}
	return "; did you mean " + strings.Join(alike, " or ") + "?"
}

// distance is how many bytes must be added, removed or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := corner
			if a[i] != b[j] {
				replace++
			}
			corner = row[j+1]
			row[j+1] = min(replace, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
