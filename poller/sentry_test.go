package poller

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

// holdRuns holds runs without slots, claimed now.
func (b *bench) holdRuns(runs ...run.Run) {
	if b.launcher.sentry == nil {
		b.launcher.sentry = newSentry(b.t.Context(), b.cluster.Now, b.cluster.SwitchedOn, zerolog.Nop())
	}
	b.launcher.hold(runs, func(run.Run) bool { return true }, b.cluster.Now().Add(10*time.Millisecond))
}

func (b *bench) looks() int {
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	return b.cluster.looks
}

func TestOneLookServesAllThatIsDueWithinAMoment(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.holdRuns(runAt(1, 1, now.Add(5*time.Millisecond)), runAt(2, 2, now.Add(100*time.Millisecond)), runAt(3, 3, now.Add(103*time.Millisecond)),
			runAt(4, 4, now.Add(200*time.Millisecond)))
		rest(50 * time.Millisecond)
		require.Zero(b.t, b.looks(), "the claim saw the switches a moment before")
		rest(40 * time.Millisecond)
		require.Zero(b.t, b.looks(), "a look is as late as can be")
		rest(60 * time.Millisecond)
		require.Equal(b.t, 1, b.looks())
		rest(time.Second)
		require.Equal(b.t, 2, b.looks())
		require.Len(b.t, b.begun(), 4)
		for _, s := range b.begun() {
			require.Equal(b.t, s.FireTime, s.at)
		}
		b.allFree(10)
	})
}

func TestALookThatTakesLongIsSentEarlier(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.cluster.lookTakes = 10 * time.Millisecond
		for i := range 50 {
			b.holdRuns(runAt(int64(i), int64(i), now.Add(time.Duration(i+1)*100*time.Millisecond)))
			rest(100 * time.Millisecond)
		}
		rest(time.Second)
		require.Len(b.t, b.begun(), 50)
		for i, s := range b.begun() {
			require.LessOrEqual(b.t, s.at.Sub(s.FireTime), 10*time.Millisecond)
			if i > 10 {
				require.Equal(b.t, s.FireTime, s.at)
			}
		}
	})
}

// What has no answer starts nothing.
func TestWithoutADatabaseNothingHeldStarts(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.cluster.lookErr = errAway
		b.holdRuns(runAt(1, 1, now.Add(100*time.Millisecond)))
		rest(10 * time.Second)
		require.Empty(b.t, b.begun())
		require.Less(b.t, b.looks(), 250)
		b.cluster.set(func() { b.cluster.lookErr = nil })
		rest(200 * time.Millisecond)
		require.Len(b.t, b.begun(), 1, "late")
	})
}

func TestARunWithoutASlotStartsWhenOneComesFree(t *testing.T) {
	benched(t, 1, func(b *bench, now time.Time) {
		require.Equal(b.t, 1, b.pool.Reserve(1))
		b.holdRuns(runAt(1, 1, now.Add(100*time.Millisecond)))
		rest(200 * time.Millisecond)
		require.Empty(b.t, b.begun())
		require.True(b.t, b.launcher.hungry())
		b.pool.Release(1)
		b.launcher.slotsFreed()
		rest(0)
		require.Len(b.t, b.begun(), 1)
		require.False(b.t, b.launcher.hungry())
		b.allFree(1)
	})
}

func TestARunThatFindsNoSlotIsLeftToOthers(t *testing.T) {
	benched(t, 1, func(b *bench, now time.Time) {
		require.Equal(b.t, 1, b.pool.Reserve(1))
		var mu sync.Mutex
		var givenUp []int64
		b.launcher.giveUp = func(runs []run.Run) {
			mu.Lock()
			defer mu.Unlock()
			for _, r := range runs {
				givenUp = append(givenUp, r.ID)
			}
		}
		left := func() []int64 {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(givenUp)
		}
		b.holdRuns(runAt(1, 1, now.Add(100*time.Millisecond)), runAt(2, 2, now.Add(time.Second)))
		rest(100*time.Millisecond + grace - time.Millisecond)
		require.Empty(b.t, left())
		rest(2 * time.Millisecond)
		require.Equal(b.t, []int64{1}, left())
		b.pool.Release(1)
		rest(time.Second)
		require.Len(b.t, b.begun(), 1, "the other one has found one")
	})
}

func TestACrowdIsLookedAtEarlier(t *testing.T) {
	benched(t, 2*crowd, func(b *bench, now time.Time) {
		fire := now.Add(time.Second)
		runs := make([]run.Run, crowd)
		for i := range runs {
			runs[i] = runAt(int64(i+1), int64(i+1), fire.Add(time.Duration(i)*lookMost/2/crowd))
		}
		b.holdRuns(runs...)
		rest(time.Second - lookMost - time.Millisecond)
		require.Zero(b.t, b.looks())
		rest(2 * time.Millisecond)
		require.Equal(b.t, 1, b.looks())
		rest(time.Second)
		require.Equal(b.t, 1, b.looks())
		require.Len(b.t, b.begun(), crowd)
	})
}

func TestAClaimIsALook(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.holdRuns(runAt(100, 100, now.Add(500*time.Millisecond)))
		b.put(every(1, time.Hour, now.Add(500*time.Millisecond)))
		b.start()
		rest(time.Second)
		require.Len(b.t, b.begun(), 2)
		require.Zero(b.t, b.looks())
	})
}

// What a look has seen is believed for a moment: not by a run that then waits for a slot, or for a clock that was set back.
func TestALookIsNotBelievedForLong(t *testing.T) {
	t.Run("no slot", func(t *testing.T) {
		benched(t, 1, func(b *bench, now time.Time) {
			require.Equal(b.t, 1, b.pool.Reserve(1))
			b.holdRuns(runAt(1, 1, now.Add(100*time.Millisecond)))
			rest(110 * time.Millisecond)
			require.Equal(b.t, 1, b.looks())
			b.cluster.set(func() { b.cluster.switchedOff = true })
			rest(sureFor)
			b.pool.Release(1)
			b.launcher.slotsFreed()
			rest(time.Second)
			require.Empty(b.t, b.begun())
		})
	})
	t.Run("clock set back", func(t *testing.T) {
		benched(t, 1, func(b *bench, now time.Time) {
			b.holdRuns(runAt(1, 1, now.Add(100*time.Millisecond)))
			rest(98 * time.Millisecond)
			require.Equal(b.t, 1, b.looks())
			b.cluster.set(func() { b.cluster.offset = -5 * time.Second })
			rest(time.Second)
			b.cluster.set(func() { b.cluster.switchedOff = true })
			rest(10 * time.Second)
			require.Empty(b.t, b.begun())
		})
	})
}
