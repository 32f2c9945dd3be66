package node

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/schema"
)

// Clock tells the cluster's time, which is the database's. It measures the offset of this machine's
// clock and carries it on with a clock that never jumps, so that a wall clock that is wrong or jumps does
// not matter. It is never ahead of the database: a reading counts from when its answer arrived. When the
// database's own clock jumps, it follows with the next measurement, or with the next answer that shows it (Note).
type Clock struct {
	db     *sqlx.DB
	wall   func() time.Time
	log    zerolog.Logger
	sample atomic.Pointer[sample]
	still  atomic.Bool
	usual  atomic.Int64 // how long a quick answer takes, in nanoseconds; 0 before the first measurement
}

type sample struct {
	database time.Time     // the server's clock, at some moment before
	arrived  time.Duration // this moment (elapsed)
	skew     time.Duration
	measured bool // false for what stands in before the first measurement
}

const (
	// probes is how many readings a measurement takes at most; the one with the quickest answer counts. One that is as quick as
	// answers usually are is enough.
	probes = 3

	// stepFrom is by how much the database's clock must have jumped to be called a step in the log.
	stepFrom = time.Second

	// maxAhead is how much this clock may seem ahead of an answer: the server's time is often told in whole milliseconds.
	maxAhead = 2 * time.Millisecond

	// maxBehind is how far this clock may be behind an answer before it follows at once.
	maxBehind = 100 * time.Millisecond
)

var epoch = time.Now()

func monotonic() time.Duration { return time.Since(epoch) }

// NewClock returns a clock that measures on db; Measure it before use. Wall is this machine's clock, only used to report
// how wrong it is.
func NewClock(db *sqlx.DB, wall func() time.Time, log zerolog.Logger) *Clock {
	c := &Clock{db: db, wall: wall, log: log}
	c.sample.Store(&sample{database: wall(), arrived: elapsed()})
	return c
}

// at is what the sample says of a moment.
func (s *sample) at(moment time.Duration) time.Time { return s.database.Add(moment - s.arrived) }

// Measure reads the database's clock.
func (c *Clock) Measure(ctx context.Context) error {
	var best *sample
	var quickest time.Duration
	for n := range probes {
		if n > 0 && c.still.Load() {
			break // it does not matter how long the answer took
		}
		var micros int64
		asked := elapsed()
		if err := c.db.GetContext(ctx, &micros, `SELECT `+schema.NowSQL); err != nil {
			return fmt.Errorf("read the database's clock: %w", err)
		}
		arrived := elapsed()
		took := arrived - asked
		if best == nil || took < quickest {
			database := time.UnixMicro(micros)
			best, quickest = &sample{database, arrived, c.wall().Sub(database), true}, took
		}
		if usual := c.usual.Load(); usual > 0 && took <= time.Duration(usual)*5/4 {
			break
		}
	}
	c.noteUsual(quickest)
	for {
		old := c.sample.Load()
		if old.arrived > best.arrived {
			return nil // an answer that arrived since knows better
		}
		if c.sample.CompareAndSwap(old, best) {
			c.tellStep(old, best, quickest)
			return nil
		}
	}
}

// noteUsual has what is usual follow answers that are quicker at once, and slower ones slowly.
func (c *Clock) noteUsual(took time.Duration) {
	if usual := time.Duration(c.usual.Load()); usual > 0 {
		took = min(took, usual*9/8)
	}
	c.usual.Store(int64(max(took, 1)))
}

// Note corrects the clock by an answer that contained the server's time. Sent and received are when its request was sent and
// the answer was here, with their monotonic readings. While it was under way the server's clock said server: a clock that
// was later than server plus that time is ahead of the database, and is set back at once; one that was much earlier than
// server is set forward. Most calls change nothing. It may be called by many at a time.
func (c *Clock) Note(server, sent, received time.Time) {
	if c.still.Load() {
		return
	}
	arrived, took := elapsed()-time.Since(received), received.Sub(sent)
	for {
		old := c.sample.Load()
		said := old.at(arrived)
		if old.arrived > arrived || !said.After(server.Add(took+maxAhead)) && !said.Before(server.Add(-maxBehind)) {
			return
		}
		next := &sample{server, arrived, c.wall().Add(-time.Since(received)).Sub(server), true}
		if c.sample.CompareAndSwap(old, next) {
			c.tellStep(old, next, took)
			return
		}
	}
}

// tellStep logs that the database's clock has jumped between two samples, of which the later took some time to arrive.
func (c *Clock) tellStep(old, next *sample, took time.Duration) {
	if !old.measured || c.still.Load() {
		return
	}
	by := next.database.Sub(old.at(next.arrived))
	if by > stepFrom || by < -stepFrom-took {
		c.log.Warn().Dur("by", by).Time("from", old.at(next.arrived)).Time("to", next.database).
			Msg("the database's clock has been set; following it")
	}
}

// Now is the cluster's time, in UTC.
func (c *Clock) Now() time.Time {
	s := c.sample.Load()
	if c.still.Load() {
		return s.database.UTC()
	}
	return s.at(elapsed()).UTC()
}

// StandStill has the clock say what it said when it was last measured, until it is told to continue: for tests. The heartbeats of
// others are then watched by it, too.
func (c *Clock) StandStill(still bool) { c.still.Store(still) }

// moment is now, by a clock that never jumps.
func (c *Clock) moment() time.Time {
	if c.still.Load() {
		return c.Now()
	}
	return time.Now()
}

// elapsed is how much time has passed since some moment, that in which the machine was suspended included. While the clock stands
// still, only the database's clock tells.
func (c *Clock) elapsed() time.Duration {
	if c.still.Load() {
		return time.Duration(c.Now().UnixNano())
	}
	return elapsed()
}

// Skew is how far this machine's clock was ahead of the database's when last measured.
func (c *Clock) Skew() time.Duration { return c.sample.Load().skew }
