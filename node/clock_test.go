package node

import (
	"bytes"
	"context"
	"strings"
	"sync"
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

// An answer that is as quick as usual is enough.
func TestAMeasurementTakesFewReadings(t *testing.T) {
	db := newDB(t)
	c := NewClock(db, time.Now, zerolog.Nop())
	status := statusTable(t, db)
	asked := func() (n int) {
		require.NoError(t, db.GetContext(t.Context(), &n, `SELECT VARIABLE_VALUE FROM `+status+` WHERE VARIABLE_NAME = 'Com_select'`))
		return n
	}
	measured := func() int {
		before := asked()
		require.NoError(t, c.Measure(t.Context()))
		return asked() - before - 1
	}
	db.SetMaxOpenConns(1) // the counter is the session's
	assert.Equal(t, probes, measured(), "nothing is usual yet")
	c.usual.Store(int64(time.Hour))
	assert.Equal(t, 1, measured())
	assert.LessOrEqual(t, time.Duration(c.usual.Load()), time.Minute, "a quicker answer is usual at once")
	c.usual.Store(1)
	assert.Equal(t, probes, measured(), "none was quick")
	c.usual.Store(int64(time.Microsecond))
	c.noteUsual(time.Second)
	assert.Equal(t, int64(1125), c.usual.Load(), "slower ones become usual slowly")
}

// statusTable is where the server tells what this session has done.
func statusTable(t *testing.T, db *sqlx.DB) string {
	t.Helper()
	var version string
	require.NoError(t, db.GetContext(t.Context(), &version, `SELECT VERSION()`))
	if strings.Contains(version, "MariaDB") {
		return "information_schema.SESSION_STATUS"
	}
	return "performance_schema.session_status"
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

// told is a clock that has been measured, by a database whose clock is this machine's, and its log.
func told(t *testing.T) (*Clock, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	c := NewClock(newDB(t), time.Now, zerolog.New(zerolog.SyncWriter(&log)))
	require.NoError(t, c.Measure(t.Context()))
	return c, &log
}

// A claim's answer says what the server's clock was: no handler starts early after it, although the clock was set back.
func TestAnAnswerSetsTheClock(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"back": -3 * time.Second, "far back": -time.Hour, "slightly back": -20 * time.Millisecond,
		"forward": 3 * time.Second, "far forward": time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			c, log := told(t)
			now := time.Now()
			sent := now.Add(-5 * time.Millisecond)
			server := c.Now().Add(step)
			c.Note(server, sent, now)
			assert.WithinDuration(t, server.Add(time.Since(now)), c.Now(), 10*time.Millisecond)
			assert.False(t, c.Now().After(server.Add(time.Since(sent))), "never ahead of what the server can say")
			assert.Equal(t, step > stepFrom || step < -stepFrom, strings.Contains(log.String(), "has been set"), log.String())
			said := log.Len()
			c.Note(server.Add(time.Since(now)), time.Now(), time.Now())
			assert.Equal(t, said, log.Len(), "once a step")
		})
	}
}

func TestAnAnswerThatFitsChangesNothing(t *testing.T) {
	c, log := told(t)
	before := c.sample.Load()
	for _, took := range []time.Duration{0, time.Millisecond, time.Second} {
		for _, within := range []time.Duration{0, took / 2, took} {
			now := time.Now()
			server := c.Now().Add(-within)
			c.Note(server, now.Add(-took), now)
			assert.Same(t, before, c.sample.Load(), "said %s before an answer that took %s", within, took)
		}
	}
	now := time.Now()
	c.Note(c.Now().Add(-time.Minute), now.Add(-time.Hour-time.Second), now.Add(-time.Hour))
	assert.Same(t, before, c.sample.Load(), "an answer from before the last measurement says nothing new")
	assert.Empty(t, log.String())
}

func TestAMeasurementFollowsAStepAndSaysSo(t *testing.T) {
	for name, step := range map[string]float64{"forward": 60, "back": -3} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			db.SetMaxOpenConns(1)
			var log bytes.Buffer
			c := NewClock(db, time.Now, zerolog.New(&log))
			run(t, db, `SET SESSION timestamp = 1700000000`)
			require.NoError(t, c.Measure(t.Context()))
			assert.Empty(t, log.String(), "the first measurement is no step")
			run(t, db, `SET SESSION timestamp = ?`, 1700000000+step)
			for range 2 {
				require.NoError(t, c.Measure(t.Context()))
				assert.WithinDuration(t, time.Unix(1700000000, 0).Add(time.Duration(step)*time.Second), c.Now(), time.Second)
			}
			assert.Equal(t, 1, strings.Count(log.String(), "has been set"), log.String())
		})
	}
}

func TestManyMayCorrectTheClock(t *testing.T) {
	c, _ := told(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				sent := time.Now()
				c.Note(sent.Add(time.Duration(i%3-1)*time.Second), sent, time.Now())
				c.Now()
			}
		})
	}
	wg.Wait()
}
