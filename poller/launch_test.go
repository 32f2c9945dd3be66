package poller

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/pool"
	"github.com/qrtz-go/qrtz/run"
)

func (b *bench) launchRuns(runs ...run.Run) {
	b.t.Helper()
	require.Equal(b.t, len(runs), b.pool.ReserveFor("tick", len(runs)))
	b.launcher.launch(runs)
}

func runAt(id, executeID int64, at time.Time) run.Run {
	return run.Run{ID: id, ExecuteID: executeID, Class: "tick", FireTime: at, Instance: 7}
}

func TestARunStartsAtItsInstant(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.launchRuns(runAt(1, 1, now.Add(time.Second)), runAt(2, 2, now.Add(2*time.Second)))
		b.launchRuns(runAt(3, 3, now.Add(-time.Second)), runAt(4, 4, now.Add(500*time.Millisecond)))
		rest(10 * time.Second)
		var order []int64
		for _, s := range b.begun() {
			order = append(order, s.ID)
		}
		require.Equal(b.t, []int64{3, 4, 1, 2}, order)
		for i, at := range []time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second} {
			require.Equal(b.t, now.Add(at), b.begun()[i].at)
		}
		b.allFree(10)
	})
}

// The database's clock turns out to be behind what was measured before: the timer rings too early.
func TestARunIsNotEarlyWhenTheClockIsMeasuredAnew(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		fire := now.Add(time.Second)
		b.launchRuns(runAt(1, 1, fire), runAt(2, 1, fire.Add(time.Second)))
		rest(500 * time.Millisecond)
		b.cluster.set(func() { b.cluster.offset = -3 * time.Second })
		rest(3499 * time.Millisecond)
		require.Empty(b.t, b.begun())
		rest(time.Millisecond)
		require.Len(b.t, b.begun(), 1)
		rest(time.Second)
		require.Len(b.t, b.begun(), 2)
		for _, s := range b.begun() {
			require.False(b.t, s.at.Before(s.FireTime))
		}
	})
}

func TestAStartIsNotStampedBeforeItsFire(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.launcher.begin(&start{run: runAt(1, 0, now.Add(time.Second)), begun: make(chan struct{})}, nil)
		require.Equal(b.t, now.Add(time.Second), b.begun()[0].at, "it was due by a clock that has been set back since")
	})
}

func TestALaterFireOfAnExecuteStartsAfterTheEarlierOne(t *testing.T) {
	const n = 200
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			var mu sync.Mutex
			var clock atomic.Int64
			began := map[int64][]claimed{}
			slots := pool.New(n)
			l := newLauncher(func() time.Time { return base.Add(time.Duration(clock.Add(1))) }, slots, func(r run.Run, at time.Time, _ func()) {
				mu.Lock()
				defer mu.Unlock()
				began[r.ExecuteID] = append(began[r.ExecuteID], claimed{at, r})
			})
			var runs []run.Run
			for i := range n {
				runs = append(runs, runAt(int64(i), int64(i%3+1), base.Add(time.Duration(i/3-100)*time.Millisecond)))
			}
			require.Equal(t, n, slots.ReserveFor("tick", n))
			l.launch(runs)
			synctest.Wait()
			require.Equal(t, n, slots.Free())
			for id := int64(1); id <= 3; id++ {
				slices.SortFunc(began[id], func(a, b claimed) int { return a.FireTime.Compare(b.FireTime) })
				require.True(t, slices.IsSortedFunc(began[id], func(a, b claimed) int { return a.at.Compare(b.at) }))
			}
		}
	})
}

func TestRunsWithoutAnExecuteDoNotWaitForEachOther(t *testing.T) {
	l := newLauncher(time.Now, nil, nil)
	runs := l.group([]run.Run{runAt(1, 0, base), runAt(2, 0, base), runAt(3, 5, base), runAt(4, 5, base.Add(1))})
	require.Len(t, runs, 2)
	require.Nil(t, runs[0].runs[1].after)
	require.NotNil(t, runs[1].runs[0].after)
}

// Also a fire claimed later waits for one that has been claimed and has not begun; an old one tried again does not.
func TestOrderHoldsBetweenClaims(t *testing.T) {
	l := newLauncher(time.Now, nil, nil)
	first := l.group([]run.Run{runAt(1, 5, base)})[0].runs[0]
	second := l.group([]run.Run{runAt(2, 5, base.Add(time.Second))})[0].runs[0]
	require.Nil(t, first.after)
	require.Equal(t, (<-chan struct{})(first.begun), second.after)
	require.Nil(t, l.group([]run.Run{runAt(3, 5, base.Add(-time.Hour))})[0].runs[0].after)
	l.forget(first) // it is no longer the latest
	third := l.group([]run.Run{runAt(4, 5, base.Add(time.Minute))})[0].runs[0]
	require.Equal(t, (<-chan struct{})(second.begun), third.after)
	l.forget(third)
	require.Empty(t, l.latest)
}

func TestStopReturnsWhatHasNotStarted(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.launchRuns(runAt(1, 1, now), runAt(2, 1, now.Add(time.Second)), runAt(3, 2, now.Add(time.Second)))
		synctest.Wait()
		left := b.launcher.stop()
		require.Len(b.t, left, 2)
		require.Equal(b.t, []int64{2, 3}, []int64{left[0].ID, left[1].ID})
		b.launchRuns(runAt(4, 4, now))
		rest(time.Minute)
		require.Len(b.t, b.begun(), 1, "nothing starts after that")
		require.Equal(b.t, int64(4), b.launcher.stop()[0].ID)
		b.allFree(10)
	})
}

func TestRunsOfTheSameTimeStartByPriority(t *testing.T) {
	l := newLauncher(time.Now, nil, nil)
	runs := []run.Run{runAt(1, 0, base), runAt(2, 0, base), runAt(3, 0, base), runAt(4, 0, base), runAt(5, 0, base.Add(1))}
	runs[0].Options.Priority, runs[2].Options.Priority, runs[4].Options.Priority = run.PriorityLow, run.PriorityHigh, run.PriorityHigh
	var order []int64
	for _, g := range l.group(runs) {
		for _, s := range g.runs {
			order = append(order, s.run.ID)
		}
	}
	require.Equal(t, []int64{3, 2, 4, 1, 5}, order)
}
