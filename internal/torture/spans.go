package main

import (
	"sync"
	"time"
)

// span is a span of time; until is zero while it goes on.
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

// trouble is what only one fault at a time may have in its hands.
type trouble struct {
	mu   sync.Mutex
	busy bool
}

// take reserves it for a fault; false if another one has it.
func (t *trouble) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := !t.busy
	t.busy = true
	return taken
}

func (t *trouble) free() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = false
}

// taken tells whether a fault has it.
func (t *trouble) taken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.busy
}
