package node

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

func TestBeatMovesTheHeartbeat(t *testing.T) {
	db := newDB(t)
	m, f := joined(t, db, "n")
	before := readRow(t, db, "n")
	require.Positive(t, before.Heartbeat.Int64)
	var now int64
	require.Eventually(t, func() bool { // for the server's clock to show another millisecond
		require.NoError(t, db.GetContext(t.Context(), &now, `SELECT `+schema.NowMillisSQL))
		return now > before.Heartbeat.Int64
	}, time.Second, time.Millisecond)
	require.NoError(t, m.Beat(t.Context()))
	after := readRow(t, db, "n")
	assert.GreaterOrEqual(t, after.Heartbeat.Int64, now)
	before.Heartbeat = after.Heartbeat
	assert.Equal(t, before, after, "nothing else has changed")
	assert.Empty(t, f.all())
}

func TestANodeIsDeadAfterTimeout(t *testing.T) {
	db := newDB(t)
	watcher, _ := joined(t, db, "w")
	joined(t, db, "n", "c")
	v := refreshed(t, watcher)
	assert.True(t, v.Handles("c"))
	for _, c := range []struct {
		age   time.Duration
		alive bool
	}{{timeout / 2, true}, {timeout + 10*time.Millisecond, false}} {
		run(t, db, `UPDATE QRTZ_NODE SET HEARTBEAT_AT = `+schema.NowMillisSQL+` - ? WHERE HOST_IP = 'n'`, c.age.Milliseconds())
		v := refreshed(t, watcher)
		assert.Equal(t, c.alive, v.Handles("c"), c.age)
	}
}

func TestBuryTakesOnlyTheDead(t *testing.T) {
	db := newDB(t)
	s := NewStore(db, schema.DefaultPrefix, "a")
	live, _ := joined(t, db, "live")
	joined(t, db, "dead")
	left, _ := joined(t, db, "left")
	require.NoError(t, left.Leave(t.Context()))
	run(t, db, `INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK) VALUES ('a', 'v1.3', 'h', 'Y', 1)`)
	run(t, db, `UPDATE QRTZ_NODE SET HEARTBEAT_AT = HEARTBEAT_AT - 5000 WHERE HOST_IP = 'dead'`)

	dead, err := s.Bury(t.Context(), refreshed(t, live).At.Add(-timeout))
	require.NoError(t, err)
	require.Len(t, dead, 1)
	assert.Equal(t, "dead", dead[0].HostIP)
	assert.False(t, readRow(t, db, "dead").Instance.Valid)
	assert.Equal(t, live.Self().Instance, readRow(t, db, "live").Instance.Int64)

	dead, err = s.Bury(t.Context(), refreshed(t, live).At.Add(-timeout))
	require.NoError(t, err)
	assert.Empty(t, dead, "once is enough")
}

// A node beats, or is replaced, after Bury has read it and before Bury writes: a transaction that holds the
// row lets the test change it in between.
func TestBuryIsGuarded(t *testing.T) {
	for name, change := range map[string]string{
		"by heartbeat": `HEARTBEAT_AT = HEARTBEAT_AT + 5000`,
		"by instance":  `INSTANCE = INSTANCE + 1`,
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			m, _ := joined(t, db, "n")
			run(t, db, `UPDATE QRTZ_NODE SET HEARTBEAT_AT = HEARTBEAT_AT - 5000`)
			deadline := refreshed(t, m).At.Add(-timeout)
			node, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = node.ExecContext(t.Context(), `UPDATE QRTZ_NODE SET `+change)
			require.NoError(t, err)
			type answer struct {
				dead []Node
				err  error
			}
			buried := make(chan answer)
			go func() {
				dead, err := NewStore(db, schema.DefaultPrefix, "a").Bury(t.Context(), deadline)
				buried <- answer{dead, err}
			}()
			require.Eventually(t, func() bool {
				var n int
				require.NoError(t, db.GetContext(t.Context(), &n, `SELECT COUNT(*) FROM information_schema.PROCESSLIST
					WHERE DB = DATABASE() AND ID <> CONNECTION_ID() AND INFO LIKE '%SET INSTANCE = NULL%'`))
				return n > 0
			}, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, node.Commit())
			got := <-buried
			require.NoError(t, got.err)
			assert.Empty(t, got.dead, "it is not reported as dead either")
			assert.True(t, readRow(t, db, "n").Instance.Valid)
		})
	}
}

func TestABuriedMemberJoinsAnew(t *testing.T) {
	db := newDB(t)
	m, f := joined(t, db, "n", "c")
	old := m.Self()
	run(t, db, `UPDATE QRTZ_NODE SET INSTANCE = NULL`) // what Bury does
	require.NoError(t, m.Beat(t.Context()))
	require.Len(t, f.all(), 1)
	require.ErrorIs(t, f.all()[0].cause, ErrFenced)
	assert.Equal(t, "n", m.Self().HostIP)
	assert.NotEqual(t, old.Instance, m.Self().Instance)
	assert.Equal(t, m.Self().Instance, readRow(t, db, "n").Instance.Int64)
	assert.False(t, m.Fenced())
	assert.False(t, livesHere(old.Instance))
	v := m.View()
	assert.True(t, v.Claiming())

	require.NoError(t, m.Beat(t.Context()))
	assert.Len(t, f.all(), 1, "once per instance")
	run(t, db, `UPDATE QRTZ_NODE SET INSTANCE = NULL`)
	require.NoError(t, m.Beat(t.Context()))
	assert.Len(t, f.all(), 2, "the next instance can be fenced as well")
}

func TestAMemberWhoseIDWasTakenLeavesItAlone(t *testing.T) {
	db := newDB(t)
	m, f := joined(t, db, "")
	run(t, db, `UPDATE QRTZ_NODE SET INSTANCE = 77, HOST_NAME = 'elsewhere'`)
	require.NoError(t, m.Beat(t.Context()))
	assert.Len(t, f.all(), 1)
	assert.Equal(t, address()+"#2", m.Self().HostIP)
	assert.Equal(t, int64(77), readRow(t, db, address()).Instance.Int64)
}

// start runs a member until the test ends.
func start(t *testing.T, m *Member) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// The promise: others may recover a node's runs once its heartbeat is older than Timeout, so that the node
// must have given them up before; however the database went away.
func TestTheLeaseEndsBeforeTheTimeout(t *testing.T) {
	for name, goAway := range map[string]func(*network){"cut": (*network).fail, "hanging": (*network).hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const timeout = 2 * time.Second
			dsn := newDSN(t)
			db := open(t, dsn)
			through, network := openThrough(t, dsn)
			m, f := member(t, through, "n")
			m.cfg.Timeout, m.cfg.BeatEvery = timeout, timeout/3 // a hanging beat takes as long as BeatEvery
			require.NoError(t, m.Join(t.Context()))
			old := m.Self()
			start(t, m)
			first := readRow(t, db, "n").Heartbeat.Int64
			require.Eventually(t, func() bool { return readRow(t, db, "n").Heartbeat.Int64 > first }, 10*time.Second, time.Millisecond)

			goAway(network)
			require.Eventually(t, func() bool { return len(f.all()) > 0 }, 10*time.Second, time.Millisecond)
			at, last := f.all()[0].at, time.UnixMilli(readRow(t, db, "n").Heartbeat.Int64) // one machine, one clock
			assert.Less(t, at.Sub(last), timeout, "fenced while nobody may take the runs")
			assert.GreaterOrEqual(t, at.Sub(m.leaseFrom()), timeout*8/10, "and not long before")
			require.ErrorIs(t, f.all()[0].cause, ErrFenced)
			assert.True(t, m.Fenced())

			network.heal()
			require.Eventually(t, func() bool { return !m.Fenced() }, 10*time.Second, time.Millisecond)
			assert.NotEqual(t, old.Instance, m.Self().Instance)
			assert.Equal(t, m.Self().Instance, readRow(t, db, "n").Instance.Int64)
			assert.Len(t, f.all(), 1)
		})
	}
}

func TestAShortOutageFencesNobody(t *testing.T) {
	dsn := newDSN(t)
	db := open(t, dsn)
	through, network := openThrough(t, dsn)
	m, f := member(t, through, "n")
	const timeout = 2 * time.Second
	m.cfg.Timeout = timeout
	require.NoError(t, m.Join(t.Context()))
	old := m.Self()
	start(t, m)
	network.fail()
	require.Eventually(t, func() bool { return m.ConnectedFor() > 4*beatEvery }, 10*time.Second, time.Millisecond)
	network.heal()
	last := readRow(t, db, "n").Heartbeat.Int64
	require.Eventually(t, func() bool { return readRow(t, db, "n").Heartbeat.Int64 > last }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return m.ConnectedFor() < 4*beatEvery }, 10*time.Second, time.Millisecond, "the gap is noticed")
	require.Eventually(t, func() bool { return m.ConnectedFor() > timeout }, 10*time.Second, time.Millisecond, "heartbeats renew the lease")
	assert.Equal(t, old, m.Self())
	assert.Empty(t, f.all())
}

func (m *Member) leaseFrom() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease
}
