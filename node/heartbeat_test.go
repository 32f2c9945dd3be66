package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

// beats is BEATS of an instance's heartbeat; 0 if it has none.
func beats(t *testing.T, db *sqlx.DB, instance int64) (n int64) {
	t.Helper()
	require.NoError(t, db.GetContext(t.Context(), &n, `SELECT COALESCE(MAX(BEATS), 0) FROM QRTZ_HEARTBEAT WHERE INSTANCE = ?`, instance))
	return n
}

func beatAt(t *testing.T, db *sqlx.DB, instance int64) time.Time {
	t.Helper()
	var millis int64
	require.NoError(t, db.GetContext(t.Context(), &millis, `SELECT BEAT_AT FROM QRTZ_HEARTBEAT WHERE INSTANCE = ?`, instance))
	return time.UnixMilli(millis)
}

func TestBeatMovesTheHeartbeat(t *testing.T) {
	db := newDB(t)
	m, f := joined(t, db, "n")
	self := m.Self()
	row, before, at := readRow(t, db, "n"), beats(t, db, self.ID), beatAt(t, db, self.ID)
	require.Positive(t, row.Heartbeat.Int64)
	require.Positive(t, before)
	var now int64
	require.Eventually(t, func() bool { // for the server's clock to show another millisecond
		require.NoError(t, db.GetContext(t.Context(), &now, `SELECT `+schema.NowMillisSQL))
		return now > at.UnixMilli()
	}, time.Second, time.Millisecond)
	require.NoError(t, m.Beat(t.Context()))
	assert.Equal(t, before+1, beats(t, db, self.ID))
	assert.GreaterOrEqual(t, beatAt(t, db, self.ID).UnixMilli(), now)
	assert.Equal(t, row, readRow(t, db, "n"), "the row that others lock is not touched")
	assert.Empty(t, f.all())
}

// People, and programs that do not know QRTZ_HEARTBEAT, look into QRTZ_NODE.
func TestTheHeartbeatIsShownInItsNode(t *testing.T) {
	db := newDB(t)
	m, _ := joined(t, db, "n")
	start(t, m)
	first := readRow(t, db, "n").Heartbeat.Int64
	require.Eventually(t, func() bool { return readRow(t, db, "n").Heartbeat.Int64 > first }, 10*time.Second, time.Millisecond)
	var same bool
	require.NoError(t, db.GetContext(t.Context(), &same, `SELECT TIME_CHECK = HEARTBEAT_AT FROM QRTZ_NODE`))
	assert.True(t, same)
	assert.False(t, readRow(t, db, "n").Switched.Valid, "that is no switch")
}

// lookOn reads the cluster for a while as often as a running member does, and returns the last view.
func lookOn(t *testing.T, m *Member, d time.Duration) View {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		refreshed(t, m)
		time.Sleep(beatEvery / 4)
	}
	return refreshed(t, m)
}

func TestANodeIsDeadAfterTimeout(t *testing.T) {
	db := newDB(t)
	watcher, _ := joined(t, db, "w")
	silent, _ := joined(t, db, "n", "c")
	v := refreshed(t, watcher)
	assert.True(t, v.Handles("c"))
	run(t, db, `UPDATE QRTZ_HEARTBEAT SET BEAT_AT = BEAT_AT - 3600000`)
	v = lookOn(t, watcher, timeout/2)
	assert.True(t, v.Handles("c"), "whatever the clocks say")
	run(t, db, `UPDATE QRTZ_HEARTBEAT SET BEAT_AT = BEAT_AT + 7200000`)
	v = lookOn(t, watcher, timeout/2+beatEvery)
	assert.False(t, v.Handles("c"), "a time in the future is no sign of life")
	require.NoError(t, silent.Beat(t.Context()))
	v = refreshed(t, watcher)
	assert.True(t, v.Handles("c"))
}

func TestBuryTakesOnlyTheDead(t *testing.T) {
	db := newDB(t)
	live, _ := joined(t, db, "live")
	start(t, live)
	other, _ := joined(t, db, "other")
	start(t, other)
	dead, _ := joined(t, db, "dead")
	left, _ := joined(t, db, "left")
	require.NoError(t, left.Leave(t.Context()))
	assert.Zero(t, beats(t, db, left.Self().ID))
	insert := `INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE, HEARTBEAT_AT) VALUES ('a', ?, 'h', 'Y', 1, ?, ?)`
	run(t, db, insert, "v1.3", nil, nil)
	now := databaseTime(t, db).UnixMilli()
	run(t, db, insert, "former release", 41, now)
	run(t, db, insert, "former release, dead", 42, now)

	var buried []string
	require.Eventually(t, func() bool {
		run(t, db, `UPDATE QRTZ_NODE SET HEARTBEAT_AT = HEARTBEAT_AT + 1 WHERE HOST_IP = 'former release'`)
		nodes, err := live.Bury(t.Context())
		require.NoError(t, err)
		for _, n := range nodes {
			buried = append(buried, n.ID)
		}
		return len(buried) >= 2
	}, 10*time.Second, beatEvery/4)
	for range 5 {
		nodes, err := live.Bury(t.Context())
		require.NoError(t, err)
		assert.Empty(t, nodes, "once is enough")
	}
	assert.ElementsMatch(t, []string{"dead", "former release, dead"}, buried)
	assert.False(t, readRow(t, db, "dead").Instance.Valid)
	assert.Zero(t, beats(t, db, dead.Self().ID))
	assert.Equal(t, live.Self().ID, readRow(t, db, "live").Instance.Int64)
	assert.Equal(t, other.Self().ID, readRow(t, db, "other").Instance.Int64)
	assert.Equal(t, int64(41), readRow(t, db, "former release").Instance.Int64)
}

// A node beats, or is replaced, after it has been read and before it is buried.
func TestBuryIsGuarded(t *testing.T) {
	for name, change := range map[string]string{
		"by heartbeat":                     `UPDATE QRTZ_HEARTBEAT SET BEATS = BEATS + 1`,
		"by instance":                      `UPDATE QRTZ_NODE SET INSTANCE = INSTANCE + 1`,
		"by heartbeat of a former release": `UPDATE QRTZ_NODE SET HEARTBEAT_AT = HEARTBEAT_AT + 1`,
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			m, _ := joined(t, db, "n")
			if name == "by heartbeat of a former release" {
				run(t, db, `DELETE FROM QRTZ_HEARTBEAT`)
			}
			seen := refreshed(t, m).Nodes[0]
			run(t, db, change)
			buried, err := m.store.Bury(t.Context(), &seen)
			require.NoError(t, err)
			assert.False(t, buried, "it is not reported as dead either")
			assert.True(t, readRow(t, db, "n").Instance.Valid)
			seen = refreshed(t, m).Nodes[0]
			buried, err = m.store.Bury(t.Context(), &seen)
			require.NoError(t, err)
			assert.True(t, buried, "the guard alone kept it alive")
		})
	}
}

// A node that has been cut off sees old heartbeats everywhere, and must watch again.
func TestWhoWasCutOffBuriesNobody(t *testing.T) {
	db := newDB(t)
	m, _ := joined(t, db, "n")
	silent, _ := joined(t, db, "silent")
	lookOn(t, m, timeout*3/4)
	time.Sleep(3 * beatEvery)
	v := lookOn(t, m, timeout/2)
	other, _ := find(v, "silent")
	assert.False(t, v.dead(&other))
	require.NoError(t, m.Beat(t.Context()))
	nodes, err := m.Bury(t.Context())
	require.NoError(t, err)
	assert.Empty(t, nodes)
	assert.Positive(t, beats(t, db, silent.Self().ID))
}

// A row that an operator holds locked is left out, and keeps no other from being buried.
func TestALockedNodeIsBuriedLater(t *testing.T) {
	dsn := newDSN(t)
	db, engine := open(t, dsn), openEngine(t, dsn)
	m, _ := joined(t, engine, "n")
	start(t, m)
	for _, id := range []string{"a", "b", "c"} {
		joined(t, db, id)
	}
	operator := locks(t, db, `UPDATE QRTZ_NODE SET HOST_NAME = 'b' WHERE APPLICATION = 'a' AND HOST_IP = 'b'`)
	buried := 0
	require.Eventually(t, func() bool {
		nodes, err := m.Bury(t.Context())
		require.NoError(t, err)
		buried += len(nodes)
		return buried == 2
	}, 20*time.Second, beatEvery)
	assert.True(t, readRow(t, db, "b").Instance.Valid)
	require.NoError(t, operator.Rollback())
	require.Eventually(t, func() bool { // without a heartbeat it is watched like a node of a former release
		_, err := m.Bury(t.Context())
		require.NoError(t, err)
		return !readRow(t, db, "b").Instance.Valid
	}, 10*time.Second, beatEvery)
}

func TestHeartbeatsThatBelongToNobodyAreDeleted(t *testing.T) {
	db := newDB(t)
	m, _ := joined(t, db, "n")
	testdb.DropChecks(t, db.DB)
	insert := `INSERT INTO QRTZ_HEARTBEAT (INSTANCE, APPLICATION, HOST_IP, BEATS, BEAT_AT) VALUES (?, ?, 'x', 1, `
	run(t, db, insert+`5)`, 1, "a")
	run(t, db, insert+`9223372036854775807)`, 2, "a")
	run(t, db, insert+`-9223372036854775808)`, 3, "a")
	run(t, db, insert+`5)`, 4, "another app")
	run(t, db, insert+schema.NowMillisSQL+`)`, 5, "a") // of an instance that is about to join
	_, err := m.Bury(t.Context())
	require.NoError(t, err)
	var left []int64
	require.NoError(t, db.SelectContext(t.Context(), &left, `SELECT INSTANCE FROM QRTZ_HEARTBEAT ORDER BY INSTANCE`))
	assert.Equal(t, []int64{4, 5, m.Self().ID}, left)
}

// locks leaves a statement's transaction open, as an operator does who goes for lunch.
func locks(t *testing.T, db *sqlx.DB, statements ...string) *sqlx.Tx {
	t.Helper()
	tx, err := db.BeginTxx(context.WithoutCancel(t.Context()), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	for _, statement := range statements {
		_, err = tx.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	return tx
}

// The promise: a lock on the rows that operators switch fences no node, and no node takes another for dead.
func TestAnOpenTransactionFencesNobody(t *testing.T) {
	for name, statements := range map[string][]string{
		"one node":  {`UPDATE QRTZ_NODE SET STATE = 'N' WHERE APPLICATION = 'a' AND HOST_IP = 'n1'`},
		"all nodes": {`UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_NAME = 'elsewhere'`}, // matches none, and scans
		"app":       {`UPDATE QRTZ_APP SET STATE = 'N'`},
		"both":      {`UPDATE QRTZ_APP SET STATE = 'N'`, `SELECT * FROM QRTZ_NODE FOR UPDATE`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDSN(t)
			db := open(t, dsn)
			var members []*Member
			var fenced []*fences
			for _, id := range []string{"n1", "n2"} {
				m, f := member(t, openEngine(t, dsn), id, "c")
				require.NoError(t, m.Join(t.Context()))
				start(t, m)
				members, fenced = append(members, m), append(fenced, f)
			}
			require.Eventually(t, func() bool { // they see each other
				one, two := members[0].View(), members[1].View()
				return !one.Alone() && !two.Alone()
			}, 10*time.Second, beatEvery/4)
			locks(t, db, statements...)
			for end := time.Now().Add(3 * timeout); time.Now().Before(end); time.Sleep(beatEvery / 4) {
				for i, m := range members {
					require.Empty(t, fenced[i].all())
					require.True(t, m.Holds(m.Self().ID))
					v := m.View()
					require.False(t, v.Alone(), "%s sees the other one", m.Self().NodeID)
					_, err := m.read(t.Context(), m.heart)
					require.NoError(t, err, "reading takes no lock")
				}
			}
			nodes, err := members[0].Bury(t.Context())
			require.NoError(t, err)
			require.Empty(t, nodes)
		})
	}
}

// Handlers, or claims that hang, have taken every connection of the pool that is not the heartbeat's.
func TestTheHeartbeatHasAConnectionOfItsOwn(t *testing.T) {
	dsn := newDSN(t)
	pool, heart := open(t, dsn), open(t, dsn)
	pool.SetMaxOpenConns(2)
	heart.SetMaxOpenConns(1)
	m, f := member(t, pool, "n")
	m.heart, m.clock.db = NewStore(heart, schema.DefaultPrefix, "a"), heart
	require.NoError(t, m.Join(t.Context()))
	start(t, m)
	for range 2 {
		locks(t, pool, `SELECT 1`)
	}
	time.Sleep(3 * timeout)
	assert.Empty(t, f.all())
	assert.True(t, m.Holds(m.Self().ID))
}

// What tells that a node is dead goes for its own heartbeats, too: only one that can be read where it was written counts.
func TestAHeartbeatThatIsNotThereDoesNotCount(t *testing.T) {
	db := newDB(t)
	m, f := joined(t, db, "n")
	run(t, db, `CREATE TRIGGER LOST_BEATS BEFORE UPDATE ON QRTZ_HEARTBEAT FOR EACH ROW SET NEW.BEATS = OLD.BEATS`)
	lease := m.leaseFrom()
	require.ErrorIs(t, m.Beat(t.Context()), errNotThere)
	assert.Equal(t, lease, m.leaseFrom())
	assert.Empty(t, f.all())
	run(t, db, `DROP TRIGGER LOST_BEATS`)
	require.NoError(t, m.Beat(t.Context()))
	assert.Greater(t, m.leaseFrom(), lease)
}

func TestAMemberWhoseHeartbeatWasDeletedJoinsAgain(t *testing.T) {
	db := newDB(t)
	m, f := joined(t, db, "n")
	m.cfg.Timeout = time.Minute
	old := m.Self()
	run(t, db, `DELETE FROM QRTZ_HEARTBEAT`) // what Bury does first
	require.NoError(t, m.Beat(t.Context()))
	require.Len(t, f.all(), 1)
	assert.NotEqual(t, old.ID, m.Self().ID)
	assert.Zero(t, beats(t, db, old.ID), "it never gets one again")
	assert.True(t, m.Holds(m.Self().ID))
	assert.False(t, m.Holds(old.ID))
}

// A process that was frozen, or a machine that was suspended, knows at once that its lease is over, before any timer has run.
func TestTheLeaseIsOverAtOnce(t *testing.T) {
	db := newDB(t)
	m, f := joined(t, db, "n")
	instance, sent := m.Self().ID, m.leaseFrom()
	var slept time.Duration
	m.elapsed = func() time.Duration { return sent + slept }
	assert.True(t, m.Holds(instance))
	slept = timeout*9/10 - beatEvery
	assert.True(t, m.Holds(instance))
	slept = timeout * 9 / 10
	assert.False(t, m.Holds(instance))
	assert.False(t, m.Fenced(), "OnFenced has not been called yet")
	assert.Empty(t, f.all())
	assert.False(t, m.Holds(0))
}

// What cannot be handed back does not keep a fenced process from joining again for longer than Timeout.
func TestJoiningAgainDoesNotWaitForEver(t *testing.T) {
	db := newDB(t)
	m, _ := joined(t, db, "n")
	stuck := errors.New("a result that is never taken")
	m.cfg.BeforeRejoin = func(context.Context) error { return stuck }
	var slept time.Duration
	m.elapsed = func() time.Duration { return elapsed() + slept }
	run(t, db, `UPDATE QRTZ_NODE SET INSTANCE = NULL`)
	require.ErrorIs(t, m.Beat(t.Context()), stuck)
	slept = timeout
	require.NoError(t, m.Beat(t.Context()))
	assert.False(t, m.Fenced())
}

func TestABuriedMemberJoinsAnew(t *testing.T) {
	db := newDB(t)
	m, f := joined(t, db, "n", "c")
	old := m.Self()
	run(t, db, `UPDATE QRTZ_NODE SET INSTANCE = NULL`) // what Bury does
	require.NoError(t, m.Beat(t.Context()))
	require.Len(t, f.all(), 1)
	require.ErrorIs(t, f.all()[0].cause, ErrFenced)
	assert.Equal(t, "n", m.Self().NodeID)
	assert.NotEqual(t, old.ID, m.Self().ID)
	assert.Equal(t, m.Self().ID, readRow(t, db, "n").Instance.Int64)
	assert.False(t, m.Fenced())
	assert.False(t, livesHere(old.ID))
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
	assert.Equal(t, address()+"#2", m.Self().NodeID)
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
			first := beats(t, db, old.ID)
			require.Eventually(t, func() bool { return beats(t, db, old.ID) > first }, 10*time.Second, time.Millisecond)

			goAway(network)
			require.Eventually(t, func() bool { return len(f.all()) > 0 }, 10*time.Second, time.Millisecond)
			at, last := f.all()[0].at, beatAt(t, db, old.ID) // one machine, one clock
			assert.Less(t, at.Sub(last), timeout, "fenced while no other node may take the runs")
			assert.GreaterOrEqual(t, at.Sub(epoch)-m.leaseFrom()+elapsed()-monotonic(), timeout*8/10, "and not long before")
			require.ErrorIs(t, f.all()[0].cause, ErrFenced)
			assert.True(t, m.Fenced())

			network.heal()
			require.Eventually(t, func() bool { return !m.Fenced() }, 10*time.Second, time.Millisecond)
			assert.NotEqual(t, old.ID, m.Self().ID)
			assert.Equal(t, m.Self().ID, readRow(t, db, "n").Instance.Int64)
			assert.Len(t, f.all(), 1)
		})
	}
}

// Other nodes may have seen a heartbeat at any time after it was sent: the lease counts from then, however late its answer is.
func TestTheLeaseCountsFromTheSendingOfTheHeartbeat(t *testing.T) {
	db := newDB(t)
	m, _ := joined(t, db, "n")
	tx, err := db.Beginx()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	tx.MustExec(`UPDATE QRTZ_HEARTBEAT SET CLOCK_SKEW = 1 WHERE INSTANCE = ?`, m.Self().ID)
	const held = 100 * time.Millisecond
	m.cfg.BeatEvery = 10 * time.Second // which is how long a beat may take
	time.AfterFunc(held, func() { _ = tx.Rollback() })
	began := time.Now()
	require.NoError(t, m.Beat(t.Context()))
	took := time.Since(began)
	require.GreaterOrEqual(t, took, held, "it waited for the row")
	assert.LessOrEqual(t, m.leaseLeft(), m.leaseTime()-held*8/10)
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
	time.Sleep(timeout / 2)
	network.heal()
	last := beats(t, db, old.ID)
	require.Eventually(t, func() bool { return beats(t, db, old.ID) > last }, 10*time.Second, time.Millisecond)
	time.Sleep(timeout) // heartbeats renew the lease
	assert.Equal(t, old, m.Self())
	assert.Empty(t, f.all())
}

func (m *Member) leaseFrom() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease
}
