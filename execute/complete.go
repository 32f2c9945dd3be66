package execute

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// MaxMessage is how many bytes of a run's message are kept.
const MaxMessage = 8 << 10

// Complete writes the results of runs that are still their instance's: it updates their rows, or deletes them where the
// job's history says so, and leaves a PENDING attempt for those that are to be tried again. It returns how many were no
// longer their instance's: their node had been taken for dead, and they are on record as LOST.
func (s *Store) Complete(ctx context.Context, results []Result) (late int, err error) {
	slices.SortFunc(results, func(a, b Result) int { return cmp.Compare(a.Run.ID, b.Run.ID) })
	var finished, dropped, retried []Result
	for _, r := range results {
		switch {
		case r.Run.ID == 0: // it has no row
		case !r.RetryAt.IsZero():
			retried = append(retried, r)
		case r.Run.Options.keeps(r.State):
			finished = append(finished, r)
		default:
			dropped = append(dropped, r)
		}
	}
	for _, part := range []struct {
		results []Result
		write   func(context.Context, []Result) (int, error)
	}{
		{finished, s.alone(s.finish)},
		{dropped, s.alone(s.drop)},
		{retried, s.retry},
	} {
		if len(part.results) == 0 {
			continue
		}
		n, err := part.write(ctx, part.results)
		if err != nil {
			return 0, fmt.Errorf("write results: %w", err)
		}
		late += len(part.results) - n
	}
	return late, nil
}

// alone is write outside a transaction, tried again after a deadlock: results of exclusive runs meet, at the keys of
// their jobs, with claims that wait for them.
func (s *Store) alone(write func(context.Context, sqlx.ExecerContext, []Result) (int, error)) func(context.Context, []Result) (int, error) {
	return func(ctx context.Context, results []Result) (done int, err error) {
		err = schema.Again(ctx, func() error {
			done, err = write(ctx, s.db, results)
			return err
		})
		return done, err
	}
}

const finishSQL = `
UPDATE QRTZ_RUN R JOIN %s V ON V.ID = R.ID
   SET R.STATE = V.STATE1, R.STARTED_AT = V.STARTED, R.FINISHED_AT = V.FINISHED, R.MESSAGE = V.MESSAGE1, R.PROGRESS = V.PERCENT,
       R.OVERLAP_KEY = NULL
 WHERE R.STATE = 'RUNNING' AND R.INSTANCE = V.HOLDER`

func (s *Store) finish(ctx context.Context, e sqlx.ExecerContext, results []Result) (done int, err error) {
	rows := make([]any, 0, 7*len(results))
	for _, r := range results {
		rows = append(rows, r.Run.ID, r.Run.Instance, r.State, r.Started.UnixMilli(), r.Finished.UnixMilli(),
			sql.NullString{String: clip(r.Message, MaxMessage), Valid: r.Message != ""},
			sql.NullInt64{Int64: int64(r.Progress), Valid: r.Progress >= 0})
	}
	table, args := values(rows, "ID", "HOLDER", "STATE1", "STARTED", "FINISHED", "MESSAGE1", "PERCENT")
	return affected(e.ExecContext(ctx, s.prefix.SQL(fmt.Sprintf(finishSQL, table)), args...))
}

const dropSQL = `
DELETE R FROM QRTZ_RUN R JOIN %s V ON V.ID = R.ID WHERE R.STATE = 'RUNNING' AND R.INSTANCE = V.HOLDER`

func (s *Store) drop(ctx context.Context, e sqlx.ExecerContext, results []Result) (done int, err error) {
	rows := make([]any, 0, 2*len(results))
	for _, r := range results {
		rows = append(rows, r.Run.ID, r.Run.Instance)
	}
	table, args := values(rows, "ID", "HOLDER")
	return affected(e.ExecContext(ctx, s.prefix.SQL(fmt.Sprintf(dropSQL, table)), args...))
}

func affected(done sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	return int(n), err
}

const (
	lockHeldSQL = `SELECT R.ID FROM QRTZ_RUN R JOIN %s V ON V.ID = R.ID WHERE R.STATE = 'RUNNING' AND R.INSTANCE = V.HOLDER FOR UPDATE`

	// The attempt is there already if somebody set an old one back to PENDING by hand: it stays as it is. Of a job that
	// is gone there is none, for nobody could claim it.
	retrySQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, ATTEMPT, STATE, AVAILABLE_AT, FENCE, JOB_DATA, RECOVERIES)
SELECT R.APPLICATION, R.JOB_ID, R.EXECUTE_ID, R.FIRE_TIME, R.ATTEMPT + 1, 'PENDING', V.AVAILABLE, R.FENCE, R.JOB_DATA, R.RECOVERIES
  FROM %s V JOIN QRTZ_RUN R ON R.ID = V.ID JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.CANCEL_AT IS NULL
    ON DUPLICATE KEY UPDATE ATTEMPT = VALUES(ATTEMPT)`
)

// retry writes results and the attempts that follow them in one transaction: neither a lost nor a second attempt.
func (s *Store) retry(ctx context.Context, results []Result) (done int, err error) {
	err = schema.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		held, err := s.lockHeld(ctx, tx, results)
		if done = len(held); err != nil || done == 0 {
			return err
		}
		rows := make([]any, 0, 2*len(held))
		var keep, drop []Result
		for _, r := range held {
			rows = append(rows, r.Run.ID, r.RetryAt.UnixMilli())
			if r.Run.Options.keeps(r.State) {
				keep = append(keep, r)
			} else {
				drop = append(drop, r)
			}
		}
		table, args := values(rows, "ID", "AVAILABLE")
		if _, err := tx.ExecContext(ctx, s.prefix.SQL(fmt.Sprintf(retrySQL, table)), args...); err != nil {
			return err
		}
		if len(keep) > 0 {
			if _, err := s.finish(ctx, tx, keep); err != nil {
				return err
			}
		}
		if len(drop) > 0 {
			_, err = s.drop(ctx, tx, drop)
		}
		return err
	})
	return done, err
}

// lockHeld returns the results whose runs are still their instance's, and locks their rows.
func (s *Store) lockHeld(ctx context.Context, tx *sqlx.Tx, results []Result) ([]Result, error) {
	rows := make([]any, 0, 2*len(results))
	for _, r := range results {
		rows = append(rows, r.Run.ID, r.Run.Instance)
	}
	var ids []int64
	table, args := values(rows, "ID", "HOLDER")
	if err := tx.SelectContext(ctx, &ids, s.prefix.SQL(fmt.Sprintf(lockHeldSQL, table)), args...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return !slices.Contains(ids, r.Run.ID) }), nil
}

const (
	attendSQL = `
UPDATE QRTZ_RUN R JOIN %s V ON V.ID = R.ID
   SET R.STARTED_AT = V.STARTED, R.PROGRESS = V.PERCENT, R.MESSAGE = V.MESSAGE1
 WHERE R.STATE = 'RUNNING' AND R.INSTANCE = V.HOLDER`

	toCancelSQL = `SELECT ID FROM QRTZ_RUN WHERE ID IN (?) AND CANCEL_AT IS NOT NULL`
)

// Underway is what a run that goes on has to say.
type Underway struct {
	Run      Run
	Started  time.Time
	Progress int // in percent; below 0 if the handler never said
	Message  string
}

// Attend writes when runs have started and how far they are, and returns the ids of those of asked that somebody wants cancelled.
func (s *Store) Attend(ctx context.Context, news []Underway, asked []int64) (cancel []int64, err error) {
	if len(news) > 0 {
		rows := make([]any, 0, 5*len(news))
		for _, u := range news {
			rows = append(rows, u.Run.ID, u.Run.Instance, u.Started.UnixMilli(), sql.NullInt64{Int64: int64(u.Progress), Valid: u.Progress >= 0},
				sql.NullString{String: clip(u.Message, MaxMessage), Valid: u.Message != ""})
		}
		table, args := values(rows, "ID", "HOLDER", "STARTED", "PERCENT", "MESSAGE1")
		if _, err := schema.Exec(ctx, s.db, s.prefix.SQL(fmt.Sprintf(attendSQL, table)), args...); err != nil {
			return nil, fmt.Errorf("attend to runs: %w", err)
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	if err := s.selectRows(ctx, s.db, &cancel, toCancelSQL, asked); err != nil {
		return nil, fmt.Errorf("attend to runs: %w", err)
	}
	return cancel, nil
}
