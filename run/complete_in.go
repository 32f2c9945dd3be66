package run

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

// A handler can write in a transaction of its own that its run has succeeded: what it does in the same database then counts if and
// only if the run does. The guard is that of any result, the claim: the row belongs to no other attempt, and has not been LOST.

const (
	completeInSQL = `
UPDATE QRTZ_RUN R FORCE INDEX (PRIMARY)
   SET R.STATE = 'SUCCEEDED', R.STARTED_AT = ?, R.FINISHED_AT = ?, R.MESSAGE = ?, R.PROGRESS = ?, R.OVERLAP_KEY = NULL,
       R.CHECKPOINT = NULL, ` + releaseKeySQL + `
 WHERE ` + claimedSQL

	dropInSQL = `DELETE FROM QRTZ_RUN WHERE ID = ? AND STATE = 'RUNNING' AND INSTANCE = ? AND FENCE = ?`

	// claimedSQL tells whether one run is still as its instance claimed it, as heldSQL does of many.
	claimedSQL = `R.ID = ? AND R.STATE = 'RUNNING' AND R.INSTANCE = ? AND R.FENCE = ?`

	endedSQL     = `SELECT STATE = 'SUCCEEDED' AND INSTANCE = ? AND FENCE = ? AS DONE FROM QRTZ_RUN WHERE ID = ?`
	endedNowSQL  = endedSQL + ` FOR UPDATE`
	knowsNodeSQL = `SELECT COUNT(*) FROM QRTZ_NODE WHERE APPLICATION = ? AND HOST_IP = ?`
)

// What is wrong with a call of CompleteIn.
var (
	errCompleted = errors.New("it has been completed already")
	errElsewhere = errors.New("the transaction is not on the scheduler's database")
)

// CompleteIn writes in tx, a transaction of the handler's at whatever isolation, that a run has succeeded, or deletes its row where
// the job's history says so. If the run is no longer as it was claimed, the error is node.ErrFenced. The message of r is kept as far
// as the server takes it.
func (s *Store) CompleteIn(ctx context.Context, tx *sql.Tx, who string, r Result) error {
	on, err := s.within(ctx, tx)
	if err != nil {
		return err
	}
	done, err := completeIn(ctx, on, r)
	switch {
	case schema.NoSuchTable(err):
		return s.refusal(ctx, on, who, err)
	case err != nil || done:
		return err
	}
	if done, err = s.ended(ctx, on, endedNowSQL, r.Run); err != nil {
		return err
	}
	if done && r.Run.Options.keeps(Succeeded) {
		return errCompleted
	}
	return s.refusal(ctx, on, who, node.ErrFenced)
}

func completeIn(ctx context.Context, on schema.On, r Result) (done bool, err error) {
	if !r.Run.Options.keeps(Succeeded) {
		return changedOne(on.Exec(ctx, dropInSQL, r.Run.ID, r.Run.Instance, r.Run.Fence))
	}
	for _, m := range []string{r.Message, text.ASCII(text.Clip(r.Message, MaxMessage)), ""} {
		done, err = changedOne(on.Exec(ctx, completeInSQL, r.Started.UnixMilli(), r.Finished.UnixMilli(), message(m), percent(r.Progress),
			r.Run.ID, r.Run.Instance, r.Run.Fence))
		if !schema.RowFault(err) {
			break
		}
	}
	return done, err
}

func changedOne(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// getter is schema.Tables, or schema.On.
type getter interface {
	Get(ctx context.Context, into any, query string, args ...any) error
}

// ended tells whether a run that is no longer RUNNING as it was claimed has succeeded so. Of a row that is gone, the history of
// its job tells.
func (s *Store) ended(ctx context.Context, g getter, query string, r Run) (succeeded bool, err error) {
	var done sql.NullBool
	switch err := g.Get(ctx, &done, query, r.Instance, r.Fence, r.ID); {
	case errors.Is(err, sql.ErrNoRows):
		return !r.Options.keeps(Succeeded), nil
	case err != nil:
		return false, fmt.Errorf("read how a run has ended: %w", err)
	}
	return done.Bool, nil
}

// Completed tells whether a run whose handler has called CompleteIn, and which may have been taken from its instance since, has
// succeeded by it.
func (s *Store) Completed(ctx context.Context, r Run) (bool, error) {
	return s.ended(ctx, s.db, endedSQL, r)
}

// EndUnlessCompleted ends a run as r says, whose handler has called CompleteIn, unless that has taken effect. It tells whether the
// run has succeeded.
func (s *Store) EndUnlessCompleted(ctx context.Context, r Result) (succeeded bool, err error) {
	if n, err := s.write(ctx, []Result{r.withinLimit()}); err != nil || n > 0 {
		return false, err
	}
	return s.ended(ctx, s.db, endedSQL, r.Run)
}
