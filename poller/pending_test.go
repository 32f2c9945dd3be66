package poller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// add puts pending runs into the table, available from a time on.
func (b *bench) add(at time.Time, ids ...int64) {
	b.store.set(func() {
		for _, id := range ids {
			b.store.pending = append(b.store.pending, run.PendingRun{ID: id, Class: "tick", AvailableAt: at})
		}
	})
}

// from are ids from one to another.
func from(first, last int64) (ids []int64) {
	for id := first; id <= last; id++ {
		ids = append(ids, id)
	}
	return ids
}

// claimedAt is when a run was claimed; zero if it was not.
func (b *bench) claimedAt(id int64) time.Time {
	for _, c := range b.won() {
		if c.ID == id {
			return c.at
		}
	}
	return time.Time{}
}

func TestEachRankWaitsOneGraceMoreForAPendingRun(t *testing.T) {
	for rank := range 4 {
		benched(t, 10, func(b *bench, now time.Time) {
			b.cluster.rank = rank
			b.start()
			rest(100 * time.Millisecond)
			b.add(now.Add(100*time.Millisecond), 5)
			rest(3 * time.Second)
			late := b.claimedAt(5).Sub(now.Add(100 * time.Millisecond))
			require.GreaterOrEqual(b.t, late, time.Duration(rank)*grace)
			require.LessOrEqual(b.t, late, time.Duration(rank)*grace+sweepEvery)
			b.allFree(10)
		})
	}
}

// However much a look has to read past, it does not hold up what this process enqueues, and comes to its end.
func TestALookThatReadsPastMuchHoldsUpNothing(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.store.set(func() { b.store.hollow = 100 })
		b.add(now, 1)
		b.start()
		rest(2 * time.Second)
		b.add(now, 2)
		b.Enqueued(2)
		rest(300 * time.Millisecond)
		require.False(b.t, b.claimedAt(2).IsZero())
		require.True(b.t, b.claimedAt(1).IsZero(), "the look is under way")
		rest(4 * time.Second)
		require.False(b.t, b.claimedAt(1).IsZero())
		b.allFree(10)
	})
}

// Slots that come free are filled at once, from what has been read, without a sweep in between.
func TestPendingRunsFollowTheSlots(t *testing.T) {
	benched(t, 3, func(b *bench, now time.Time) {
		b.hold = make(chan struct{})
		b.add(now, from(1, 8)...)
		b.start()
		rest(600 * time.Millisecond)
		require.Len(b.t, b.won(), 3)
		rest(5 * time.Second)
		require.Len(b.t, b.won(), 3)
		pages := b.calls("PendingPage")
		rest(5 * time.Second)
		require.Equal(b.t, pages, b.calls("PendingPage"), "a node without a free slot does not look")
		close(b.hold)
		rest(10 * time.Millisecond)
		require.Len(b.t, b.begun(), 8)
		b.allFree(3)
	})
}

func TestAClaimOfPendingRunsInDoubtIsHandedBack(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.add(now, 5, 6)
		b.store.claimErr = fmt.Errorf("claim: %w", schema.ErrCommitUnknown)
		b.start()
		rest(1100 * time.Millisecond)
		b.allFree(10)
		require.Empty(b.t, b.begun())
		require.Equal(b.t, []int64{5, 6}, b.store.handed, "once")
		require.Contains(b.t, b.logged(), "claim pending runs")
	})
}

func TestALookThatIsCutOffByAStopIsNoFailure(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.add(now, 5)
		b.store.deaf = true
		b.start()
		rest(time.Second)
		b.stop()
		require.Contains(b.t, b.store.calls, "PendingPage")
		require.NotContains(b.t, b.logged(), "claim pending runs")
	})
}

func TestWhatThisProcessEnqueuesStartsAtOnce(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.cluster.rank = 2 // another node would go first
		b.start()
		rest(20 * time.Millisecond)
		b.add(now, 5)
		b.Enqueued(5)
		rest(0)
		require.Equal(b.t, now.Add(20*time.Millisecond), b.claimedAt(5))

		b.store.set(func() { b.store.unseen = map[int64]bool{6: true} }) // about to be committed
		b.add(now, 6)
		b.Enqueued(6)
		rest(40 * time.Millisecond)
		require.True(b.t, b.claimedAt(6).IsZero())
		b.store.set(func() { b.store.unseen = nil })
		rest(40 * time.Millisecond)
		require.Len(b.t, b.begun(), 2)
		require.Equal(b.t, 2, b.calls("ClaimPending"))
	})
}

func TestWhatWasRolledBackCostsNothingForLong(t *testing.T) {
	benched(t, 10, func(b *bench, _ time.Time) {
		b.start()
		rest(20 * time.Millisecond)
		b.Enqueued(5)
		rest(5 * time.Second)
		looks := b.calls("PendingByID")
		require.Less(b.t, looks, 15)
		rest(time.Minute)
		require.Equal(b.t, looks, b.calls("PendingByID"))
		require.Zero(b.t, b.calls("PendingPage"))
	})
}

// Of very many, the table tells.
func TestManyEnqueuedAreReadFromTheTable(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.start()
		rest(20 * time.Millisecond)
		ids := from(1, mostExpected+1)
		b.add(now, ids...)
		b.Enqueued(ids...)
		rest(100 * time.Millisecond)
		require.Len(b.t, b.begun(), len(ids))
		require.Zero(b.t, b.calls("PendingByID"))
	})
}

func TestWhatIsEnqueuedForLaterWaits(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.start()
		at := now.Add(3123 * time.Millisecond)
		b.add(at, 5)
		b.Enqueued(5)
		b.add(at.Add(time.Millisecond), 6) // by another process
		rest(5 * time.Second)
		require.Equal(b.t, at, b.claimedAt(5), "at the time, not at the next sweep")
		require.Equal(b.t, at.Add(time.Millisecond), b.claimedAt(6))
	})
}

func TestARunThatWillBeAvailableIsLookedForThen(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.start()
		rest(520 * time.Millisecond)
		at := now.Add(700 * time.Millisecond)
		b.add(at, 5)
		b.Look(at)
		rest(300 * time.Millisecond)
		require.Equal(b.t, at, b.claimedAt(5))
	})
}

// A node looks as often as it finds something, and not at all at rest.
func TestLooksAdapt(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.start()
		rest(10 * time.Second)
		require.Zero(b.t, b.calls("PendingPage"), "the sweep says that there is nothing")

		added := map[int64]time.Time{}
		for id := range int64(200) { // 20 a second
			added[id] = time.Now()
			b.add(time.Now(), id)
			rest(50 * time.Millisecond)
		}
		for _, c := range b.won() {
			if late := c.at.Sub(added[c.ID]); c.ID >= 40 {
				require.LessOrEqual(b.t, late, lookFast)
			}
		}
		rest(time.Minute)
		looks := b.calls("PendingPage")
		rest(time.Minute)
		require.Equal(b.t, looks, b.calls("PendingPage"))
		require.Len(b.t, b.begun(), 200)
	})
}

// blocks are the runs of two nodes by turns.
func (b *bench) blocks(others int64) {
	b.cluster.owner = func(block int64) (string, int) {
		if block >= others {
			return "n2", 1
		}
		return "n1", 0
	}
}

func TestOwnRunsFirst(t *testing.T) {
	benched(t, 4, func(b *bench, now time.Time) {
		b.blocks(2)
		b.hold = make(chan struct{})
		b.store.page = 8
		b.add(now, from(32, 47)...) // another node's, and older
		b.add(now.Add(time.Millisecond), from(0, 15)...)
		rest(10 * time.Second)
		b.start()
		rest(time.Second)
		require.Len(b.t, b.begun(), 4)
		for _, r := range b.begun() {
			require.Less(b.t, r.ID, int64(16))
		}
		close(b.hold)
		rest(100 * time.Millisecond)
		require.Len(b.t, b.begun(), 32, "nothing is left for long")
	})
}

// A node that always has runs of its own takes those of one that does not get on, too.
func TestAStalledOwnersRunsAreTaken(t *testing.T) {
	for _, stalled := range []bool{true, false} {
		benched(t, 2, func(b *bench, now time.Time) {
			b.blocks(1000)
			b.store.slow = 0
			b.takes = func() { time.Sleep(20 * time.Millisecond) }
			b.add(now, from(16000, 16100)...)
			b.add(now.Add(time.Millisecond), from(0, 1000)...)
			b.start()
			ctx, cancel := context.WithCancel(b.t.Context())
			defer func() { cancel(); b.stop(); rest(time.Second) }()
			go func() { // its oldest run goes every 200 ms
				for !stalled && ctx.Err() == nil {
					time.Sleep(200 * time.Millisecond)
					b.store.set(func() {
						if i := slices.IndexFunc(b.store.pending, func(r run.PendingRun) bool { return r.ID >= 16000 }); i >= 0 {
							b.store.pending = slices.Delete(b.store.pending, i, i+1)
						}
					})
				}
			}()
			rest(3 * time.Second)
			theirs := slices.ContainsFunc(b.begun(), func(c claimed) bool { return c.ID >= 16000 })
			require.Equal(b.t, stalled, theirs)
		})
	}
}

func TestSwitchedOffForgetsPendingRuns(t *testing.T) {
	benched(t, 1, func(b *bench, now time.Time) {
		b.hold = make(chan struct{})
		b.add(now, from(1, 5)...)
		b.start()
		rest(600 * time.Millisecond)
		require.Len(b.t, b.won(), 1)
		b.cluster.set(func() { b.cluster.off = true })
		b.store.set(func() { b.store.glance.NodeOn = false })
		close(b.hold)
		b.Enqueued(5)
		rest(3 * time.Second)
		require.Len(b.t, b.won(), 1)
		b.cluster.set(func() { b.cluster.off = false })
		b.store.set(func() { b.store.glance.NodeOn = true })
		rest(time.Second)
		require.Len(b.t, b.begun(), 5)
	})
}

// Fires that are due get the slots that come free, though not for ever.
func TestFiresGoBeforePendingRuns(t *testing.T) {
	benched(t, 8, func(b *bench, now time.Time) {
		b.takes = func() { time.Sleep(30 * time.Millisecond) }
		defer func() { b.stop(); rest(time.Second) }()
		b.add(now, from(1, 1000)...)
		for id := range int64(20) {
			b.put(every(id+1, time.Hour, now.Add(2*time.Second)))
		}
		b.start()
		rest(1900 * time.Millisecond)
		before := len(b.won())
		require.Greater(b.t, before, 200)
		rest(250 * time.Millisecond)
		fires := 0
		for _, c := range b.won() {
			if c.ExecuteID != 0 {
				fires++
			}
		}
		require.Equal(b.t, 20, fires)
		rest(time.Second)
		require.Greater(b.t, len(b.won()), before+20)
	})
}

func TestAnOutageOfPendingRunsIsWaitedOut(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.start()
		rest(100 * time.Millisecond)
		b.add(now, 5)
		b.store.set(func() { b.store.err = errAway })
		b.Enqueued(5)
		rest(10 * time.Second)
		require.Less(b.t, b.calls("PendingByID"), 20)
		b.store.set(func() { b.store.err = nil })
		rest(3 * time.Second)
		require.Len(b.t, b.begun(), 1)
		synctest.Wait()
		b.allFree(10)
	})
}

// urgent puts pending runs of a priority into the table.
func (b *bench) urgent(priority run.Priority, at time.Time, ids ...int64) {
	b.store.set(func() {
		for _, id := range ids {
			b.store.pending = append(b.store.pending, run.PendingRun{ID: id, Class: "tick", AvailableAt: at, Priority: priority})
		}
	})
}

// order are the runs that have begun, one by one.
func (b *bench) order() (ids []int64) {
	for _, c := range b.begun() {
		ids = append(ids, c.ID)
	}
	return ids
}

func TestPendingRunsGoByPriority(t *testing.T) {
	benched(t, 1, func(b *bench, now time.Time) {
		b.hold = make(chan struct{})
		b.urgent(run.PriorityLow, now, 1, 2)
		b.urgent(run.PriorityNormal, now, 3, 4)
		b.urgent(run.PriorityHigh, now, 5, 6)
		b.start()
		rest(600 * time.Millisecond)
		for range 6 {
			b.hold <- struct{}{}
			rest(10 * time.Millisecond)
		}
		require.Equal(b.t, []int64{5, 6, 3, 4, 1, 2}, b.order())
		b.allFree(1)
	})
}

// However many urgent runs there are, others get their turn.
func TestNoPendingRunWaitsForEverForMoreUrgentOnes(t *testing.T) {
	benched(t, 1, func(b *bench, now time.Time) {
		b.hold = make(chan struct{})
		b.urgent(run.PriorityLow, now, 1)
		b.urgent(run.PriorityHigh, now.Add(time.Millisecond), from(2, 100)...)
		b.start()
		rest(600 * time.Millisecond)
		for range byAgeOnce {
			require.NotEqual(b.t, int64(1), b.order()[0])
			b.hold <- struct{}{}
			rest(2 * pageFor) // for the next look
		}
		require.Contains(b.t, b.order(), int64(1))
		close(b.hold)
		rest(time.Second)
		require.Equal(b.t, []int64{2, 3, 4, 5}, b.order()[:4])
	})
}

func TestUrgentRunsFarBehindAreFound(t *testing.T) {
	benched(t, 1, func(b *bench, now time.Time) {
		b.hold = make(chan struct{})
		b.store.page = 10
		b.urgent(run.PriorityLow, now, from(1, 50)...)
		b.urgent(run.PriorityHigh, now, 51)
		b.start()
		rest(600 * time.Millisecond)
		for range 3 {
			b.hold <- struct{}{}
			rest(10 * time.Millisecond)
		}
		require.Contains(b.t, b.order()[:2], int64(51))
		require.Equal(b.t, 1, b.calls("UrgentPage"), "once a second at most")
		close(b.hold)
		rest(time.Second)
		require.Len(b.t, b.begun(), 51)
	})
}

// While a fire that is due has found no slot, pending runs take none for a while, and then few.
func TestPendingRunsLeaveSlotsToFires(t *testing.T) {
	benched(t, 16, func(b *bench, now time.Time) {
		l := &pendingLoop{Poller: b.Poller}
		for id := range int64(100) {
			l.own = append(l.own, run.PendingRun{ID: id, Class: "tick", AvailableAt: now})
		}
		n, _ := l.wanted(nil)
		require.Equal(b.t, 100, n)
		b.signals.hungry.Store(true)
		for range 4 {
			n, wait := l.wanted(nil)
			require.Zero(b.t, n)
			require.LessOrEqual(b.t, wait, gatherFor)
			rest(5 * time.Millisecond)
		}
		n, _ = l.wanted(nil)
		require.Equal(b.t, 2, n, "an eighth of the pool")
	})
}
