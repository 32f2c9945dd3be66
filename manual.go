package qrtz

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// Manual is a node of the cluster that does nothing until told, and then in the caller's goroutine, by the database's
// clock as it is at that moment. It is for tests: use package qrtztest, which has the database tell the time you want.
type Manual struct {
	scheduler *Scheduler
	session   *session
	told      []Event
}

// Manual joins the cluster in place of Run, and does what a node does when it starts: misfire policies are applied, and
// runs that no instance holds any more are put on record as LOST.
func (s *Scheduler) Manual(ctx context.Context) (*Manual, error) {
	if !s.busy.CompareAndSwap(false, true) {
		return nil, errors.New("qrtz: this Scheduler is running already")
	}
	session := newSession(s, &links{own: s.db, beat: s.db}) // which the test has told the time
	s.session.Store(session)
	m := &Manual{scheduler: s, session: session}
	session.hooks, session.tell = m.recording(s.cfg.Hooks), func(hook func(Event), e Event) { hook(e) }
	session.clock.StandStill(true)
	if err := session.start(ctx); err != nil {
		s.session.Store(nil)
		s.busy.Store(false)
		return nil, fmt.Errorf("qrtz: %w", err)
	}
	return m, nil
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

// RunDue does the misfire handler's work, and then carries out everything that is due now, one run after the other in order of fire time, until nothing is due
// any more. It returns what has finished, was skipped or lost since it was last called, and when there will be more to
// do, in UTC; zero for never.
func (m *Manual) RunDue(ctx context.Context) (told []Event, next time.Time, err error) {
	s := m.session
	err = s.member.Beat(ctx)
	if err == nil {
		err = s.misfire.FullPass(ctx)
	}
	if err == nil {
		err = s.poller.RunDue(ctx, func(ctx context.Context, r run.Run) error {
			if !s.member.Holds(r.Instance) { // a handler before it took long, and nothing beats meanwhile
				if err := s.member.Beat(ctx); err != nil {
					return err
				}
			}
			s.carryOut(r, s.clock.Now()) //nolint:contextcheck // a run ends with its session, not with its caller
			return s.results.Flush(ctx)
		})
	}
	if err == nil {
		next, err = s.executes.NextDue(ctx, s.classes, s.clock.Now())
	}
	told, m.told = m.told, nil
	if err != nil {
		return told, time.Time{}, fmt.Errorf("qrtz: %w", err)
	}
	return told, next, nil
}

// Leave leaves the cluster. The Scheduler can then run, or be driven by a Manual again.
func (m *Manual) Leave(ctx context.Context) {
	m.session.leave(ctx)
	m.scheduler.session.Store(nil)
	m.scheduler.busy.Store(false)
}
