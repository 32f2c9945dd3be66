package qrtz

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/misfire"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/poller"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	lastWords    = 5 * time.Second  // for handlers to return once their context has been cancelled
	leaveTimeout = 5 * time.Second  // for the statement that leaves the cluster
	joinTimeout  = 60 * time.Second // for the work before the first poll
)

// session is one life of a Scheduler, from joining the cluster to leaving it.
type session struct {
	*Scheduler
	member  *node.Member
	poller  *poller.Poller
	misfire *misfire.Handler
	results *execute.Results

	unhandledOnce sync.Map // classes that have been reported

	mu         sync.Mutex
	runs       context.Context // that of every run; replaced when this process was fenced
	cancelRuns context.CancelCauseFunc
}

func newSession(s *Scheduler) *session {
	one := &session{Scheduler: s}
	log, prefix := *s.cfg.Logger, schema.Prefix(s.cfg.Prefix)
	one.runs, one.cancelRuns = context.WithCancelCause(context.Background())
	one.member = node.NewMember(s.db, prefix, s.cfg.App, s.clock, node.Config{
		ID: s.cfg.NodeID, Classes: s.classes(), Version: version(), Log: log, Wall: s.cfg.Wall,
		BeatEvery: s.cfg.PollInterval, Timeout: s.cfg.NodeTimeout, OnFenced: one.endRuns, Settle: one.settle,
	})
	here := cluster{one.member, s.clock, node.NewStore(s.db, prefix, s.cfg.App)}
	one.results = execute.NewResults(s.executes.Complete, log)
	one.poller = poller.New(s.executes, here, s.pool, poller.Config{
		Interval: s.cfg.PollInterval, MisfireAfter: s.cfg.MisfireAfter, Classes: s.classes(), Log: log,
		Unhandled: one.unhandled, Run: one.carryOut,
	})
	one.misfire = misfire.New(s.apps, here, s.executes, misfire.Config{
		Interval: s.cfg.MisfireInterval, MisfireAfter: s.cfg.MisfireAfter,
		NodeTimeout: s.cfg.NodeTimeout, BeatEvery: s.cfg.PollInterval, Log: log, Unhandled: one.unhandled,
	})
	return one
}

// join registers app and node, and does the misfire handler's work once before the first poll.
func (s *session) join(ctx context.Context) error {
	if err := s.apps.Register(ctx, s.cfg.MisfireInterval); err != nil {
		return err
	}
	if err := s.member.Join(ctx); err != nil {
		return err
	}
	self := s.member.Self()
	s.cfg.Logger.Info().Str("app", s.cfg.App).Str("node", self.HostIP).Int64("instance", self.Instance).
		Strs("classes", s.classes()).Dur("clock_skew", s.clock.Skew()).Msg("joined")
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	if err := s.misfire.Pass(ctx); err != nil {
		s.leave(ctx)
		return err
	}
	return nil
}

// run is the order of starting and stopping. Heartbeats and results outlive the loops that make runs.
func (s *session) run(ctx context.Context) {
	lasting, stopLasting := context.WithCancel(context.WithoutCancel(ctx))
	var last sync.WaitGroup
	last.Go(func() { s.member.Run(lasting) })
	last.Go(func() { s.results.Run(lasting) })

	var loops sync.WaitGroup
	loops.Go(func() { s.misfire.Run(ctx) })
	loops.Go(func() { s.poller.Run(ctx) })
	loops.Wait()

	s.drain(lasting)
	stopLasting()
	last.Wait()
	s.leave(lasting)
}

// drain waits for what runs, then cancels it, then waits a little more.
func (s *session) drain(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, s.cfg.DrainTimeout)
	defer cancel()
	if s.pool.Drain(wait) == nil {
		return
	}
	s.cfg.Logger.Warn().Dur("after", s.cfg.DrainTimeout).Int("free", s.pool.Free()).Msg("cancelling the runs that have not ended")
	s.endRuns(ErrDrained)
	wait, cancel = context.WithTimeout(ctx, lastWords)
	defer cancel()
	if s.pool.Drain(wait) != nil {
		s.cfg.Logger.Error().Msg("leaving while handlers that ignore their context still run; their runs will be LOST")
	}
}

func (s *session) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := s.member.Leave(ctx); err != nil {
		s.cfg.Logger.Warn().Err(err).Msg("could not leave the cluster; the others will see the heartbeat expire")
		return
	}
	s.cfg.Logger.Info().Str("node", s.member.Self().HostIP).Msg("left")
}

// settle writes what an instance that has been fenced leaves behind, while its row is still its own.
func (s *session) settle(ctx context.Context) error {
	if err := s.poller.Settle(ctx); err != nil {
		return err
	}
	return s.results.Flush(ctx)
}

// endRuns cancels every run with a cause. Runs that start later are not affected.
func (s *session) endRuns(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelRuns(cause)
	s.runs, s.cancelRuns = context.WithCancelCause(context.Background())
}

// carryOut runs the handler of a run in the calling goroutine and hands in the result. A run whose instance
// has been fenced is not started: it may be running elsewhere.
func (s *session) carryOut(r execute.Run, startedAt time.Time) {
	s.mu.Lock()
	ctx := s.runs
	s.mu.Unlock()
	self := s.member.Self()
	if r.Instance != self.Instance || s.member.Fenced() {
		s.cfg.Logger.Warn().Int64("run", r.ID).Msg("not started: the instance that claimed it has lost its place in the cluster")
		return
	}
	call(ctx, s.handlers[r.Class], newRun(r, startedAt, self.HostIP), r.Data, func(err error) { s.finished(r, startedAt, err) })
}

func (s *session) finished(r execute.Run, startedAt time.Time, err error) {
	result := execute.Result{RunID: r.ID, Instance: r.Instance, State: execute.Succeeded, Started: startedAt, Finished: s.clock.Now()}
	if err != nil {
		result.State, result.Message = execute.Failed, err.Error()
		reason, _, _ := strings.Cut(err.Error(), "\n") // the stack of a panic is in QRTZ_RUN
		s.cfg.Logger.Warn().Int64("run", r.ID).Str("class", r.Class).Time("fire", r.FireTime).Str("reason", reason).Msg("run failed")
	}
	s.results.Add(result)
}

// unhandled logs, once per class, that fires are due that no live node has a handler for. They are left alone.
func (s *session) unhandled(class string) {
	if v := s.member.View(); v.Handles(class) {
		return
	}
	if _, reported := s.unhandledOnce.LoadOrStore(class, true); !reported {
		s.cfg.Logger.Warn().Str("class", class).Msg("no live node has a handler for this class; its executes wait")
	}
}
