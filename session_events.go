package qrtz

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/misfire"
	"github.com/qrtz-go/qrtz/run"
)

const (
	maxEvents     = 4096
	lastEvents    = 5 * time.Second  // for events that are left when stopping
	reportDropped = 10 * time.Second // at most so often
)

// events is the queue between what happens and the hooks.
type events struct {
	log     zerolog.Logger
	queue   chan told
	quit    chan struct{}
	done    chan struct{}
	giveUp  atomic.Bool
	dropped atomic.Int64
	said    atomic.Int64 // when dropped was last logged, in nanoseconds
}

// told is an event and the hook it is for.
type told struct {
	hook func(Event)
	Event
}

func newEvents(log zerolog.Logger) *events {
	return &events{log: log, queue: make(chan told, maxEvents), quit: make(chan struct{}), done: make(chan struct{})}
}

// tell queues an event. It never blocks.
func (q *events) tell(hook func(Event), e Event) {
	select {
	case q.queue <- told{hook, e}:
	default:
		n, now, last := q.dropped.Add(1), time.Now().UnixNano(), q.said.Load()
		if now-last >= int64(reportDropped) && q.said.CompareAndSwap(last, now) {
			q.log.Warn().Int64("dropped", n).Msg("the hooks are too slow: events are being dropped")
		}
	}
}

// run calls hooks until stop, and then for what is left.
func (q *events) run() {
	defer close(q.done)
	for !q.giveUp.Load() {
		select {
		case e := <-q.queue:
			q.call(e)
			continue
		case <-q.quit:
		}
		for !q.giveUp.Load() {
			select {
			case e := <-q.queue:
				q.call(e)
			default:
				return
			}
		}
		return
	}
}

func (q *events) call(e told) {
	defer func() {
		if p := recover(); p != nil {
			q.log.Error().Str("class", e.Class).Str("panic", text.Line(valueOf(p), maxReason)).Msg("a hook panicked")
		}
	}()
	e.hook(e.Event)
}

// stop waits until what is left has been delivered, for a while. A hook that still blocks is left behind.
func (q *events) stop() {
	close(q.quit)
	timer := time.NewTimer(lastEvents)
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C:
		q.giveUp.Store(true)
		q.log.Error().Int("events", len(q.queue)).Msg("leaving while a hook still runs; the events behind it are lost")
	}
	if n := q.dropped.Load(); n > 0 {
		q.log.Warn().Int64("dropped", n).Msg("events were dropped in all, since the hooks were too slow")
	}
}

// What follows turns what happens into events.

func (s *session) tellClaimed(runs []run.Run) {
	if s.hooks.Claimed == nil {
		return
	}
	for _, r := range runs {
		s.tell(s.hooks.Claimed, s.event(r, Running))
	}
}

func (s *session) tellStarted(a *active) {
	if s.hooks.Started == nil {
		return
	}
	e := s.event(a.run, Running)
	e.At, e.StartedAt = a.startedAt, a.startedAt
	s.tell(s.hooks.Started, e)
}

func (s *session) tellFinished(r run.Result) {
	if s.hooks.Finished == nil {
		return
	}
	e := s.event(r.Run, r.State)
	e.At, e.StartedAt, e.Message, e.RetryAt = r.Finished, r.Started, r.Message, r.RetryAt
	s.tell(s.hooks.Finished, e)
}

func (s *session) tellSkipped(fires []run.SkippedFire) {
	if s.hooks.Skipped == nil {
		return
	}
	for _, f := range fires {
		s.tell(s.hooks.Skipped, Event{
			App: s.cfg.App, Node: s.member.Self().NodeID, RunID: f.RunID, JobID: f.JobID, ScheduleID: f.ExecuteID,
			Job: f.Job, Schedule: f.Schedule, Class: f.Class, FireTime: f.FireTime,
			State: Skipped, Message: f.Message, Count: f.Count, At: s.clock.Now(),
		})
	}
}

func (s *session) tellLost(runs []run.LostRun) {
	if s.hooks.Lost == nil {
		return
	}
	for _, r := range runs {
		s.tell(s.hooks.Lost, Event{
			App: s.cfg.App, Node: r.Node, RunID: r.ID, JobID: r.JobID, ScheduleID: r.ExecuteID.Int64,
			Job: r.Job, Schedule: r.Schedule, Class: r.Class, FireTime: r.FireTime, StartedAt: r.StartedAt,
			Attempt: r.Attempt, State: Lost, Message: misfire.NodeDied, Count: 1, At: s.clock.Now(),
		})
	}
}

func (s *session) event(r run.Run, state RunState) Event {
	return Event{
		App: s.cfg.App, Node: s.member.Self().NodeID, RunID: r.ID, JobID: r.JobID, ScheduleID: r.ExecuteID,
		Job: r.Job, Schedule: r.Schedule, Class: r.Class, FireTime: r.FireTime, Attempt: r.Attempt, State: state, Count: 1, At: s.clock.Now(),
	}
}
