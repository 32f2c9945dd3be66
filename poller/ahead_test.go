package poller

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

// With quick handlers and a slow database, claims are larger than the pool.
func TestQuickRunsAreClaimedAhead(t *testing.T) {
	for takes, ahead := range map[time.Duration]bool{0: true, 200 * time.Millisecond: false} {
		benched(t, 8, func(b *bench, now time.Time) {
			b.store.slow = 20 * time.Millisecond
			b.takes = func() { time.Sleep(takes) }
			defer func() { b.stop(); rest(time.Second) }()
			b.add(now, from(1, 1000)...)
			b.start()
			rest(1500 * time.Millisecond)
			sizes, most := map[time.Time]int{}, 0
			for _, c := range b.won() {
				sizes[c.at]++
				most = max(most, sizes[c.at])
			}
			if ahead {
				require.Greater(b.t, most, 50)
				require.Len(b.t, b.begun(), 1000)
				b.allFree(8)
			} else {
				require.LessOrEqual(b.t, most, 8)
			}
		})
	}
}

// What was claimed ahead is handed back when the handlers turn out to take long after all, when the node is switched off, and when it
// stops.
func TestRunsAheadThatWaitTooLongAreHandedBack(t *testing.T) {
	for _, when := range []string{"slow", "off", "stop"} {
		benched(t, 8, func(b *bench, now time.Time) {
			b.store.slow = 20 * time.Millisecond
			hold := make(chan struct{})
			var held atomic.Bool
			b.takes = func() {
				time.Sleep(time.Millisecond)
				if held.Load() {
					<-hold
				}
			}
			b.add(now, from(1, 3000)...)
			b.start()
			rest(700 * time.Millisecond)
			for tries := 0; b.ahead.waits() <= 2*8; tries++ { // more than the slots take before the next claim
				require.Less(b.t, tries, 1000, "nothing is claimed ahead")
				rest(time.Millisecond)
			}
			held.Store(true)
			rest(5 * time.Millisecond)
			require.Positive(b.t, b.ahead.waits())
			switch when {
			case "stop":
				b.stop()
			case "off":
				b.cluster.mu.Lock()
				b.cluster.off = true
				b.cluster.mu.Unlock()
				rest(time.Second)
			default:
				rest(time.Second)
			}
			require.Len(b.t, b.store.handed, len(b.won())-len(b.begun()), "each that was claimed and has not begun")
			require.Zero(b.t, b.ahead.waits())
			held.Store(false)
			close(hold)
			b.stop()
			rest(time.Second)
			b.allFree(8)
		})
	}
}

func TestARunAheadIsNeverEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAhead(time.Now, func() {}, func() bool { return false })
		now := time.Now()
		a.add([]run.Run{{ID: 2, Class: "tick", FireTime: now.Add(5 * time.Millisecond)}, {ID: 3, Class: "mail"}})
		started, further := map[int64]time.Time{}, 0
		a.carryOut(func(r run.Run, at time.Time) { started[r.ID] = at }, run.Run{ID: 1, Class: "tick"}, now, func() { further++ })
		require.Equal(t, map[int64]time.Time{1: now, 2: now.Add(5 * time.Millisecond)}, started, "of its own class only")
		require.Equal(t, now.Add(5*time.Millisecond), time.Now())
		require.Equal(t, 1, a.waits())
		require.Equal(t, 1, further)
	})
}

// Runs of one class that start do not keep those of another waiting, nor does one that starts now and then.
func TestRunsAheadWaitByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAhead(time.Now, func() {}, func() bool { return false })
		now := time.Now()
		for id := range int64(20) {
			a.add([]run.Run{{ID: id, Class: "tick"}, {ID: 100 + id, Class: "mail"}})
		}
		handed := map[string]time.Duration{}
		for range 15 {
			time.Sleep(100 * time.Millisecond)
			_, _ = a.next("tick", 0)
			runs := a.overdue(time.Now())
			for _, r := range runs {
				handed[r.Class] = time.Since(now)
			}
			require.Equal(t, a.waits() == 0, a.until().IsZero())
		}
		require.Equal(t, map[string]time.Duration{"mail": 300 * time.Millisecond, "tick": time.Second}, handed)
	})
}

// Runs that are found to have waited for too long only when the loop is about to rest, after a slow look, are not forgotten.
func TestRunsAheadAreHandedBackAfterASlowLook(t *testing.T) {
	benched(t, 8, func(b *bench, _ time.Time) {
		l := &pendingLoop{Poller: b.Poller}
		b.ahead.add([]run.Run{{ID: 1, Class: "tick"}})
		rest(aheadFor)
		require.Zero(b.t, l.untilOverdue())
		require.Equal(b.t, 1, b.ahead.waits())
	})
}

// When fires want a slot, a slot does not continue with what is ahead.
func TestFiresGoBeforeRunsAhead(t *testing.T) {
	a := newAhead(time.Now, func() {}, func() bool { return true })
	a.add([]run.Run{{ID: 2, Class: "tick"}})
	_, more := a.next("tick", 0)
	require.False(t, more)
	require.Len(t, a.take(func(string) bool { return true }), 1)
}

// Runs of schedules, and of jobs of which only some may go, wait for a slot before they are claimed.
func TestRoomAheadIsForRunsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAhead(time.Now, func() {}, func() bool { return false })
		a.recount()
		for range 100 {
			_, _ = a.next("tick", 0)
		}
		for range 100 { // all at once, as the runs of many slots that were claimed together do
			_, _ = a.next("slow", 200*time.Millisecond)
		}
		_, _ = a.next("mail", 0)
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, map[string]int{"tick": 100 * aheadOver}, a.room(10*time.Millisecond))
		a.add(make([]run.Run, 10))
		require.Equal(t, mostAhead-10, a.room(time.Second)["tick"])
		a.recount()
		time.Sleep(10 * time.Millisecond)
		require.Empty(t, a.room(10*time.Millisecond))
	})
}
