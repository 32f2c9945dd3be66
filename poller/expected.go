package poller

import (
	"slices"
	"sync"
	"time"
)

const (
	expectFor    = 2 * time.Second // after which a run that cannot be seen is left to the sweep
	expectFirst  = time.Millisecond
	mostExpected = 500 // runs looked for at once; of more, the table tells
	mostKept     = 10 * mostExpected
)

// expected are the runs that this process has added, until it sees them. Its transaction may still be about to commit, or
// may have been rolled back; on a Galera cluster they come from another server.
type expected struct {
	mu     sync.Mutex
	groups []*expectation
	kept   int  // runs in the groups, at the most
	more   bool // runs have been added that are not in them: the table tells
}

// expectation is runs that were added together.
type expectation struct {
	ids       []int64
	at, until time.Time // when to look for them next, and for the last time
	pause     time.Duration
}

func (e *expected) add(now time.Time, ids []int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kept += len(ids); e.kept > mostKept { // while no slot is free, they are not looked for
		e.groups, e.kept, e.more = nil, 0, true
		return
	}
	e.groups = append(e.groups, &expectation{ids: slices.Clone(ids), at: now, until: now.Add(expectFor), pause: expectFirst})
}

func (e *expected) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.groups, e.kept, e.more = nil, 0, false
}

// due returns those that it is time to look for. If they are too many, it forgets them and says so: they are to be read
// from the table then.
func (e *expected) due(now time.Time) (ids []int64, tooMany bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.groups = slices.DeleteFunc(e.groups, func(g *expectation) bool { return len(g.ids) == 0 || g.at.After(g.until) })
	e.kept = 0
	for _, g := range e.groups {
		e.kept += len(g.ids)
	}
	tooMany, e.more = e.more, false
	for _, g := range e.groups {
		if g.at.After(now) {
			continue
		}
		ids = append(ids, g.ids...)
		g.at, g.pause = now.Add(g.pause), 2*g.pause
	}
	if len(ids) > mostExpected {
		e.groups, e.kept = nil, 0
		return nil, true
	}
	return ids, tooMany
}

// found takes out those that have been seen.
func (e *expected) found(ids []int64) {
	if len(ids) == 0 {
		return
	}
	seen := make(map[int64]bool, len(ids))
	for _, id := range ids {
		seen[id] = true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range e.groups {
		g.ids = slices.DeleteFunc(g.ids, func(id int64) bool { return seen[id] })
	}
	e.groups = slices.DeleteFunc(e.groups, func(g *expectation) bool { return len(g.ids) == 0 })
}

// next is when to look again.
func (e *expected) next() (at time.Time, any bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, g := range e.groups {
		if i == 0 || g.at.Before(at) {
			at = g.at
		}
	}
	if e.more {
		return time.Time{}, true
	}
	return at, len(e.groups) > 0
}

func (e *expected) any() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.more || len(e.groups) > 0
}
