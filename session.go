package qrtz

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/misfire"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/poller"
	"github.com/qrtz-go/qrtz/pool"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	lastWords    = 5 * time.Second // for handlers to return once their context has been cancelled
	leaveTimeout = 5 * time.Second // for the statement that leaves the cluster
	loseTimeout  = time.Second     // for the work before the first poll
)

// session is one life of a Scheduler, from joining the cluster to leaving it.
type session struct {
	cfg      Config
	logs     *logs
	carry    Handler  // calls the handler of a run
	classes  []string // of the handlers, sorted
	pool     *pool.Pool
	links    *links
	clock    *node.Clock
	apps     *app.Store
	runs     *run.Store     // on connections of the scheduler's own
	executes *execute.Store // likewise
	member   *node.Member
	poller   *poller.Poller
	misfire  *misfire.Handler
	results  *poller.Results
	loader   *loader
	active   actives
	begun    run.Begun
	waiters  waiters
	commits  commits       // of callers
	asks     chan struct{} // as many as maxAsks
	events   *events
	hooks    Hooks
	tell     func(hook func(Event), e Event)

	values atomic.Pointer[values] // that handlers see

	stuck  stuckLog
	manual *Manual // that drives it; nil while Run does

	mu         sync.Mutex
	running    context.Context // that of every run; replaced when this process was fenced
	cancelRuns context.CancelCauseFunc
}

func newSession(ctx context.Context, scheduler *Scheduler, l *links) *session {
	cfg := scheduler.cfg
	log, prefix := scheduler.logs.own, schema.Prefix(cfg.Prefix)
	s := &session{
		cfg: cfg, logs: &scheduler.logs, carry: scheduler.carryOut, classes: scheduler.handlers.classes(), pool: scheduler.pool, links: l, active: actives{byID: map[int64]*active{}},
		asks:  make(chan struct{}, maxAsks),
		clock: node.NewClock(l.beat, cfg.Wall, log), apps: app.NewStore(l.own, prefix, cfg.App), runs: run.NewStore(l.own, prefix, cfg.App),
	}
	s.pool.Limit(s.classes, cfg.Limits, cfg.Reserved)
	s.executes = execute.NewStore(l.own, prefix, cfg.App, s.runs)
	s.events, s.hooks = newEvents(log), cfg.Hooks
	s.tell = s.events.tell
	s.values.Store(withoutEnd(ctx))
	s.running, s.cancelRuns = context.WithCancelCause(context.Background())
	s.member = node.NewMember(l.own, l.beat, prefix, cfg.App, s.clock, node.Config{
		ID: cfg.NodeID, Classes: s.classes, Version: version(), Log: log, Wall: cfg.Wall,
		BeatEvery: cfg.PollInterval, Timeout: cfg.NodeTimeout, OnFenced: s.endRuns, BeforeRejoin: s.beforeRejoin,
	})
	here := cluster{s.member, s.clock}
	s.results = poller.NewResults(s.complete, log)
	s.results.Awaited, s.results.Nodes = s.waiters.waitFor, here.nodes
	s.loader = newLoader(s.runs)
	s.poller = poller.New(s.executes, s.runs, here, s.pool, poller.Config{
		Interval: cfg.PollInterval, MisfireAfter: cfg.MisfireAfter, Classes: s.classes, Log: log,
		Unhandled: s.unhandled, Claimed: s.tellClaimed, Skipped: s.tellSkipped, Fresh: s.fresh, Run: s.carryOut,
	})
	s.commits = commits{told: s.poller.Enqueued, watched: map[*sql.Tx][]int64{}}
	s.misfire = misfire.New(s.apps, here, s.executes, s.runs, misfire.Config{
		Interval: cfg.MisfireInterval, MisfireAfter: cfg.MisfireAfter,
		Log:     log,
		Skipped: s.tellSkipped, Lost: s.tellLost, Stuck: s.tellStuck,
	})
	return s
}

// join registers app and node. It waits for nothing that depends on what the tables hold.
func (s *session) join(ctx context.Context) error {
	if err := s.apps.Register(ctx, s.cfg.MisfireInterval); err != nil {
		return err
	}
	if err := s.member.Join(ctx); err != nil {
		if s.member.Self().ID != 0 {
			s.leave(ctx) // it has a row, but could not read the others'
		}
		return err
	}
	self := s.member.Self()
	s.logs.own.Info().Str("app", s.cfg.App).Str("node", self.NodeID).Int64("instance", self.ID).
		Strs("classes", s.classes).Dur("clock_skew", s.clock.Skew()).Msg("joined")
	return nil
}

// loseAbandoned puts the runs of this node's earlier lives on record as LOST before the first poll: they may be the only ones of
// their jobs that may go at a time. It does not wait for long; the misfire handler does the rest, beside the poller.
func (s *session) loseAbandoned(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loseTimeout)
	defer cancel()
	if err := s.misfire.LoseAbandoned(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		s.logs.own.Warn().Err(err).Msg("could not look for the runs of nodes that are gone; the misfire handler will")
	}
}

// run is the order of starting and stopping. Heartbeats and results outlive the loops that make runs.
func (s *session) run(ctx context.Context) {
	lasting, stopLasting := context.WithCancel(context.WithoutCancel(ctx))
	var last sync.WaitGroup
	last.Go(func() { s.member.Run(lasting) })
	last.Go(func() { s.results.Run(lasting) })
	last.Go(func() { outage.Every(lasting, s.logs.own, "attend to runs", attendEvery, s.attend) })

	go s.events.run()
	s.loseAbandoned(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { s.misfire.Run(ctx) })
	loops.Go(func() { s.poller.Run(ctx) })
	loops.Wait()

	s.drain(lasting)
	stopLasting()
	last.Wait()
	s.poller.Leave(context.WithoutCancel(ctx))
	s.leave(lasting)
	s.events.stop()
}

// drain waits for what runs, then cancels it, then waits a little more.
func (s *session) drain(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, s.cfg.DrainTimeout)
	defer cancel()
	if s.pool.Drain(wait) == nil {
		return
	}
	s.logs.own.Warn().Dur("after", s.cfg.DrainTimeout).Int("free", s.pool.Free()).Msg("cancelling the runs that have not ended")
	s.endRuns(ErrDrained)
	wait, cancel = context.WithTimeout(ctx, lastWords)
	defer cancel()
	if s.pool.Drain(wait) != nil {
		s.logs.own.Error().Msg("leaving while handlers that ignore their context still run; their runs will be LOST")
	}
}

func (s *session) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := s.member.Leave(ctx); err != nil {
		s.logs.own.Warn().Err(err).Msg("could not leave the cluster; the others will see the heartbeat expire")
		return
	}
	s.logs.own.Info().Str("node", s.member.Self().NodeID).Msg("left")
}

// beforeRejoin hands back and writes what a fenced instance leaves behind, while its row is still its own.
func (s *session) beforeRejoin(ctx context.Context) error {
	if err := s.poller.HandBackDoubts(ctx); err != nil {
		return err
	}
	return s.results.Flush(ctx)
}

// endRuns cancels every run with a cause. Runs that start later are not affected.
func (s *session) endRuns(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelRuns(cause)
	s.running, s.cancelRuns = context.WithCancelCause(context.Background())
}

// carryOut runs the handler of a run in the calling goroutine and hands in the result. A run is started only while the lease of
// the instance that claimed it lasts, at this moment: else it may be running elsewhere.
func (s *session) carryOut(r run.Run, startedAt time.Time) {
	ctx, cancel := s.runContext(r) // before the check: an instance that is fenced after it cancels this context
	defer cancel(nil)
	if !s.member.Holds(r.Instance) {
		s.giveUp(r)
		return
	}
	self := s.member.Self()
	s.begun.Add(r, time.Now())
	a := &active{session: s, ctx: ctx, run: r, startedAt: startedAt.UTC(), cancel: cancel, progress: -1, unsaid: true, saved: r.Saved}
	a.run.Data = nil // it is the handler's alone, and may be large
	s.active.add(a)
	s.tellStarted(a)
	load := func() ([]byte, func(), error) { return s.loader.load(ctx, r) }
	mine := newRun(a, self.NodeID)
	call(&runContext{Context: ctx, values: s.values.Load(), run: mine, app: s.cfg.App, logs: s.logs}, s.carry, mine, load, func(err error) {
		s.active.remove(a)
		s.end(a, context.Cause(ctx), err) //nolint:contextcheck // ctx may have ended, and the result counts all the same
	})
}

// end hands in the result of a run whose handler has returned err.
func (s *session) end(a *active, cause, err error) {
	completing := a.end()
	if completing && err == nil {
		err = errNotCommitted // else it is on record already
	}
	if err != nil && errors.Is(cause, ErrFenced) {
		if !completing || !s.endIfCompleted(a) {
			s.logs.own.Warn().Int64("run", a.run.ID).Str("class", a.run.Class).Msg("given up: it will be LOST, and recovered if its job asks for it")
		}
		return
	}
	result := s.result(a, cause, err)
	if completing {
		result = s.endUnlessCompleted(a, result)
	} else {
		s.results.Add(result)
	}
	if result.State != run.Succeeded {
		s.logFailure(result)
	}
	s.tellFinished(result)
}

func (s *session) logFailure(r run.Result) {
	s.logs.own.Warn().Int64("run", r.Run.ID).Str("job", r.Run.Job).Str("class", r.Run.Class).Time("fire", r.Run.FireTime).Int("attempt", r.Run.Attempt).
		Bool("retry", !r.RetryAt.IsZero()).Str("reason", text.Line(r.Message, maxReason)).Msg(outcome[r.State]) // the stack of a panic is in QRTZ_RUN
}

// giveUp is told of a run that was claimed by an instance whose lease is over, and has therefore not been started.
func (s *session) giveUp(r run.Run) {
	s.logs.own.Warn().Int64("run", r.ID).Msg("not started: the instance that claimed it has lost its place in the cluster; handed back if it still can be")
	s.poller.GiveUp(r)
}

// runContext ends with its cause when the run is cancelled, fenced or drained, and when it times out.
func (s *session) runContext(r run.Run) (context.Context, context.CancelCauseFunc) {
	s.mu.Lock()
	ctx, cancel := context.WithCancelCause(s.running)
	s.mu.Unlock()
	if r.Options.Timeout <= 0 || s.manual.holds(r.Class) {
		return ctx, cancel
	}
	ctx, stop := context.WithTimeoutCause(ctx, r.Options.Timeout, ErrTimedOut)
	return ctx, func(cause error) {
		cancel(cause)
		stop()
	}
}

// result says how a run ended whose handler returned err, and whether it is to be tried again.
func (s *session) result(a *active, cause, err error) run.Result {
	now := s.clock.Now()
	result := run.Result{Run: a.run, State: run.Succeeded, Started: a.startedAt, Finished: now}
	result.Progress, result.Message = a.said()
	result.Run.Saved = a.savedMost()
	if err == nil {
		return result
	}
	result.State, result.Message = run.Failed, said(err)
	after, again := s.retryIn(a.run, err)
	switch {
	case errors.Is(cause, ErrDrained) && !final(err):
		result = result.Interrupt(result.Message, now)
	case errors.Is(cause, ErrCancelled):
		result.State = run.Cancelled
	case errors.Is(cause, ErrTimedOut):
		result.Message = text.Clip(fmt.Sprintf("timed out after %s: %s", a.run.Options.Timeout, result.Message), run.MaxMessage)
	}
	if again && result.State == run.Failed {
		result.RetryAt = now.Add(after)
	}
	return result
}

// outcome is what the log says of a run whose handler returned an error.
var outcome = map[run.State]string{run.Failed: "run failed", run.Cancelled: "run cancelled", run.Lost: "run interrupted, since this node stops"}

// retryIn is after what time a failed run is to be tried again, if it is.
func (s *session) retryIn(r run.Run, err error) (time.Duration, bool) {
	if final(err) || r.Spent() >= r.Options.Attempts {
		return 0, false
	}
	if after, ok := asError[*retryAfterError](err); ok {
		return after.after, true
	}
	return s.pause(r.Options, r.Spent()), true
}

// pause is how long to wait after an attempt that failed. Only in a test is it exact.
func (s *session) pause(o run.Options, attempt int) time.Duration {
	if s.manual != nil {
		return o.Pause(attempt)
	}
	return o.RetryIn(attempt)
}

// final tells whether a handler wants no further attempt (NoRetry).
func final(err error) bool {
	_, never := asError[*noRetryError](err)
	return never
}
