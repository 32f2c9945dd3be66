package qrtz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// The pace at which Wait and Drain look: at first often, since most runs are short, and then less and less.
const (
	firstLook  = 2 * time.Millisecond
	slowLook   = 250 * time.Millisecond
	lookFactor = 1.5

	handledAgain = time.Second // after which Wait asks again which classes have handlers
)

var errInTx = errors.New("a transaction does not see what others do while it lasts: wait with the Scheduler")

// pacer is the pace of looking.
type pacer struct{ pause time.Duration }

// next waits until it is time to look again, or something has come; it returns the cause if ctx ends before.
func (p *pacer) next(ctx context.Context, came <-chan run.Result) (result run.Result, ok bool, err error) {
	p.pause = min(max(time.Duration(float64(p.pause)*lookFactor), firstLook), slowLook)
	timer := time.NewTimer(p.pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return result, false, context.Cause(ctx)
	case result = <-came:
		return result, true, nil
	case <-timer.C:
		return result, false, nil
	}
}

// Wait waits until a run has ended for good, and returns its last attempt: no further attempt is pending. The id may be that of any
// attempt. A run that ends in this process is seen at once; for others the row is read, at first every few milliseconds and at last
// every quarter of a second.
//
// ErrNotFound says at once that there is no such run. ErrUnhandled says at once that no live node can carry the run out now, though it
// is due: it stays PENDING, and may be waited for again. A class that this program itself has a handler for counts as handled. If ctx
// ends before the run, the error is the cause, and the RunInfo says how far the run has come.
//
// With HistoryFailed a run that succeeds is deleted: then the RunInfo is what was last seen of it, with its state set. With HistoryNone
// it is so only if the run ends in this process while Wait waits; else the error is ErrNotFound. Wait needs a Scheduler; on the Client of a
// transaction it returns an error.
func (c *Client) Wait(ctx context.Context, runID int64) (last RunInfo, err error) {
	if c.tx != nil {
		err = fmt.Errorf("qrtz: wait for run %d: %w", runID, errInTx)
	} else {
		err = c.read(ctx, "wait for run", func(on schema.On) error {
			w := waiting{Client: c, on: on}
			err := w.until(ctx, runID)
			last = runInfo(w.last)
			return err
		})
	}
	return last, err
}

// waiting is one call of Wait.
type waiting struct {
	*Client
	on    schema.On
	last  run.Record // what was last seen
	pacer pacer

	handlers *node.Handled
	read     time.Time // when handlers was made
}

func (w *waiting) until(ctx context.Context, runID int64) error {
	came, leave := w.listen(runID)
	defer func() { leave() }()
	ended := false // told by this process
	var result run.Result
	for {
		r, err := w.ownRun(run.Look(ctx, w.on, w.known(), runID))
		switch {
		case schema.IsNotFound(err):
			if !ended && came != nil && w.last.ID != 0 { // it may have been deleted by this process, which is about to say so
				result, ended = soon(ctx, came)
			}
			if r, err = w.gone(ctx, err, ended, result); err != nil {
				return err
			}
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		if w.last.State != r.State {
			w.pacer.pause = 0
		}
		w.last = r
		switch {
		case r.Ended():
			next, err := w.later(ctx, r)
			if err != nil || next == 0 {
				return err
			}
			leave()
			runID, ended = next, false
			came, leave = w.listen(runID)
			continue
		case r.Why != "":
			if err := w.unhandled(ctx, r); err != nil {
				return err
			}
		}
		told, ok, err := w.pacer.next(ctx, came)
		if err != nil {
			return err
		}
		if ok {
			result, ended = told, true
		}
	}
}

// soon is a result that comes within a moment.
func soon(ctx context.Context, came <-chan run.Result) (result run.Result, ok bool) {
	timer := time.NewTimer(slowLook)
	defer timer.Stop()
	select {
	case result = <-came:
		return result, true
	case <-timer.C:
	case <-ctx.Done():
	}
	return result, false
}

// known is which classes live nodes handle, as of a second ago at most.
func (w *waiting) known() *node.Handled {
	if w.handlers == nil || time.Since(w.read) > handledAgain {
		w.handlers, w.read = w.handled(w.on), time.Now()
	}
	return w.handlers
}

// gone is what became of a run whose row has been deleted since it was seen.
func (w *waiting) gone(ctx context.Context, err error, ended bool, result run.Result) (run.Record, error) {
	r := w.last
	if r.ID == 0 {
		return r, err // it was never seen
	}
	next, failed := w.later(ctx, r)
	switch {
	case failed != nil:
		return r, failed
	case next != 0:
		r.State = Failed // and there is another attempt
	case ended:
		message := result.Message
		r.State, r.Message = result.State, &message
		r.StartedAt, r.FinishedAt = schema.Time{Time: result.Started}, schema.Time{Time: result.Finished}
	case orZero(r.History) == string(HistoryFailed):
		r.State = Succeeded
	default:
		return r, fmt.Errorf("%w: run %d has ended, and its job keeps no record of it", ErrNotFound, r.ID)
	}
	return r, nil
}

// later is the latest attempt after one that has ended; 0 if there is none. It is written in the transaction in which that one ends.
func (w *waiting) later(ctx context.Context, r run.Record) (int64, error) {
	attempts, err := run.Attempts(ctx, w.on, w.known(), r)
	if err != nil || len(attempts) == 0 {
		return 0, err
	}
	if last := attempts[len(attempts)-1]; last.Attempt > r.Attempt {
		return last.ID, nil
	}
	return 0, nil
}

// unhandled returns ErrUnhandled for a run that is due and that no live node can carry out.
func (w *waiting) unhandled(ctx context.Context, r run.Record) error {
	if r.Why == node.NoHandler && w.scheduler.handles(orZero(r.Class)) {
		return nil // this program is about to join, or has been cut off for a moment
	}
	var now int64
	if err := w.on.Get(ctx, &now, `SELECT `+schema.NowMillisSQL); err != nil {
		return err
	}
	if r.At > now {
		return nil
	}
	return fmt.Errorf("%w: run %d of class %q is %s: %s", ErrUnhandled, r.ID, orZero(r.Class), r.State, r.Why)
}

// listen has this process, if it runs, tell of the end of a run.
func (w *waiting) listen(runID int64) (came <-chan run.Result, leave func()) {
	session, ok := w.running()
	if !ok {
		return nil, func() {}
	}
	came, leave = session.waiters.add(runID)
	session.results.Hurry() // its result may wait for company
	return came, leave
}

// waiters are those who wait for runs that may end in this process.
type waiters struct {
	mu    sync.Mutex
	byRun map[int64][]chan run.Result
}

// add has the end of a run told to a channel, until leave.
func (w *waiters) add(runID int64) (came <-chan run.Result, leave func()) {
	c := make(chan run.Result, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byRun == nil {
		w.byRun = map[int64][]chan run.Result{}
	}
	w.byRun[runID] = append(w.byRun[runID], c)
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		left := slices.DeleteFunc(w.byRun[runID], func(other chan run.Result) bool { return other == c })
		if w.byRun[runID] = left; len(left) == 0 {
			delete(w.byRun, runID)
		}
	}
}

// waitFor tells whether one waits for the end of a run.
func (w *waiters) waitFor(runID int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byRun[runID]) > 0
}

// tell tells of results that have been written.
func (w *waiters) tell(results []run.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.byRun) == 0 {
		return
	}
	for _, r := range results {
		for _, c := range w.byRun[r.Run.ID] {
			select {
			case c <- r:
			default: // it knows already
			}
		}
	}
}

// complete writes results, and tells who waits for them.
func (s *session) complete(ctx context.Context, results []run.Result) (run.Completed, error) {
	done, err := s.runs.Complete(ctx, results)
	s.waiters.tell(results)
	if err == nil {
		s.lookOn(results)
	}
	return done, err
}
