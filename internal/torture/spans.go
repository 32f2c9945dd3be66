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

// common are the spans in which both have one.
func common(a, b []span) (both []span) {
	for _, s := range a {
		for _, o := range b {
			if s.touches(o.from, o.until) {
				both = append(both, span{later(s.from, o.from), earlier(orNow(s.until), orNow(o.until))})
			}
		}
	}
	return both
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// trouble is what only one fault at a time may have in its hands, and when one had.
type trouble struct {
	mu    sync.Mutex
	spans []span
}

// take reserves it for a fault; false if another one has it.
func (t *trouble) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.spans); n > 0 && t.spans[n-1].until.IsZero() {
		return false
	}
	t.spans = append(t.spans, span{from: time.Now()})
	return true
}

func (t *trouble) free() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spans[len(t.spans)-1].until = time.Now()
}

// taken tells whether a fault has it.
func (t *trouble) taken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.spans)
	return n > 0 && t.spans[n-1].until.IsZero()
}

// times are the spans in which a fault had it, and a while longer each, until what it did is over.
func (t *trouble) times(longer time.Duration) []span {
	t.mu.Lock()
	defer t.mu.Unlock()
	spans := make([]span, len(t.spans))
	for i, s := range t.spans {
		spans[i] = s
		if !s.until.IsZero() {
			spans[i].until = s.until.Add(longer)
		}
	}
	return spans
}
