package qrtz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/run"
)

// Manual is a node of the cluster that does nothing until told, and then in the caller's goroutine, by the database's
// clock as it is at that moment. It is for tests: use package qrtztest, which has the database tell the time you want.
type Manual struct {
	scheduler *Scheduler
	session   *session
	told      []Event

	holding map[hold]bool
	held    []*heldRun
	waiting chan *heldRun // a run that has just begun to wait
}

// hold is where the runs of a class wait: before their handler is called, or after it has returned.
type hold struct {
	class    string
	returned bool
}

// heldRun is a run that waits in a goroutine of its own.
type heldRun struct {
	run   *Run
	at    hold
	goOn  chan error    // nil: it continues; otherwise its handler fails with that
	ended chan struct{} // closed when the run has ended
}

// Manual joins the cluster in place of Run, and does what a node does when it starts: misfire policies are applied, and
// runs that no instance holds any more are put on record as LOST. The nodeID, if not empty, takes the place of Config's.
func (s *Scheduler) Manual(ctx context.Context, nodeID string) (*Manual, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	if nodeID != "" {
		s.cfg.NodeID = nodeID
	}
	session := newSession(ctx, s, &links{own: s.db, beat: s.db}) // which the test has told the time
	s.session.Store(session)
	m := &Manual{scheduler: s, session: session, holding: map[hold]bool{}, waiting: make(chan *heldRun)}
	session.manual = m
	session.hooks, session.tell = m.recording(s.cfg.Hooks), func(hook func(Event), e Event) { hook(e) }
	session.carry = m.waitingAround(session.carry)
	session.clock.StandStill(true)
	if err := session.start(ctx); err != nil {
		m.free()
		return nil, fmt.Errorf("qrtz: %w", err)
	}
	return m, nil
}

// free lets the Scheduler run, or be driven by another Manual.
func (m *Manual) free() {
	m.scheduler.session.Store(nil)
	m.scheduler.end()
}

// start joins the cluster and does all of the misfire handler's work at once, so that a test knows what has been done.
func (s *session) start(ctx context.Context) error {
	if err := s.join(ctx); err != nil {
		return err
	}
	if err := s.misfire.FullPass(ctx); err != nil {
		s.leave(ctx)
		return err
	}
	return nil
}

// recording are hooks that note how runs ended, and call the user's at once.
func (m *Manual) recording(user Hooks) Hooks {
	note := func(hook func(Event)) func(Event) {
		return func(e Event) {
			m.told = append(m.told, e)
			if hook != nil {
				hook(e)
			}
		}
	}
	return Hooks{Claimed: user.Claimed, Started: user.Started, Finished: note(user.Finished), Skipped: note(user.Skipped), Lost: note(user.Lost), Stuck: user.Stuck}
}

// waitingAround is a Handler whose runs wait where a test holds them.
func (m *Manual) waitingAround(next Handler) Handler {
	return func(ctx context.Context, run *Run) error {
		if err := m.wait(run, hold{run.Class, false}); err != nil {
			return err
		}
		err := next(ctx, run)
		if died := m.wait(run, hold{run.Class, true}); died != nil {
			return died
		}
		return err
	}
}

// wait waits if a test holds runs here, and returns why the run cannot continue.
func (m *Manual) wait(run *Run, at hold) error {
	if !m.holding[at] {
		return nil
	}
	held := &heldRun{run: run, at: at, goOn: make(chan error)}
	m.waiting <- held
	return <-held.goOn
}

// holds tells whether a test holds runs of a class.
func (m *Manual) holds(class string) bool {
	return m != nil && (m.holding[hold{class, false}] || m.holding[hold{class, true}])
}

// RunDue does the misfire handler's work, and then carries out everything that is due now, one run after the other in order of fire time, until nothing is due
// any more. A run that begins to wait (Hold) is left to Release. It returns what has finished, was skipped or lost since it was last
// called, and when there will be more to do, in UTC; zero for never. Handlers get the values of ctx.
func (m *Manual) RunDue(ctx context.Context) (told []Event, next time.Time, err error) {
	s := m.session
	s.values.Store(withoutEnd(ctx))
	err = s.member.Beat(ctx)
	if err == nil {
		m.timeOut()
		err = s.misfire.FullPass(ctx)
	}
	if err == nil && len(m.held) > 0 {
		if err = s.attend(ctx); errors.Is(err, outage.ErrIdle) {
			err = nil
		}
	}
	if err == nil {
		err = m.claim(ctx)
	}
	if err == nil {
		next, err = m.next(ctx)
	}
	told, m.told = m.told, nil
	if err != nil {
		return told, time.Time{}, fmt.Errorf("qrtz: %w", err)
	}
	return told, next, nil
}

// claim carries out what is due, if the switches let this node claim.
func (m *Manual) claim(ctx context.Context) error {
	claiming, err := m.session.poller.FollowSwitches(ctx)
	if err != nil || !claiming {
		return err
	}
	return m.session.poller.RunDue(ctx, m.carryOut)
}

// carryOut carries a run out until it has ended or begins to wait.
func (m *Manual) carryOut(ctx context.Context, r run.Run) error {
	s := m.session
	if !s.member.Holds(r.Instance) { // a handler before it took long, and nothing beats meanwhile
		if err := s.member.Beat(ctx); err != nil {
			return err
		}
	}
	if !m.holds(r.Class) {
		s.carryOut(r, s.clock.Now()) //nolint:contextcheck // a run ends with its session, not with its caller
		return s.results.Flush(ctx)
	}
	ended := make(chan struct{})
	go func() { //nolint:contextcheck // likewise
		defer close(ended)
		s.carryOut(r, s.clock.Now())
	}()
	return m.await(ctx, ended)
}

// await waits until a run has ended or begins to wait.
func (m *Manual) await(ctx context.Context, ended chan struct{}) error {
	select {
	case held := <-m.waiting:
		held.ended = ended
		m.held = append(m.held, held)
		return nil
	case <-ended:
		return m.session.results.Flush(ctx)
	}
}

// next is when there is more to do: something is due, the time of a run that waits is over, or another node may be dead.
func (m *Manual) next(ctx context.Context) (time.Time, error) {
	s := m.session
	now := s.clock.Now()
	next, err := s.executes.NextDue(ctx, s.classes, now)
	sooner := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, a := range m.timed() {
		sooner(a.startedAt.Add(a.run.Options.Timeout))
	}
	if v := s.member.View(); v.Others() {
		sooner(now.Add(s.cfg.PollInterval)) // it is watched from heartbeat to heartbeat
	}
	return next, err
}

// timed are the runs that wait and have a timeout. Theirs goes by the clock of the test; that of others by the real one.
func (m *Manual) timed() (timed []*active) {
	for _, held := range m.held {
		if a := held.run.active; a.run.Options.Timeout > 0 {
			timed = append(timed, a)
		}
	}
	return timed
}

func (m *Manual) timeOut() {
	for _, a := range m.timed() {
		if !m.session.clock.Now().Before(a.startedAt.Add(a.run.Options.Timeout)) {
			a.cancel(ErrTimedOut)
		}
	}
}

// Waiting tells whether any run waits.
func (m *Manual) Waiting() bool { return len(m.held) > 0 }

// Hold has the runs of a class that start from now on wait before their handler is called, or, if returned, after it has returned
// and before its result is written.
func (m *Manual) Hold(class string, returned bool) { m.holding[hold{class, returned}] = true }

// Held are the runs of a class that wait there, in the order they began to.
func (m *Manual) Held(class string, returned bool) (runs []*Run) {
	for _, held := range m.held {
		if held.at == (hold{class, returned}) {
			runs = append(runs, held.run)
		}
	}
	return runs
}

// Release ends a Hold: the runs that wait continue, one after the other, until they have ended or wait again. It returns what has
// finished with that.
func (m *Manual) Release(ctx context.Context, class string, returned bool) (told []Event, err error) {
	at := hold{class, returned}
	delete(m.holding, at)
	released := slices.DeleteFunc(slices.Clone(m.held), func(h *heldRun) bool { return h.at != at })
	m.held = slices.DeleteFunc(m.held, func(h *heldRun) bool { return h.at == at })
	for _, held := range released {
		held.goOn <- nil
		err = errors.Join(err, m.await(ctx, held.ended))
	}
	if err != nil {
		err = fmt.Errorf("qrtz: %w", err)
	}
	told, m.told = m.told, nil
	return told, err
}

// Kill ends the node as the death of its process does, right after a heartbeat: runs that wait do not continue, and nothing is written.
// The Scheduler can then run, or be driven by a Manual of another node.
func (m *Manual) Kill(ctx context.Context) error {
	defer m.Abandon()
	return m.Freeze(ctx)
}

// Freeze has the node do nothing any more, from right after a heartbeat. Runs that wait continue when they are released: as in a process
// that wakes up and has not noticed yet that it was taken for dead. The Scheduler can then run, or be driven by a Manual of another node.
func (m *Manual) Freeze(ctx context.Context) error {
	defer m.free()
	if err := m.session.member.Beat(ctx); err != nil {
		return fmt.Errorf("qrtz: %w", err)
	}
	return nil
}

// Abandon ends the goroutines of runs that wait. The cause with which their contexts end says that nothing is to be written.
func (m *Manual) Abandon() {
	m.session.endRuns(ErrFenced)
	for _, held := range m.held {
		held.goOn <- errKilled
		<-held.ended
	}
	m.held = nil
}

var errKilled = errors.New("the test has ended this node")

// Stop stops the node as the end of Run's context does: the runs that wait continue with contexts that have ended (ErrDrained), as after
// Config.DrainTimeout, and the node leaves. It returns what has finished since RunDue. The Scheduler can then run, or be driven by a
// Manual again.
func (m *Manual) Stop(ctx context.Context) (told []Event, err error) {
	m.session.endRuns(ErrDrained)
	m.holding = map[hold]bool{}
	for _, held := range m.held {
		held.goOn <- nil
		<-held.ended
	}
	m.held = nil
	err = m.session.results.Flush(ctx)
	m.session.poller.Leave(ctx)
	m.Leave(ctx)
	return m.told, err
}

// Leave leaves the cluster. Runs that wait do not continue. The Scheduler can then run, or be driven by a Manual again.
func (m *Manual) Leave(ctx context.Context) {
	m.Abandon()
	m.session.leave(ctx)
	m.free()
}
