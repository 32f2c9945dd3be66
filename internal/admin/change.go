package admin

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// What an operator would write at a SQL console, by id: jobs made there have no name, by which programs know theirs.

const (
	pauseSQL  = `UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE ID = ? AND STATE = 'EXECUTING'`
	resumeSQL = `UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING' WHERE ID = ? AND STATE IN ('PAUSED', 'INIT')`
)

// Pause stops those of the executes that are active, and returns how many.
func (s *Store) Pause(ctx context.Context, executes []Execute) (int, error) {
	return s.setStates(ctx, pauseSQL, executes)
}

// Resume has those of the executes that are paused or were never started fire again, and returns how many.
func (s *Store) Resume(ctx context.Context, executes []Execute) (int, error) {
	return s.setStates(ctx, resumeSQL, executes)
}

func (s *Store) setStates(ctx context.Context, statement string, executes []Execute) (changed int, err error) {
	err = schema.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		changed = 0
		for _, e := range executes {
			done, err := tx.ExecContext(ctx, s.prefix.SQL(statement), e.ID)
			if err != nil {
				return err
			}
			n, err := done.RowsAffected()
			if err != nil {
				return err
			}
			changed += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("set the state of executes: %w", err)
	}
	return changed, nil
}

const (
	cancelWaitingSQL = `
UPDATE QRTZ_RUN SET STATE = 'CANCELLED', FINISHED_AT = ` + nowSQL + `, MESSAGE = ? WHERE %s = ? AND STATE = 'PENDING'`
	deleteExecutesSQL = `DELETE FROM QRTZ_EXECUTE WHERE PID = ?`
	deleteJobSQL      = `DELETE FROM QRTZ_JOB WHERE ID = ?`
	deleteExecuteSQL  = `DELETE FROM QRTZ_EXECUTE WHERE ID = ?`
)

// DeleteJob deletes a job and its executes. What runs goes on, what waits is CANCELLED, the history stays.
func (s *Store) DeleteJob(ctx context.Context, id int64) error {
	return s.delete(ctx, id, "job", deleteExecutesSQL, deleteJobSQL, fmt.Sprintf(cancelWaitingSQL, "JOB_ID"))
}

// DeleteExecute deletes an execute, with the same consequences.
func (s *Store) DeleteExecute(ctx context.Context, id int64) error {
	return s.delete(ctx, id, "execute", deleteExecuteSQL, fmt.Sprintf(cancelWaitingSQL, "EXECUTE_ID"))
}

// delete runs the statements with an id, the last of them with a message before it.
func (s *Store) delete(ctx context.Context, id int64, what string, statements ...string) error {
	err := schema.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		for i, statement := range statements {
			args := []any{id}
			if i == len(statements)-1 {
				args = []any{"its " + what + " was deleted", id}
			}
			if _, err := tx.ExecContext(ctx, s.prefix.SQL(statement), args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete %s %d: %w", what, id, err)
	}
	return nil
}

const runNowSQL = `INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, JOB_DATA) VALUES (?, ?, ?)`

// RunNow has a job run once, as soon as a node is free, and returns the run's id. Data that is nil stands for the job's.
func (s *Store) RunNow(ctx context.Context, j Job, data *string) (int64, error) {
	done, err := s.db.ExecContext(ctx, s.prefix.SQL(runNowSQL), j.App, j.ID, data)
	if err != nil {
		return 0, fmt.Errorf("run job %d now: %w", j.ID, err)
	}
	return done.LastInsertId()
}
