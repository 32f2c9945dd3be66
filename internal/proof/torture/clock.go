package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// serverClock is the database's clock beside this machine's. Where it can be had, it is libfaketime's, which steps when told.
type serverClock struct {
	file  string // that libfaketime reads; empty without it
	steps trouble

	mu      sync.Mutex
	offset  time.Duration // as it has been told
	changes []offsetAt    // as they were seen
	told    *offsetAt     // a step that no answer has shown yet: the server may have died right after it
}

// offsetAt is by how much the database's clock was ahead of ours from some time on.
type offsetAt struct {
	from   time.Time // ours
	offset time.Duration
}

const (
	lookAtClock = 200 * time.Millisecond
	sameClock   = 500 * time.Millisecond // what is less is how long answers take
	stepping    = 2 * time.Second        // in which a server has noticed that its clock is to step
)

var libfaketime = []string{"/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"}

// environment is what has a server ask libfaketime for the time; nil if there is none.
func (c *serverClock) environment(file string) []string {
	for _, lib := range libfaketime {
		if _, err := os.Stat(lib); err != nil {
			continue
		}
		if err := os.WriteFile(file, []byte("+0\n"), 0o644); err != nil { //nolint:gosec // the server may be another user's
			return nil
		}
		c.file = file
		return []string{"LD_PRELOAD=" + lib, "FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_CACHE_DURATION=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"}
	}
	return nil
}

// step has the database's clock step, forth or back.
func (c *serverClock) step(by time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	offset := c.offset + by
	if err := os.WriteFile(c.file+".new", fmt.Appendf(nil, "%+d\n", int(offset.Seconds())), 0o644); err != nil { //nolint:gosec // as above
		return err
	}
	c.offset, c.told = offset, &offsetAt{time.Now(), offset}
	return os.Rename(c.file+".new", c.file)
}

// watch compares the clocks until ctx ends. While no server answers nothing changes.
func (c *serverClock) watch(ctx context.Context, db *sqlx.DB) {
	ticker := time.NewTicker(lookAtClock)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		sent := time.Now()
		theirs, err := schema.Now(ctx, db)
		if err != nil || time.Since(sent) > sameClock/2 {
			continue
		}
		c.see(sent, theirs.Sub(sent))
	}
}

func (c *serverClock) see(at time.Time, offset time.Duration) {
	if offset.Abs() < sameClock {
		offset = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := time.Duration(0)
	if n := len(c.changes); n > 0 {
		last = c.changes[n-1].offset
	}
	if (offset - last).Abs() > sameClock {
		c.changes, c.told = append(c.changes, offsetAt{at, offset}), nil
	}
}

// around is the least and the most that the database's clock was ahead around a time of ours: while it stepped, that is not known.
func (c *serverClock) around(at time.Time) (least, most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Duration(0) // before the first change
	least, most = now, now
	for _, change := range c.changes {
		if change.from.After(at.Add(stepping)) {
			break
		}
		if !change.from.After(at.Add(-stepping)) {
			least, most = change.offset, change.offset
			continue
		}
		least, most = min(least, change.offset), max(most, change.offset)
	}
	if c.told != nil && at.After(c.told.from.Add(-stepping)) {
		least, most = min(least, c.told.offset), max(most, c.told.offset)
	}
	if len(c.changes) > 0 { // what was seen includes the time that an answer took
		least, most = least-sameClock/2, most+sameClock/2
	}
	return least, most
}

// atLeast and atMost are a time of ours by the database's clock.
func (c *serverClock) atLeast(at time.Time) time.Time {
	least, _ := c.around(at)
	return at.Add(least)
}

func (c *serverClock) atMost(at time.Time) time.Time {
	_, most := c.around(at)
	return at.Add(most)
}

// stepped tells whether the clock stepped between two times of ours.
func (c *serverClock) stepped(from, until time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range c.changes {
		if change.from.After(from.Add(-stepping)) && change.from.Before(until.Add(stepping)) {
			return true
		}
	}
	return c.told != nil && c.told.from.Before(until.Add(stepping))
}

// skipped tells whether a time by the database's clock never was, because it stepped forth over it.
func (c *serverClock) skipped(theirs time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := time.Duration(0)
	for _, change := range c.changes {
		before, after := change.from.Add(last-stepping), change.from.Add(change.offset+stepping)
		if change.offset > last && theirs.After(before) && theirs.Before(after) {
			return true
		}
		last = change.offset
	}
	return false
}

// twice tells whether a time by the database's clock came twice, or nearly so, because it stepped back: it cannot be said which one
// a stamp means.
func (c *serverClock) twice(theirs time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := time.Duration(0)
	for _, change := range c.changes {
		if change.offset < last && theirs.After(change.from.Add(change.offset-stepping)) && theirs.Before(change.from.Add(last+stepping)) {
			return true
		}
		last = change.offset
	}
	return false
}

// steppedBack tells whether the clock showed a time twice, or stepped back within a while before or after it.
func (c *serverClock) steppedBack(theirs time.Time, within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := time.Duration(0)
	for _, change := range c.changes {
		if change.offset < last && change.from.Add(last).Sub(theirs).Abs() < within+last-change.offset {
			return true
		}
		last = change.offset
	}
	return false
}

// stepClock has the database's clock step back by a little, or forth by more than a fire may be late. It stays so.
func (t *torture) stepClock(ctx context.Context, f fault) {
	if t.clock.file == "" {
		t.note("step clock: there is no libfaketime here")
		return
	}
	if !t.clock.steps.take() {
		return
	}
	defer t.clock.steps.free()
	by := -3 * time.Second
	if f.dice.IntN(2) == 0 && t.clock.ahead() < 2*t.pace.leap {
		by = t.pace.leap
	}
	t.note("the database's clock steps by %s", by)
	if err := t.clock.step(by); err != nil {
		t.judge.blame("faketime: %v", err)
	}
	t.wait(ctx, t.pace.misfireInterval()+2*stepping)
}

// ahead is by how much the clock has been told to be ahead.
func (c *serverClock) ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

// ours are the times by our clock at which the database's clock showed what lies between two times by its own, as closely as is known.
func (c *serverClock) ours(from, until time.Time) (all []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changes := append([]offsetAt{{}}, c.changes...)
	for i, change := range changes {
		one := span{from.Add(-change.offset), until.Add(-change.offset)}
		if i > 0 {
			one.from = later(one.from, change.from.Add(-stepping))
		}
		if i+1 < len(changes) {
			if end := changes[i+1].from.Add(stepping); end.Before(one.until) {
				one.until = end
			}
		}
		if !one.until.Before(one.from) {
			all = append(all, one)
		}
	}
	return all
}
