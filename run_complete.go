package qrtz

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// endTimeout is for what is asked of the database, beside the results, when a handler that called CompleteIn has returned.
const endTimeout = 5 * time.Second

// errNotCommitted is why a run fails whose handler returned nil after CompleteIn, and whose row is as it was before.
var errNotCommitted = errors.New("CompleteIn was called, but its transaction did not commit")

var (
	errNotRunning = errors.New("its handler has returned")
	errNoRow      = errors.New("it has no row in QRTZ_RUN, since its job has HistoryNone and neither Recovery nor Overlap nor MaxRunning nor Attempts")
	errNoTx       = errors.New("it needs a transaction")
	errNoRun      = errors.New("it is not a run that a scheduler carries out")
)

// CompleteIn writes in tx, a transaction of the handler's on the scheduler's database, that the run has SUCCEEDED, with its Message and
// Progress. The run has succeeded if and only if tx commits: what the handler writes in tx is done exactly once, whatever crashes,
// freezes or loses its connection, however many attempts it takes. Call it last, commit, and return what the commit returned:
//
//	if err := run.CompleteIn(ctx, tx); err != nil {
//		return err // tx is rolled back
//	}
//	return tx.Commit()
//
// It works at any isolation level. Until tx ends, it holds the run's row locked, which keeps a person's Cancel waiting.
//
//   - ErrFenced: the run is no longer this attempt's; another one may be doing the work. Roll back.
//   - A deadlock, a lock wait timeout or error 1020: roll back, and do the whole transaction again, with CompleteIn in the new one.
//   - A run without a row (HistoryNone), a run whose handler has returned, a second call in a transaction, and a transaction
//     on another database are refused. So are the character sets that Scheduler.In refuses.
//
// What the handler returns counts as follows. If tx has committed, the run has SUCCEEDED, even if the handler returns an error, as it
// must when its COMMIT got no answer, or if the run was cancelled or timed out meanwhile. If tx has not committed, the run has not
// succeeded, even if the handler returns nil: it is FAILED, and tried again if its job has attempts left.
func (r *Run) CompleteIn(ctx context.Context, tx *sql.Tx) error {
	a := r.active
	err := a.usable()
	if err == nil {
		err = a.completeIn(ctx, tx, r.Node)
	}
	if err != nil {
		return fmt.Errorf("qrtz: complete run %d: %w", r.ID, err)
	}
	return nil
}

// usable tells why what a handler asks of its run in the database cannot be done.
func (a *active) usable() error {
	if a == nil {
		return errNoRun
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
		return errNotRunning
	case a.run.ID == 0:
		return errNoRow
	}
	return nil
}

func (a *active) completeIn(ctx context.Context, tx *sql.Tx, nodeID string) error {
	if tx == nil {
		return errNoTx
	}
	a.mu.Lock()
	twice := a.completed == tx
	a.within = tx
	result := run.Result{
		Run: a.run, State: run.Succeeded, Started: a.startedAt, Finished: a.session.clock.Now(), Message: a.message, Progress: a.progress,
	}
	a.mu.Unlock()
	if twice {
		return errors.New("CompleteIn has been called in this transaction already")
	}
	if err := a.session.runs.CompleteIn(ctx, tx, nodeID, result); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.completed = tx
	return nil
}

// completedIn tells whether the run has been completed in a transaction.
func (a *active) completedIn(tx *sql.Tx) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.completed == tx
}

// end notes that the handler has returned, and tells whether it has called CompleteIn.
func (a *active) end() (completing bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	return a.within != nil
}

// endIfCompleted tells of the success of a run that this process has lost, if its handler has completed it before.
func (s *session) endIfCompleted(a *active) (succeeded bool) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	succeeded, err := s.runs.Completed(ctx, a.run)
	if err != nil || !succeeded {
		return false // it is not known: then the row tells
	}
	result := s.success(a)
	s.waiters.tell([]run.Result{result})
	s.lookOn([]run.Result{result})
	s.tellFinished(result)
	return true
}

// success is the result of a run whose handler has completed it.
func (s *session) success(a *active) run.Result {
	result := run.Result{Run: a.run, State: run.Succeeded, Started: a.startedAt, Finished: s.clock.Now()}
	result.Progress, result.Message = a.said()
	return result
}

// endUnlessCompleted writes the result of a run whose handler has called CompleteIn, unless that has taken effect, and returns how the
// run has ended. What cannot be written now is left to the other results.
func (s *session) endUnlessCompleted(a *active, otherwise run.Result) run.Result {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	succeeded, err := s.runs.EndUnlessCompleted(ctx, otherwise)
	if err != nil {
		otherwise.Completing = true
		s.results.Add(otherwise)
		return otherwise
	}
	result := otherwise
	if succeeded {
		result = s.success(a)
	}
	s.waiters.tell([]run.Result{result})
	s.lookOn([]run.Result{result})
	return result
}
