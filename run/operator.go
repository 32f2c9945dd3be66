package run

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// What programs and operators do to runs, by id. Each method works in the caller's transaction, of whatever isolation,
// and leaves nothing half done if the caller rolls back to where it was called after an error. An id of another app is not
// found.

var (
	// ErrNotFound says that there is no such job, schedule or run in the app.
	ErrNotFound = errors.New("not found")

	// ErrWrongState is returned by Cancel for a run that has ended, and by Retry for one that has not failed.
	ErrWrongState = errors.New("wrong state")
)

const enqueueSQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE, AVAILABLE_AT, JOB_DATA) VALUES (?, ?, ?, 'PENDING', ?, ?)`

// Enqueue adds a run of a job, due at a time, and returns its id. Data that is nil stands for the job's. The caller has
// found the job in the app (execute.Store.JobNamed, CheckJob). If the job is deleted meanwhile, the misfire handler cancels the run.
func (s *Store) Enqueue(ctx context.Context, tx *sqlx.Tx, jobID int64, data []byte, at time.Time) (runID int64, err error) {
	due := at.UnixMilli()
	done, err := s.db.On(tx).Exec(ctx, enqueueSQL, s.app, jobID, due, due, sql.NullString{String: string(data), Valid: data != nil})
	if err != nil {
		return 0, schema.ExplainNoID(err, s.db.Prefix, "QRTZ_RUN")
	}
	return done.LastInsertId()
}

const (
	pendingOfJobSQL     = `SELECT ID FROM QRTZ_RUN WHERE JOB_ID = ? AND APPLICATION = ? AND STATE = 'PENDING' AND ID > ? ORDER BY ID LIMIT ?`
	pendingOfExecuteSQL = `SELECT ID FROM QRTZ_RUN WHERE EXECUTE_ID = ? AND APPLICATION = ? AND STATE = 'PENDING' AND ID > ? ORDER BY ID LIMIT ?`

	cancelPendingOfSQL = `
UPDATE %s V STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID
   SET R.STATE = 'CANCELLED', R.FINISHED_AT = ?, R.MESSAGE = ? WHERE R.STATE = 'PENDING'`

	jobDeleted      = "its job was deleted"
	scheduleDeleted = "its schedule was deleted"
)

// CancelPendingOfJob cancels the PENDING runs of a job that is being deleted.
func (s *Store) CancelPendingOfJob(ctx context.Context, tx *sqlx.Tx, now time.Time, jobID int64) error {
	return s.cancelPendingOf(ctx, tx, now, pendingOfJobSQL, jobID, jobDeleted)
}

// CancelPendingOfExecute cancels the PENDING runs of an execute that is being deleted.
func (s *Store) CancelPendingOfExecute(ctx context.Context, tx *sqlx.Tx, now time.Time, executeID int64) error {
	return s.cancelPendingOf(ctx, tx, now, pendingOfExecuteSQL, executeID, scheduleDeleted)
}

// cancelPendingOf looks for the runs without locks and writes by primary key: at REPEATABLE READ, which the caller's
// transaction may have, an UPDATE by job would lock all that it looks at, and the gaps beside them, in which other apps'
// runs are.
func (s *Store) cancelPendingOf(ctx context.Context, tx *sqlx.Tx, now time.Time, query string, id int64, why string) error {
	for after := int64(math.MinInt64); ; {
		var ids []int64
		err := s.db.On(tx).Select(ctx, &ids, query, id, s.app, after, cleanPage)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := schema.ByKey(ctx, s.db.On(tx), cancelPendingOfSQL, ids, now.UnixMilli(), why); err != nil {
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
		_, err = s.db.On(tx).Exec(ctx, cancelPendingSQL, now.UnixMilli(), runID)
	case Running:
		_, err = s.db.On(tx).Exec(ctx, askToCancelSQL, now.UnixMilli(), runID)
	default:
		err = fmt.Errorf("%w: run %d is %s; only a PENDING or RUNNING run can be cancelled", ErrWrongState, runID, state)
	}
	return err
}

func (s *Store) lockRun(ctx context.Context, tx *sqlx.Tx, runID int64) (state State, err error) {
	err = s.db.On(tx).Get(ctx, &state, lockRunSQL, runID, s.app)
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
	done, err := s.db.On(tx).Exec(ctx, retryRunSQL, now.UnixMilli(), runID)
	if schema.Duplicate(err) {
		return 0, fmt.Errorf("%w: run %d has been tried again already", ErrWrongState, runID)
	}
	if err != nil {
		return 0, schema.ExplainNoID(err, s.db.Prefix, "QRTZ_RUN")
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return 0, errors.Join(err, fmt.Errorf("%w: the job of run %d has been deleted", ErrNotFound, runID))
	}
	return done.LastInsertId()
}
