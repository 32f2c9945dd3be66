package qrtz_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// soon is how long a run that was enqueued in the node's own process waits at most, in the middle of many: far less than until the
// next sweep.
const soon = 100 * time.Millisecond

// waited is how long runs had to wait from when they could begin, in the middle.
func (c *cluster) waited(from map[int64]time.Time) time.Duration {
	c.t.Helper()
	var waits []time.Duration
	for _, f := range c.fires() {
		if at, ok := from[f.ID]; ok {
			waits = append(waits, f.seen.Sub(at))
		}
	}
	require.Len(c.t, waits, len(from))
	slices.Sort(waits)
	return waits[len(waits)/2]
}

func declared(t *testing.T, s *qrtz.Scheduler) {
	t.Helper()
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "asked", Class: "tick"}))
}

func TestEnqueuedRunsStartAtOnce(t *testing.T) {
	c := newCluster(t)
	n := c.start(c.open(patient("n1")))
	declared(t, n.Scheduler)
	from := map[int64]time.Time{}
	for range 21 {
		id, err := n.Enqueue(t.Context(), "asked", nil)
		require.NoError(t, err)
		from[id] = time.Now()
		time.Sleep(30 * time.Millisecond)
	}
	c.ran(len(from), within, all)
	require.Less(t, c.waited(from), soon)
}

// A transaction of the caller's is asked whether it has ended, and so its runs start when it has been committed.
func TestEnqueuedRunsStartWithTheCommit(t *testing.T) {
	c := newCluster(t)
	n := c.start(c.open(patient("n1")))
	declared(t, n.Scheduler)
	from := map[int64]time.Time{}
	for i := range 22 {
		tx, err := c.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		first, err := n.In(tx).Enqueue(t.Context(), "asked", nil)
		require.NoError(t, err)
		second, err := n.In(tx).Enqueue(t.Context(), "asked", nil)
		require.NoError(t, err)
		time.Sleep(20 * time.Millisecond)
		if i%2 == 0 {
			require.NoError(t, tx.Rollback())
			continue
		}
		require.NoError(t, tx.Commit())
		from[first], from[second] = time.Now(), time.Now()
	}
	c.ran(len(from), within, all)
	require.Less(t, c.waited(from), soon)
	require.Len(t, c.fires(), len(from), "what was rolled back does not run")
}

func TestTheRunsOfAFullNodeAreTakenByAnother(t *testing.T) {
	c := newCluster(t)
	causes := make(chan error, 1)
	cfg := patient("full")
	cfg.Workers = 1
	full := c.start(c.open(cfg, c.waits(causes)))
	require.NoError(t, full.Declare(t.Context(), qrtz.Job{Name: "asked", Class: "tick"}, qrtz.Job{Name: "long", Class: "waits"}))
	long, err := full.Enqueue(t.Context(), "long", nil)
	require.NoError(t, err)
	c.ran(1, within, all)

	c.start(c.open(patient("free")))
	time.Sleep(time.Second) // they know each other
	for range 100 {
		_, err := full.Enqueue(t.Context(), "asked", nil)
		require.NoError(t, err)
	}
	c.ran(100, within, on("free", time.Time{}))
	require.NoError(t, full.Cancel(t.Context(), long))
	require.ErrorIs(t, arrives(t, causes, within), qrtz.ErrCancelled)
}

func TestThreeNodesCarryOutABacklogOnce(t *testing.T) {
	c := newCluster(t)
	s := c.open(patient("client"))
	declared(t, s)
	const backlog = 5000
	job := c.count(`SELECT ID FROM QRTZ_JOB`)
	for range backlog / 1000 {
		rows := ""
		for i := range 1000 {
			if i > 0 {
				rows += ", "
			}
			rows += fmt.Sprintf("('test', %d, %d)", job, time.Now().UnixMilli())
		}
		c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME) VALUES ` + rows)
	}
	var nodes []*testNode
	for i := range 3 {
		nodes = append(nodes, c.start(c.open(patient(fmt.Sprint("n", i)))))
	}
	c.ran(backlog, 20*time.Second, all)
	for _, n := range nodes {
		n.halt()
	}
	require.Len(t, c.fires(), backlog)
	require.Equal(t, backlog, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED' AND FENCE = 1 AND ATTEMPT = 1`))
	for i := range 3 {
		require.NotZero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE HOST_IP = ?`, fmt.Sprint("n", i)), "each takes a part")
	}
}

// A queue continues when a run of it ends, not at the next sweep.
func TestAQueueGoesOnAtOnce(t *testing.T) {
	c := newCluster(t)
	n := c.start(c.open(patient("n1")))
	require.NoError(t, n.Declare(context.Background(), qrtz.Job{Name: "asked", Class: "tick", Options: qrtz.Options{Overlap: qrtz.OverlapQueue}}))
	began := time.Now()
	for range 20 {
		_, err := n.Enqueue(t.Context(), "asked", nil)
		require.NoError(t, err)
	}
	c.ran(20, within, all)
	require.Less(t, time.Since(began), 20*soon)
}
