package node

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

func TestTwoMembersInOneProcessHaveTwoIDs(t *testing.T) {
	db := newDB(t)
	first, _ := joined(t, db, "")
	second, _ := joined(t, db, "")
	assert.Equal(t, address(), first.Self().HostIP)
	assert.Equal(t, address()+"#2", second.Self().HostIP)
	assert.NotEqual(t, first.Self().Instance, second.Self().Instance)
}

func TestARestartGetsItsIDBack(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Member){
		"it left": func(t *testing.T, m *Member) {
			t.Helper()
			require.NoError(t, m.Leave(t.Context()))
		},
		"it crashed": func(t *testing.T, m *Member) {
			t.Helper()
			run(t, m.store.db, `UPDATE QRTZ_NODE SET PROCESS_ID = ? WHERE INSTANCE = ?`, deadProcess(t), m.Self().Instance)
		},
		"it crashed, and its process id came round again": func(_ *testing.T, m *Member) { instances.Delete(m.Self().Instance) },
		"it was declared dead": func(t *testing.T, m *Member) {
			t.Helper()
			run(t, m.store.db, `UPDATE QRTZ_NODE SET INSTANCE = NULL WHERE INSTANCE = ?`, m.Self().Instance)
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			first, _ := joined(t, db, "")
			second, _ := joined(t, db, "")
			end(t, first)
			again, _ := joined(t, db, "")
			assert.Equal(t, address(), again.Self().HostIP)
			assert.NotEqual(t, first.Self().Instance, again.Self().Instance)
			assert.Equal(t, second.Self().Instance, readRow(t, db, address()+"#2").Instance.Int64, "the other one is left alone")
		})
	}
}

// A process id means something on its own machine only.
func TestAnotherMachinesProcessIsNotJudgedByItsID(t *testing.T) {
	db := newDB(t)
	first, _ := joined(t, db, "")
	run(t, db, `UPDATE QRTZ_NODE SET HOST_NAME = 'elsewhere', PROCESS_ID = ?`, deadProcess(t))
	second, _ := joined(t, db, "")
	assert.Equal(t, address()+"#2", second.Self().HostIP)
	assert.Equal(t, first.Self().Instance, readRow(t, db, address()).Instance.Int64)
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
		seen[self.HostIP] = true
		assert.Equal(t, self.Instance, readRow(t, db, self.HostIP).Instance.Int64, self.HostIP)
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
	assert.Equal(t, holder.Self().Instance, readRow(t, db, "pod-1").Instance.Int64)
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
	assert.Equal(t, late.Self().Instance, readRow(t, db, "pod-1").Instance.Int64)
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
	assert.Equal(t, m.Self().Instance, v.Me.Instance)
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
	assert.Equal(t, mine.Self().HostIP, other.Self().HostIP, "ids are an app's own")
	assert.Len(t, refreshed(t, mine).Nodes, 1)
}
