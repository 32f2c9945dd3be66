package poller

import (
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/run"
)

func (b *bench) swept() {
	b.t.Helper()
	require.NoError(b.t, b.sweep(b.t.Context()))
	synctest.Wait()
}

// What an owner leaves lying is claimed by the first in line after one grace, and by any other after two.
func TestTheSecondInLineWaitsOneGraceMore(t *testing.T) {
	for rank := range 4 {
		benched(t, 10, func(b *bench, now time.Time) {
			b.cluster.rank = rank
			b.start()
			fire := now.Add(1100 * time.Millisecond)
			rest(time.Second)
			b.put(every(1, time.Hour, fire))
			rest(5 * time.Second)
			require.Len(b.t, b.won(), 1)
			late, head := b.won()[0].at.Sub(fire), time.Duration(min(rank, 2))*grace
			require.GreaterOrEqual(b.t, late, head-maxLead)
			require.LessOrEqual(b.t, late, max(head, grace+sweepEvery))
		})
	}
}

// A node whose own fires are overdue leaves alone what others left lying.
func TestWhoIsBehindDoesNotSweep(t *testing.T) {
	for late, sweeps := range map[time.Duration]int{grace: 1, grace + time.Millisecond: 0} {
		benched(t, 10, func(b *bench, now time.Time) {
			b.put(every(1, time.Hour, now))
			b.plan.add([]*entry{b.entryFor(every(2, time.Hour, now.Add(time.Second-late)))}, b.plan.mark())
			rest(time.Second)
			b.swept()
			require.Equal(b.t, sweeps, b.calls("Overdue"))
		})
	}
}

func TestSwitchedOffForgetsThePlan(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Second, now.Add(time.Second)))
		b.planAll()
		b.store.glance.NodeOn = false
		b.cluster.onRefresh = func(c *fakeCluster) { c.off = true }
		b.swept()
		require.Equal(b.t, 1, b.cluster.refreshed)
		_, planned := b.plan.earliestOfAll()
		require.False(b.t, planned)
		rest(5 * time.Second)
		b.store.pending = []run.PendingRun{{ID: 5, Class: "tick", AvailableAt: now}}
		b.swept()
		require.Zero(b.t, b.calls("Overdue")+b.calls("Pending")+b.calls("ClaimPending"), "nothing is even looked for")
		require.Equal(b.t, 1, b.cluster.refreshed, "known already")
	})
}

func TestOnAgainPassesOverBeforeItClaims(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		since := now.Add(10 * time.Second)
		b.put(every(1, time.Second, now), every(2, time.Minute, now.Add(20*time.Second)))
		b.planAll() // as it was before it was switched off
		b.cluster.onAgainAt = since
		rest(12 * time.Second)
		b.swept()
		require.Equal(b.t, 1, b.cluster.passedOver)
		require.Len(b.t, b.store.moved, 1)
		require.Empty(b.t, b.store.moved[0].Runs, "not a misfire")
		require.Equal(b.t, since.UnixMilli(), b.store.rows[1].Next.UnixMilli(), "fires count from then on")
		require.Zero(b.t, b.calls("Claim"))
		_, planned := b.plan.earliestOfAll()
		require.False(b.t, planned, "what was planned before is stale")
		b.swept()
		_, err := b.dispatch(b.t.Context())
		require.NoError(b.t, err)
		for _, c := range b.won() {
			require.False(b.t, c.FireTime.Before(since))
		}
		require.Len(b.t, b.won(), 3)
	})
}

func TestOnAgainOwesWhatWasDueBeforeItWasOff(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Second, now))
		b.cluster.offSince, b.cluster.onAgainAt = now.Add(2*time.Second), now.Add(10*time.Second)
		rest(12 * time.Second)
		b.swept()
		require.Len(b.t, b.store.moved, 2)
		var counts []int64
		for _, r := range b.store.moved[0].Runs {
			counts = append(counts, r.Count)
		}
		require.Equal(b.t, []int64{1, 1}, counts, "two fires: one is skipped, one still runs")
		require.Empty(b.t, b.store.moved[1].Runs, "the others were due while it was off")
		require.Equal(b.t, now.Add(10*time.Second), b.store.rows[1].Next)
	})
}

func TestOnAgainPutsOnRecordWhatNobodySawOff(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Second, now))
		b.cluster.offSince, b.cluster.offSeen, b.cluster.onAgainAt = now, now.Add(3*time.Second), now.Add(10*time.Second)
		rest(12 * time.Second)
		b.swept()
		require.Len(b.t, b.store.moved, 2)
		require.Empty(b.t, b.store.moved[0].Runs, "these were due while it was off")
		require.Len(b.t, b.store.moved[1].Runs, 1)
		left := b.store.moved[1].Runs[0]
		require.Equal(b.t, run.NewRun{
			State: run.Skipped, FireTime: now.Add(3 * time.Second), LastFire: now.Add(9 * time.Second), Count: 7, Message: unseenOff,
		}, left)
		require.Equal(b.t, now.Add(10*time.Second), b.store.rows[1].Next)
	})
}

func TestOnAgainLeavesAloneWhatOthersRanMeanwhile(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Second, now))
		b.cluster.onAgainAt, b.cluster.elsewhere = now.Add(10*time.Second), true
		b.swept()
		require.Empty(b.t, b.store.moved)
		require.Equal(b.t, 1, b.cluster.passedOver)
	})
}

func TestOnAgainWithABrokenSchedule(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(&execute.Execute{ID: 1, Class: "tick", State: execute.Executing, Next: now, Problem: errors.New("bad expression")})
		b.cluster.onAgainAt = now.Add(10 * time.Second)
		b.swept()
		require.Equal(b.t, execute.Error, b.store.rows[1].State)
		require.Equal(b.t, 1, b.cluster.passedOver)
	})
}

func TestPassingOverThatMovesNothingIsTriedAgainLater(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Second, now))
		b.store.lost[1] = true // for instance because this instance was buried
		b.cluster.onAgainAt = now.Add(10 * time.Second)
		b.swept()
		require.Equal(b.t, 1, b.calls("Move"))
		require.Zero(b.t, b.cluster.passedOver)
	})
}

func TestRowsThatMustBeMovedFirst(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		broken := every(1, time.Second, now)
		broken.Problem = errors.New("bad expression")
		fresh, resumed := every(2, time.Second, now), every(3, time.Second, now.Add(-10*time.Second))
		fresh.Next = time.Time{}
		resumed.ResumedAt = now.Add(-3 * time.Second)
		far := every(4, time.Hour, now.Add(-2*time.Second))
		far.ResumedAt = now
		all := []*execute.Execute{broken, fresh, resumed, far}
		b.put(all...)
		entries, err := b.prepare(b.t.Context(), all, b.entryFor)
		require.NoError(b.t, err)
		require.Equal(b.t, []int64{2, 3}, ids(entries), "what is broken, or not due within the window, is not planned")
		require.Equal(b.t, execute.Error, b.store.rows[1].State)
		require.Equal(b.t, now, b.store.rows[2].Next)
		require.Equal(b.t, now.Add(-3*time.Second).UnixMilli(), b.store.rows[3].Next.UnixMilli())
	})
}

func TestAChangeBySQLIsPlannedByTheNextSweep(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.store.glance.Changed = sql.NullInt64{Int64: now.UnixMilli(), Valid: true}
		b.start()
		rest(1200 * time.Millisecond)
		require.Equal(b.t, 1, b.calls("Changed"), "what was there before, once")
		b.put(every(1, time.Hour, now.Add(2500*time.Millisecond)))
		b.store.set(func() { b.store.glance.Changed.Int64 += 1200 })
		rest(1300 * time.Millisecond)
		require.Equal(b.t, 2, b.calls("Changed"), "once per change")
		require.Len(b.t, b.begun(), 1)
		require.Equal(b.t, now.Add(2500*time.Millisecond), b.begun()[0].at, "on time, before the next poll")
	})
}

func TestTidying(t *testing.T) {
	benched(t, 10, func(b *bench, _ time.Time) {
		b.swept()
		require.Zero(b.t, b.calls("Adopt")+b.calls("MarkPaused"))
		b.store.glance.WithoutApp, b.store.glance.Paused = true, true
		b.swept()
		require.Equal(b.t, []int{1, 1}, []int{b.calls("Adopt"), b.calls("MarkPaused")})
	})
}
