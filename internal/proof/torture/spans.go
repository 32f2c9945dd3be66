package main

import (
	"sync"
	"time"
)

// span is a span of time; until is zero while it lasts.
type span struct{ from, until time.Time }

func (s span) touches(from, until time.Time) bool {
	return !from.After(orNow(s.until)) && !orNow(until).Before(s.from)
}

func orNow(t time.Time) time.Time {
	if t.IsZero() {
		return time.Now()
	}
	return t
}

// spans are times that something lasted.
type spans struct {
	mu  sync.Mutex
	all []*span
}

// begin notes a beginning; the function it returns notes the end.
func (s *spans) begin() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := &span{from: time.Now()}
	s.all = append(s.all, one)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if one.until.IsZero() {
			one.until = time.Now()
		}
	}
}

// touch tells whether it lasted at some time between two.
func (s *spans) touch(from, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.touches(from, until) {
			return true
		}
	}
	return false
}

// cover tells whether it lasted all the time between two.
func (s *spans) cover(from, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if !one.from.After(from) && !orNow(one.until).Before(until) {
			return true
		}
	}
	return false
}

// trouble is what only one fault at a time may have in its hands.
type trouble struct {
	spans // when one had it

	holds sync.Mutex
	busy  bool
	end   func()
}

// take reserves it for a fault; false if another one has it.
func (t *trouble) take() bool {
	if !t.reserve() {
		return false
	}
	t.strike()
	return true
}

// reserve is take for a fault that does nothing yet, until it strikes.
func (t *trouble) reserve() bool {
	t.holds.Lock()
	defer t.holds.Unlock()
	if t.busy {
		return false
	}
	t.busy, t.end = true, func() {}
	return true
}

// strike notes that the fault begins.
func (t *trouble) strike() {
	t.holds.Lock()
	defer t.holds.Unlock()
	t.end = t.begin()
}

func (t *trouble) free() {
	t.holds.Lock()
	defer t.holds.Unlock()
	t.busy = false
	t.end()
}

// taken tells whether a fault has it.
func (t *trouble) taken() bool {
	t.holds.Lock()
	defer t.holds.Unlock()
	return t.busy
}
