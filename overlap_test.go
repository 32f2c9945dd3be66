package qrtz_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// crowd counts how many runs of a handler go at once, anywhere in the cluster.
type crowd struct{ now, most atomic.Int32 }

func (w *crowd) enter() { w.most.Store(max(w.most.Load(), w.now.Add(1))) }
func (w *crowd) leave() { w.now.Add(-1) }

// slow is a handler that takes much longer than the time between fires.
func (c *cluster) slow(w *crowd) func(*qrtz.Scheduler) {
	return func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "slow", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			w.enter()
			defer w.leave()
			c.record(run)
			select {
			case <-ctx.Done():
			case <-time.After(250 * time.Millisecond):
			}
			return nil
		})
	}
}

// crowded has three nodes run a job that is slower than its rate, and returns how many runs went at once.
func crowded(t *testing.T, c *cluster, rule qrtz.Overlap, prepare string) int32 {
	t.Helper()
	if prepare != "" {
		c.exec(prepare)
	}
	var w crowd
	var nodes []*testNode
	for i := range 3 {
		nodes = append(nodes, c.start(c.open(quick(fmt.Sprint("n", i)), c.slow(&w))))
	}
	job := qrtz.Job{Name: "slow", Options: qrtz.Options{Overlap: rule, QueueLimit: 2}}
	for i := range 3 { // each may have an owner of its own
		every := qrtz.Every(150 * time.Millisecond)
		every.Name = fmt.Sprint(i)
		job.Schedules = append(job.Schedules, every)
	}
	require.NoError(t, nodes[0].Declare(t.Context(), job))
	c.ran(8, 15*time.Second, all)
	for _, n := range nodes {
		n.halt()
	}
	return w.most.Load()
}

func TestOnlyOneRunAtATime(t *testing.T) {
	for _, rule := range []qrtz.Overlap{qrtz.OverlapSkip, qrtz.OverlapQueue} {
		t.Run(string(rule), func(t *testing.T) {
			c := newCluster(t)
			require.Equal(t, int32(1), crowded(t, c, rule, ""))
			skipped := `SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND FINISHED_AT IS NOT NULL AND MESSAGE LIKE 'overlap: %'`
			require.GreaterOrEqual(t, c.count(skipped), 5)
			require.Equal(t, c.count(skipped), c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED'`), "each with its reason")
			require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE E WHERE TIME_TRIGGERED <> (SELECT COUNT(*) FROM QRTZ_RUN R WHERE R.EXECUTE_ID = E.ID)`),
				"each fire has its row")
		})
	}
}

// It is the unique key that makes it so, not timing.
func TestWithoutTheKeyRunsOverlap(t *testing.T) {
	c := newCluster(t)
	require.Greater(t, crowded(t, c, qrtz.OverlapSkip, `ALTER TABLE QRTZ_RUN DROP KEY QRTZ_RUN_OVERLAP`), int32(1))
}

func TestAllowLetsThemRunBesideEachOther(t *testing.T) {
	require.Greater(t, crowded(t, newCluster(t), qrtz.OverlapAllow, ""), int32(1))
}

func TestTheQueueRunsTheNewestInOrderAfterwards(t *testing.T) {
	c := newCluster(t)
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	hold := func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "hold", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
			c.record(run)
			<-release
			return nil
		})
	}
	n := c.start(c.open(quick("n1"), hold))
	c.start(c.open(quick("n2"), hold))
	c.start(c.open(quick("n3"), hold))
	t.Cleanup(letGo)
	every := qrtz.Every(200 * time.Millisecond)
	every.Count = 9
	job := qrtz.Job{Name: "hold", Options: qrtz.Options{Overlap: qrtz.OverlapQueue, QueueLimit: 3}, Schedules: []qrtz.Schedule{every}}
	require.NoError(t, n.Declare(t.Context(), job))
	c.eventually("all fires have come", 10*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_EXECUTE`) == "COMPLETE" })
	c.eventually("all but the newest three are skipped", 10*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND MESSAGE LIKE '%QUEUE_LIMIT%'`) == 5
	})
	require.Len(t, c.fires(), 1)
	letGo()
	c.ran(4, 10*time.Second, all)
	first := c.fires()[0].FireTime
	for i, f := range c.fires()[1:] {
		require.Equal(t, first.Add(time.Duration(6+i)*200*time.Millisecond).UnixMilli(), f.FireTime.UnixMilli(), "the newest three, in order")
	}
}

// A schedule faster than a claim's lead is not taken to overlap itself: short runs all go.
func TestShortRunsOfAFastExclusiveScheduleDoNotSkipEachOther(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	ticking(t, n.Scheduler, 300, time.Second) // a crowd, which is claimed up to a second early
	require.NoError(t, n.Declare(t.Context(), qrtz.Job{
		Name: "alone", Class: "tick", Schedules: []qrtz.Schedule{qrtz.Every(200 * time.Millisecond)}, Options: qrtz.Options{Overlap: qrtz.OverlapSkip},
	}))
	job := c.count(`SELECT ID FROM QRTZ_JOB WHERE NAME = 'alone'`)
	c.ran(20, 15*time.Second, func(f fire) bool { return f.JobID == int64(job) })
	skipped := c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ? AND STATE = 'SKIPPED'`, job)
	require.LessOrEqual(t, skipped, 2, "a busy machine may hold up a run for 200 ms")
}
