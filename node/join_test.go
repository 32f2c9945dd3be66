package node

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

func TestTwoMembersInOneProcessHaveTwoIDs(t *testing.T) {
	db := newDB(t)
	first, _ := joined(t, db, "")
	second, _ := joined(t, db, "")
	assert.Equal(t, address(), first.Self().NodeID)
	assert.Equal(t, address()+"#2", second.Self().NodeID)
	assert.NotEqual(t, first.Self().ID, second.Self().ID)
}

func TestARestartGetsItsIDBack(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Member){
		"it left": func(t *testing.T, m *Member) {
			t.Helper()
			require.NoError(t, m.Leave(t.Context()))
		},
		"it crashed": func(t *testing.T, m *Member) {
			t.Helper()
			run(t, m.store.db.DB, `UPDATE QRTZ_NODE SET PROCESS_ID = ? WHERE INSTANCE = ?`, deadProcess(t), m.Self().ID)
		},
		"it crashed, and its process id came round again": func(_ *testing.T, m *Member) { instances.Delete(m.Self().ID) },
		"it was declared dead": func(t *testing.T, m *Member) {
			t.Helper()
			run(t, m.store.db.DB, `UPDATE QRTZ_NODE SET INSTANCE = NULL WHERE INSTANCE = ?`, m.Self().ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			first, _ := joined(t, db, "")
			second, _ := joined(t, db, "")
			end(t, first)
			again, _ := joined(t, db, "")
			assert.Equal(t, address(), again.Self().NodeID)
			assert.NotEqual(t, first.Self().ID, again.Self().ID)
			assert.Equal(t, second.Self().ID, readRow(t, db, address()+"#2").Instance.Int64, "the other one is left alone")
		})
	}
}

// A process id means something on its own machine only.
func TestAnotherMachinesProcessIsNotJudgedByItsID(t *testing.T) {
	db := newDB(t)
	first, _ := joined(t, db, "")
	run(t, db, `UPDATE QRTZ_NODE SET HOST_NAME = 'elsewhere', PROCESS_ID = ?`, deadProcess(t))
	second, _ := joined(t, db, "")
	assert.Equal(t, address()+"#2", second.Self().NodeID)
	assert.Equal(t, first.Self().ID, readRow(t, db, address()).Instance.Int64)
}

func TestConcurrentJoinsGetDistinctIDs(t *testing.T) {
	db := newDB(t)
	const many = 8
	var wg sync.WaitGroup
	members := make([]*Member, many)
	for i := range many {
		members[i], _ = member(t, db, "")
		wg.Go(func() { assert.NoError(t, members[i].Join(t.Context())) })
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, m := range members {
		self := m.Self()
		seen[self.NodeID] = true
		assert.Equal(t, self.ID, readRow(t, db, self.NodeID).Instance.Int64, self.NodeID)
	}
	assert.Len(t, seen, many)
}

func TestAnIDHeldByALiveNodeIsRefused(t *testing.T) {
	db := newDB(t)
	holder, f := joined(t, db, "pod-1")
	start(t, holder)
	late, _ := member(t, db, "pod-1")
	err := late.Join(t.Context())
	require.ErrorContains(t, err, `"pod-1" is held`)
	assert.Equal(t, holder.Self().ID, readRow(t, db, "pod-1").Instance.Int64)
	assert.Empty(t, f.all())
}

func TestAnIDHeldByASilentNodeIsWaitedFor(t *testing.T) {
	db := newDB(t)
	joined(t, db, "pod-1")
	run(t, db, `UPDATE QRTZ_NODE SET HOST_NAME = 'elsewhere'`)          // so that only its heartbeat can tell
	run(t, db, `UPDATE QRTZ_HEARTBEAT SET BEAT_AT = BEAT_AT - 3600000`) // which proves nothing: clocks may be wrong
	heartbeat := time.Now()
	late, _ := joined(t, db, "pod-1")
	assert.Greater(t, time.Since(heartbeat), timeout)
	assert.Equal(t, late.Self().ID, readRow(t, db, "pod-1").Instance.Int64)
}

func TestWaitingForAnIDEndsWithTheContext(t *testing.T) {
	db := newDB(t)
	joined(t, db, "pod-1")
	stop := errors.New("stopped")
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout/2, stop)
	defer cancel()
	late, _ := member(t, db, "pod-1")
	began := time.Now()
	require.ErrorIs(t, late.Join(ctx), stop)
	assert.Less(t, time.Since(began), timeout)
}

// To the server's collation Pod-1 and pod-1 are one key.
func TestIDsThatTheServerTakesForOne(t *testing.T) {
	require.ErrorContains(t, ValidateID("pod-1 "), "blank")
	db := newDB(t)
	holder, _ := joined(t, db, "pod-1")
	ctx, cancel := context.WithTimeout(t.Context(), beatEvery)
	late, _ := member(t, db, "POD-1")
	require.ErrorIs(t, late.Join(ctx), context.DeadlineExceeded, "it is held")
	cancel()
	require.NoError(t, holder.Leave(t.Context()))
	require.NoError(t, late.Join(t.Context()))
	v := late.View()
	assert.True(t, v.Claiming(), "it finds itself")
	self := late.Self()
	require.NoError(t, late.Beat(t.Context()))
	assert.Equal(t, self, late.Self(), "and stays who it is")
}

func TestJoiningKeepsAnOperatorsStop(t *testing.T) {
	db := newDB(t)
	first, _ := joined(t, db, "n")
	assert.Equal(t, "Y", readRow(t, db, "n").State, "a new node is on")
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'N'`)
	stopped := readRow(t, db, "n")
	require.NoError(t, first.Leave(t.Context()))
	again, _ := joined(t, db, "n")
	row := readRow(t, db, "n")
	assert.Equal(t, "N", row.State)
	assert.Equal(t, stopped.Switched, row.Switched)
	v := again.View()
	assert.False(t, v.Claiming())
}

func TestJoinAnnouncesTheProcess(t *testing.T) {
	db := newDB(t)
	m, _ := joined(t, db, "n", "b", "a")
	v := m.View()
	assert.Equal(t, []string{"a", "b"}, v.Me.Classes)
	assert.Equal(t, hostName(), v.Me.HostName)
	assert.Equal(t, m.Self().ID, v.Me.Instance)
	assert.True(t, v.Claiming())
	require.NoError(t, m.Leave(t.Context()))
	row := readRow(t, db, "n")
	assert.False(t, row.Instance.Valid)
	assert.False(t, row.Heartbeat.Valid)
	assert.False(t, row.Switched.Valid, "joining and leaving are not switches")
}

func TestJoinNeedsItsApp(t *testing.T) {
	db := newDB(t)
	run(t, db, `DELETE FROM QRTZ_APP`)
	m, _ := member(t, db, "n")
	assert.ErrorContains(t, m.Join(t.Context()), "QRTZ_APP")
}

func TestValidateID(t *testing.T) {
	for _, n := range []int{1, 50} {
		require.NoError(t, ValidateID(string(make([]byte, n))), strconv.Itoa(n))
	}
	assert.ErrorContains(t, ValidateID(string(make([]byte, 51))), "50")
}

func TestAppsDoNotSeeEachOther(t *testing.T) {
	db := newDB(t)
	run(t, db, `INSERT INTO QRTZ_APP (APPLICATION, STATE) VALUES ('b', 'Y')`)
	mine, _ := joined(t, db, "")
	other, _ := member(t, db, "")
	other.store = NewStore(db, schema.DefaultPrefix, "b")
	require.NoError(t, other.Join(t.Context()))
	assert.Equal(t, mine.Self().NodeID, other.Self().NodeID, "ids are an app's own")
	assert.Len(t, refreshed(t, mine).Nodes, 1)
}

// Rows that a node needs are locked while it starts: it waits for them, and says so once.
func TestJoiningWaitsForLockedRows(t *testing.T) {
	for name, statement := range map[string]string{
		"its own node": `UPDATE QRTZ_NODE SET STATE = 'N' WHERE APPLICATION = 'a' AND HOST_IP = 'n'`,
		"all nodes":    `UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_NAME = 'elsewhere'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDSN(t)
			db := open(t, dsn)
			former, _ := joined(t, db, "n")
			require.NoError(t, former.Leave(t.Context()))
			operator := locks(t, db, statement)
			m, _ := member(t, openEngine(t, dsn), "n")
			m.cfg.Timeout = time.Minute
			var log bytes.Buffer
			m.cfg.Log = zerolog.New(&log)
			done := make(chan error, 1)
			go func() { done <- m.Join(t.Context()) }()
			select {
			case err := <-done:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(3 * time.Second):
			}
			require.NoError(t, operator.Rollback())
			require.NoError(t, <-done)
			assert.Equal(t, 1, strings.Count(log.String(), "cannot join yet"), log.String())
			assert.Contains(t, log.String(), "rows locked", "who holds the lock")
			assert.True(t, m.Holds(m.Self().ID))
			var beats int
			require.NoError(t, db.GetContext(t.Context(), &beats, `SELECT COUNT(*) FROM QRTZ_HEARTBEAT`))
			assert.Equal(t, 1, beats, "tries that failed leave nothing behind")
		})
	}
}

// Nonsense in a node's row, or in its heartbeat, is that node's alone: other nodes continue, and can join.
func TestNonsenseInANodeStopsThatNodeOnly(t *testing.T) {
	db := newDB(t)
	testdb.DropChecks(t, db.DB)
	m, f := joined(t, db, "me", "c")
	nonsense := map[string][]any{
		"QRTZ_NODE.HOST_NAME": {"", "\x1b[31m"}, "QRTZ_NODE.STATE": {"X", ""}, "QRTZ_NODE.STOPPED_BY_APP": {2, -1, 127, -128},
		"QRTZ_NODE.HANDLERS": {nil, "", "{", `{"a":1}`, `[1,null]`, `"c"`, `["c"`, strings.Repeat("x", 1<<20)},
		"QRTZ_NODE.VERSION":  {nil, ""}, "QRTZ_NODE.BOOT_ID": {nil, ""}, "QRTZ_HEARTBEAT.APPLICATION": {"", "b"}, "QRTZ_HEARTBEAT.HOST_IP": {"", "me"},
		"QRTZ_NODE.SWITCHED_AT": {nil, "1970-01-01 12:00:01", "2038-01-01 00:00:00"},
	}
	for _, column := range []string{
		"NODE.TIME_CHECK", "NODE.INSTANCE", "NODE.HEARTBEAT_AT", "NODE.JOINED_AT", "NODE.PROCESS_ID", "NODE.CLOCK_SKEW", "NODE.OFF_SINCE", "NODE.OFF_SEEN_AT",
		"NODE.APP_OFF_SINCE", "NODE.APP_OFF_SEEN_AT", "NODE.PID_NAMESPACE", "NODE.PROCESS_START", "HEARTBEAT.BEATS", "HEARTBEAT.BEAT_AT", "HEARTBEAT.CLOCK_SKEW",
	} {
		values := []any{int64(math.MinInt64), -1, 0, 1, 1700000000, int64(math.MaxInt64)}
		if column != "NODE.TIME_CHECK" && column != "HEARTBEAT.BEATS" && column != "HEARTBEAT.BEAT_AT" {
			values = append(values, nil)
		}
		nonsense["QRTZ_"+column] = values
	}
	for column, values := range nonsense {
		table, name, _ := strings.Cut(column, ".")
		for _, value := range values {
			victim, _ := joined(t, db, "victim", "c")
			run(t, db, `UPDATE `+table+` SET `+name+` = ? WHERE `+
				map[string]string{"QRTZ_NODE": "HOST_IP = 'victim'", "QRTZ_HEARTBEAT": "INSTANCE = " + strconv.FormatInt(victim.Self().ID, 10)}[table], value)
			require.NoError(t, m.Beat(t.Context()), "%s = %.20v", column, value)
			require.NoError(t, m.SyncSwitches(t.Context()), "%s = %.20v", column, value)
			_, err := m.Bury(t.Context())
			require.NoError(t, err, "%s = %.20v", column, value)
			v := refreshed(t, m)
			require.True(t, v.Claiming(), "%s = %.20v", column, value)
			require.True(t, v.Handles("c"))
			v.Rank("c", 1)
			v.TimesOff("c")
			other, _ := member(t, db, "other", "c")
			require.NoError(t, other.Join(t.Context()), "%s = %.20v", column, value)
			v = other.View()
			require.True(t, v.Claiming(), "%s = %.20v", column, value)
			require.NoError(t, other.Leave(t.Context()))
			instances.Delete(victim.Self().ID)
			run(t, db, `DELETE FROM QRTZ_NODE WHERE HOST_IP = 'victim'`)
			run(t, db, `DELETE FROM QRTZ_HEARTBEAT WHERE INSTANCE <> ?`, m.Self().ID)
		}
	}
	assert.Empty(t, f.all())
}

// A person copies rows: the copies have no heartbeat, and are no node's rivals for long.
func TestACopiedNodeIsNotAlive(t *testing.T) {
	db := newDB(t)
	m, f := joined(t, db, "n", "c")
	start(t, m)
	run(t, db, `INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE, HEARTBEAT_AT, HANDLERS)
		SELECT APPLICATION, 'copy', HOST_NAME, STATE, TIME_CHECK, INSTANCE, HEARTBEAT_AT, HANDLERS FROM QRTZ_NODE`)
	require.Eventually(t, func() bool {
		v := m.View()
		return len(v.Nodes) == 2 && v.Alone()
	}, 10*time.Second, beatEvery)
	require.Eventually(t, func() bool {
		_, err := m.Bury(t.Context())
		require.NoError(t, err)
		return !readRow(t, db, "copy").Instance.Valid
	}, 10*time.Second, beatEvery)
	assert.True(t, m.Holds(readRow(t, db, "n").Instance.Int64))
	assert.Empty(t, f.all())
}

// A machine that comes back after all of the cluster was down does not come back as another node while an operator has it off.
func TestANodeThatIsOffWaitsForItsOldID(t *testing.T) {
	db := newDB(t)
	former, _ := joined(t, db, "")
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'N', BOOT_ID = 'the one before'`)
	run(t, db, `UPDATE QRTZ_HEARTBEAT SET BEAT_AT = BEAT_AT - 3600000`)
	m, _ := joined(t, db, "")
	assert.Equal(t, former.Self().NodeID, m.Self().NodeID)
	v := m.View()
	assert.False(t, v.Claiming())
}
