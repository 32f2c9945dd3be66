package node

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// Clock tells the cluster's time, which is the database's. It measures the offset of this machine's
// clock and carries it on with the monotonic clock, so that a wall clock that is wrong or jumps does
// not matter. It is never ahead of the database: a reading counts from when its answer arrived.
type Clock struct {
	db     *sqlx.DB
	wall   func() time.Time
	sample atomic.Pointer[sample]
	still  atomic.Bool
}

type sample struct {
	database time.Time // the server's clock, at some moment before
	arrived  time.Time // this moment, by the monotonic clock
	skew     time.Duration
}

// probes is how many readings a measurement takes; the one with the quickest answer counts.
const probes = 3

// NewClock returns a clock; Measure it before use. Wall is this machine's clock, only used to report
// how wrong it is.
func NewClock(db *sqlx.DB, wall func() time.Time) *Clock {
	c := &Clock{db: db, wall: wall}
	c.sample.Store(&sample{database: wall(), arrived: time.Now()})
	return c
}

// Measure reads the database's clock.
func (c *Clock) Measure(ctx context.Context) error {
	var best *sample
	var quickest time.Duration
	for range probes {
		var micros int64
		asked := time.Now()
		if err := c.db.GetContext(ctx, &micros, `SELECT `+schema.NowSQL); err != nil {
			return fmt.Errorf("read the database's clock: %w", err)
		}
		arrived := time.Now()
		if took := arrived.Sub(asked); best == nil || took < quickest {
			database := time.UnixMicro(micros)
			best, quickest = &sample{database, arrived, c.wall().Sub(database)}, took
		}
	}
	c.sample.Store(best)
	return nil
}

// Now is the cluster's time.
func (c *Clock) Now() time.Time {
	s := c.sample.Load()
	if c.still.Load() {
		return s.database
	}
	return s.database.Add(time.Since(s.arrived))
}

// StandStill has the clock say what it said when it was last measured, until it is told to go on: for tests.
func (c *Clock) StandStill(still bool) { c.still.Store(still) }

// Skew is how far this machine's clock was ahead of the database's when last measured.
func (c *Clock) Skew() time.Duration { return c.sample.Load().skew }
