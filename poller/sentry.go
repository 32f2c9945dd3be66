package poller

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/outage"
)

const (
	lookWith    = 5 * time.Millisecond // what is due so much later than a look is for is covered by it, too
	lookFirst   = 3 * time.Millisecond // how long before it is needed a look is sent, at least
	lookMost    = maxLead              // and at most; for a crowd, whose start takes all the processor there is
	lookTimeout = time.Second
	sureFor     = 2 * lookMost // how long what a look has seen is believed
)

// sentry looks at the switches just before a run starts that was claimed some time ago: the claim saw them on, but they may
// have been thrown since. One look serves all that is due within a few milliseconds, and there is one at a time.
type sentry struct {
	now   func() time.Time // the database's time
	on    func() (bool, error)
	pacer *outage.Pacer
	looks sync.WaitGroup // the one under way

	mu      sync.Mutex
	looking bool
	after   time.Time     // not before, by this process's clock: the last look failed
	took    time.Duration // a look, a moving average
}

// newSentry returns a sentry that looks by on, also when ctx has ended.
func newSentry(ctx context.Context, now func() time.Time, on func(context.Context) (bool, error), log zerolog.Logger) *sentry {
	inTime := func() (bool, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
		defer cancel()
		return on(ctx)
	}
	return &sentry{now: now, on: inTime, pacer: outage.New(log, "look at the switches before a start")}
}

// look is asked for something that is due in so long, together with a crowd or not. It says how long until it is to be asked again, or begins to
// look, and tells what it has seen: nothing if there is no answer.
func (s *sentry) look(dueIn time.Duration, crowded bool, tell func(on bool, until time.Time)) (again time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lead, with := s.lead(), lookWith
	if crowded {
		lead, with = lookMost, lookMost/2
	}
	if s.looking {
		return idle // it tells
	}
	if again = max(dueIn-lead, time.Until(s.after)); again > 0 {
		return again
	}
	s.looking = true
	s.looks.Go(func() { s.carryOut(lead+with, tell) })
	return idle
}

// lead is how long before it is needed a look is sent.
func (s *sentry) lead() time.Duration { return min(max(lookFirst, 3*s.took), lookMost) }

func (s *sentry) carryOut(covers time.Duration, tell func(on bool, until time.Time)) {
	until, began := s.now().Add(covers), time.Now()
	on, err := s.on()
	s.mu.Lock()
	s.looking = false
	if err == nil {
		s.took += (time.Since(began) - s.took) / 8
	}
	s.after = time.Now().Add(s.pacer.Next(err, 0))
	s.mu.Unlock()
	if err != nil {
		on, until = true, time.Time{} // of nothing: it is asked again
	}
	tell(on, until)
}
