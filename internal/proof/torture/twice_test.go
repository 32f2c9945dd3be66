package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// underTest is a torture without faults, with a database, for what a test does to one scheduler.
func underTest(t *testing.T) *torture {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a server")
	}
	_ = mysql.SetLogger(silence{})
	dir, err := os.MkdirTemp("", "qrtz-torture-") //nolint:usetesting // shorter than t.TempDir, for the server's socket
	require.NoError(t, err)
	one := newTorture(dir, time.Minute, 1, "", newTimeline(io.Discard))
	t.Cleanup(func() {
		require.NoError(t, one.end(context.Background()))
		require.NoError(t, os.RemoveAll(dir))
	})
	one.servers, err = startServer(t.Context(), dir+"/db", nil)
	require.NoError(t, err)
	one.down = make([]bool, 1)
	require.NoError(t, one.openDatabase(t.Context()))
	return one
}

// behindLine is a pool of connections through a line of its own.
func (t *torture) behindLine(tb testing.TB) (*line, *sql.DB) {
	tb.Helper()
	upstream, err := address(t.dsns[0])
	require.NoError(tb, err)
	l, err := newLine("test", upstream)
	require.NoError(tb, err)
	t.lines = append(t.lines, l)
	dsn, err := redirected(t.dsns[0], l.addr())
	require.NoError(tb, err)
	db, err := sql.Open("mysql", dsn)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = db.Close() })
	return l, db
}

// A poll whose answer comes late shows a fire as due that has been claimed meanwhile. If the COMMIT of the claim that is made
// of it gets no answer, what that claim did not win must not be handed back.
func TestALateAnswerBesideALostCommitStartsNothingTwice(t *testing.T) {
	const fires = 20
	one := underTest(t)
	l, db := one.behindLine(t)
	log := zerolog.New(zerolog.NewTestWriter(t)).With().Timestamp().Logger()
	s, err := qrtz.Open(db, qrtz.Config{App: "late", NodeID: "n1", PollInterval: time.Second, NodeTimeout: 30 * time.Second, MisfireAfter: 12 * time.Second, Logger: &log})
	require.NoError(t, err)
	var mu sync.Mutex
	starts := map[string]int{}
	qrtz.Handle(s, "slow", func(ctx context.Context, r *qrtz.Run, _ struct{}) error {
		mu.Lock()
		starts[fmt.Sprintf("execute %d, attempt %d, run %d", r.ScheduleID, r.Attempt, r.ID)]++
		mu.Unlock()
		return pass(ctx, 6*time.Second)
	})
	at := time.Now().Add(3 * time.Second).Truncate(time.Millisecond)
	j := qrtz.Job{Name: "slow"}
	for i := range fires { // one after the other, so that some are claimed while the answer of a poll is on its way
		once := qrtz.At(at.Add(time.Duration(i) * 50 * time.Millisecond))
		once.Name = fmt.Sprint(i)
		j.Schedules = append(j.Schedules, once)
	}
	require.NoError(t, s.Declare(t.Context(), j))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })

	require.True(t, sleepUntil(ctx, at.Add(-900*time.Millisecond)))
	require.NoError(t, l.poison(toxic{"reads", slowReadsType, "downstream", map[string]int{"latency": 2000, "columns": wideQuery}}))
	require.True(t, sleepUntil(ctx, at.Add(1050*time.Millisecond))) // all have been claimed
	lost := toxic{"commit", lostCommitType, "upstream", map[string]int{"passed": 1, "oneIn": 1}}
	require.NoError(t, l.poison(lost))
	require.True(t, sleepUntil(ctx, at.Add(2700*time.Millisecond)))
	require.NoError(t, l.heal(ctx, lost))
	require.True(t, sleepUntil(ctx, at.Add(10*time.Second)))
	require.Eventually(t, func() bool {
		var runs int
		err := one.db.QueryRow(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`).Scan(&runs)
		return err == nil && runs == fires
	}, time.Minute, 100*time.Millisecond, "all have run")

	mu.Lock()
	defer mu.Unlock()
	require.Len(t, starts, fires)
	for what, n := range starts {
		require.Equal(t, 1, n, what)
	}
}
