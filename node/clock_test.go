package node

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

func databaseTime(t *testing.T, db *sqlx.DB) time.Time {
	t.Helper()
	var micros int64
	require.NoError(t, db.GetContext(t.Context(), &micros, `SELECT `+schema.NowSQL))
	return time.UnixMicro(micros)
}

func off(by time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(by) } }

func TestTheClockIsNeverAhead(t *testing.T) {
	db := newDB(t)
	c := NewClock(db, time.Now, zerolog.Nop())
	for range 20 {
		require.NoError(t, c.Measure(t.Context()))
		for range 20 {
			now := c.Now()
			assert.False(t, now.After(databaseTime(t, db)), "the database was read after the clock")
		}
	}
}

func TestTheClockIsNotFarBehind(t *testing.T) {
	db := newDB(t)
	c := NewClock(db, time.Now, zerolog.Nop())
	require.NoError(t, c.Measure(t.Context()))
	before := databaseTime(t, db)
	assert.WithinDuration(t, before, c.Now(), 250*time.Millisecond)
}

// A wall clock that is wrong, or jumps, shows in Skew and nowhere else.
func TestTheClockDoesNotFollowTheWall(t *testing.T) {
	db := newDB(t)
	for _, wrong := range []time.Duration{-30 * time.Second, 0, 30 * time.Second} {
		c := NewClock(db, off(wrong), zerolog.Nop())
		require.NoError(t, c.Measure(t.Context()))
		now := c.Now()
		after := databaseTime(t, db)
		assert.False(t, now.After(after), "wall off by %s", wrong)
		assert.WithinDuration(t, after, now, 250*time.Millisecond, "wall off by %s", wrong)
		assert.InDelta(t, wrong.Seconds(), c.Skew().Seconds(), 0.25)
	}

	var jump time.Duration
	c := NewClock(db, func() time.Time { return time.Now().Add(jump) }, zerolog.Nop())
	require.NoError(t, c.Measure(t.Context()))
	before := c.Now()
	jump = time.Hour
	assert.WithinDuration(t, before, c.Now(), time.Second)
	assert.InDelta(t, 0, c.Skew().Seconds(), 0.25, "until the next measurement")
}

// The database's clock differs from this machine's: the cluster's time is the database's.
func TestTheClockFollowsTheDatabase(t *testing.T) {
	db := newDB(t)
	db.SetMaxOpenConns(1)
	c := NewClock(db, time.Now, zerolog.Nop())
	run(t, db, `SET SESSION timestamp = 1700000000.25`)
	require.NoError(t, c.Measure(t.Context()))
	assert.WithinDuration(t, time.UnixMilli(1_700_000_000_250), c.Now(), time.Second)
	assert.InDelta(t, time.Since(time.UnixMilli(1_700_000_000_250)).Seconds(), c.Skew().Seconds(), 1)
}

func TestTheSkewIsShown(t *testing.T) {
	db := newDB(t)
	m, _ := member(t, db, "n")
	m.clock.wall = off(-30 * time.Second)
	require.NoError(t, m.Join(t.Context()))
	shown := func() (millis float64) {
		require.NoError(t, db.GetContext(t.Context(), &millis, `SELECT CLOCK_SKEW FROM QRTZ_HEARTBEAT`))
		return millis
	}
	assert.InDelta(t, -30_000, shown(), 250)
	m.clock.wall = off(30 * time.Second)
	require.NoError(t, m.Beat(t.Context()))
	assert.InDelta(t, 30_000, shown(), 250)
}

func TestAFailedMeasurementKeepsTheLast(t *testing.T) {
	dsn := newDSN(t)
	through, network := openThrough(t, dsn)
	c := NewClock(through, off(30*time.Second), zerolog.Nop())
	require.NoError(t, c.Measure(t.Context()))
	network.hang()
	ctx, cancel := context.WithTimeout(t.Context(), beatEvery)
	defer cancel()
	require.ErrorIs(t, c.Measure(ctx), context.DeadlineExceeded)
	now := c.Now()
	assert.False(t, now.After(databaseTime(t, open(t, dsn))))
	assert.WithinDuration(t, time.Now(), now, time.Second)
}
