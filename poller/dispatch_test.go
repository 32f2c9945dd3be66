package poller

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// planAll plans what the store holds, as a poll does.
func (b *bench) planAll() {
	b.t.Helper()
	require.NoError(b.t, b.readDue(b.t.Context()))
}

func (b *bench) won() []claimed {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	return append([]claimed(nil), b.store.claims...)
}

func TestFiresAreClaimedJustBeforeAndStartOnTime(t *testing.T) {
	benched(t, 100, func(b *bench, now time.Time) {
		b.put(every(1, time.Second, now.Add(2*time.Second)), every(2, 700*time.Millisecond, now.Add(time.Second)))
		b.store.slow = 20 * time.Millisecond
		b.start()
		rest(60 * time.Second)
		require.Greater(b.t, len(b.begun()), 120)
		for i, s := range b.begun() {
			require.False(b.t, s.at.Before(s.FireTime), "early")
			require.LessOrEqual(b.t, s.at.Sub(s.FireTime), 20*time.Millisecond, "late")
			if i > 60 {
				require.LessOrEqual(b.t, s.at.Sub(s.FireTime), 2*time.Millisecond, "once the pace is known")
			}
		}
		for _, c := range b.won() {
			require.LessOrEqual(b.t, c.FireTime.Sub(c.at), companyIn, "claimed too early")
		}
	})
}

func TestNoMoreIsClaimedThanCanStart(t *testing.T) {
	benched(t, 3, func(b *bench, now time.Time) {
		b.hold = make(chan struct{})
		for id := range int64(5) {
			b.put(every(id+1, time.Hour, now.Add(time.Second)))
		}
		b.start()
		rest(30 * time.Second)
		require.Len(b.t, b.won(), 3)
		b.hold <- struct{}{}
		synctest.Wait()
		require.Len(b.t, b.won(), 4, "a slot that comes free is used at once")
		close(b.hold)
		rest(time.Second)
		require.Len(b.t, b.won(), 5)
		b.allFree(3)
	})
}

func TestACrowdIsClaimedEarlyInLargeBatches(t *testing.T) {
	const n = 2000
	benched(t, 2*n, func(b *bench, now time.Time) {
		fire := now.Add(3 * time.Second)
		for id := range int64(n) {
			b.put(every(id+1, time.Hour, fire))
		}
		b.store.slow = 50 * time.Millisecond
		b.start()
		rest(5 * time.Second)
		require.Len(b.t, b.begun(), n)
		for _, s := range b.begun() {
			require.Equal(b.t, fire, s.at)
		}
		for _, c := range b.won() {
			require.LessOrEqual(b.t, fire.Sub(c.at), crowdIn)
		}
		require.Equal(b.t, n/maxBatch, b.calls("Claim"))
	})
}

func TestALargeCrowdIsClaimedInPartsAtOnceByANodeThatIsAlone(t *testing.T) {
	for joined, rounds := range map[bool]int{false: 2, true: 4} {
		benched(t, 4*maxBatch, func(b *bench, now time.Time) {
			b.cluster.joined = joined
			fire := now.Add(3 * time.Second)
			for id := range int64(maxBatch*3 + 100) {
				b.put(every(id+1, time.Hour, fire))
			}
			b.store.slow = 50 * time.Millisecond
			b.start()
			rest(4 * time.Second)
			at := map[time.Time]int{}
			for _, c := range b.won() {
				at[c.at]++
			}
			require.Equal(b.t, 4, b.calls("Claim"))
			require.Len(b.t, at, rounds, "two at once, or one after another")
		})
	}
}

func TestACrowdLeavesSlotsToOthers(t *testing.T) {
	benched(t, 80, func(b *bench, now time.Time) {
		for id := range int64(300) {
			b.put(every(id+1, time.Hour, now.Add(2*time.Second)))
		}
		b.start()
		rest(1900 * time.Millisecond)
		require.Len(b.t, b.won(), 70)
		require.Equal(b.t, 10, b.pool.Free())
	})
}

// A steady crowd holds the pool's early slots all the time, and they come free one by one.
func TestASteadyCrowdIsClaimedInGoodBatches(t *testing.T) {
	benched(t, 400, func(b *bench, now time.Time) {
		const n = 4000
		for id := range int64(n) {
			b.put(every(id+1, time.Hour, now.Add(2*time.Second+time.Duration(id)*time.Millisecond)))
		}
		b.start()
		rest(5 * time.Second)
		require.GreaterOrEqual(b.t, len(b.begun()), 3000)
		for _, s := range b.begun() {
			require.Equal(b.t, s.FireTime, s.at)
		}
		require.Less(b.t, b.calls("Claim"), 30)
	})
}

func TestSeveralFiresOfAnExecuteInOneClaim(t *testing.T) {
	benched(t, 100, func(b *bench, now time.Time) {
		b.put(every(1, 100*time.Millisecond, now.Add(-time.Second)))
		b.planAll()
		_, err := b.dispatch(b.t.Context())
		require.NoError(b.t, err)
		require.Equal(b.t, 1, b.calls("Claim"))
		require.Len(b.t, b.won(), 11)
		for i, c := range b.won() {
			require.Equal(b.t, now.Add(time.Duration(i-10)*100*time.Millisecond).UnixMilli(), c.FireTime.UnixMilli())
		}
		synctest.Wait()
		b.allFree(100)
	})
}

func TestSlotsAreSharedAmongTheExecutesOfABatch(t *testing.T) {
	benched(t, 5, func(b *bench, now time.Time) {
		b.hold = make(chan struct{})
		defer close(b.hold)
		for id := range int64(3) {
			b.put(every(id+1, 100*time.Millisecond, now.Add(-time.Second)))
		}
		b.planAll()
		_, err := b.dispatch(b.t.Context())
		require.NoError(b.t, err)
		fires := map[int64]int{}
		for _, c := range b.won() {
			fires[c.ExecuteID]++
		}
		require.Equal(b.t, map[int64]int{1: 3, 2: 1, 3: 1}, fires, "every one that was taken has at least one")
	})
}

func TestALostClaimIsForgotten(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Hour, now), every(2, time.Hour, now))
		b.store.lost[1] = true
		b.planAll()
		_, err := b.dispatch(b.t.Context())
		require.NoError(b.t, err)
		require.Len(b.t, b.won(), 1)
		_, ok := b.plan.earliestOfAll()
		require.False(b.t, ok)
		synctest.Wait()
		b.allFree(10)
	})
}

func TestWhatHasBecomeAMisfireIsLeftToItsPolicy(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Second, now), every(2, time.Second, now.Add(-59*time.Second)))
		b.planAll()
		rest(90 * time.Second) // without a slot, or without the database
		b.put(every(3, time.Second, now.Add(70*time.Second)))
		b.plan.add([]*entry{b.entryFor(b.store.rows[3])}, b.plan.mark())
		_, err := b.dispatch(b.t.Context())
		require.NoError(b.t, err)
		require.NotEmpty(b.t, b.won())
		for _, c := range b.won() {
			require.Equal(b.t, int64(3), c.ExecuteID)
		}
	})
}

// A new execute that owes fires since long ago must not run them all.
func TestANewExecuteWithAnOldStartIsNoBurst(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		e := every(1, time.Second, now.Add(-time.Hour))
		e.Next = time.Time{}
		b.put(e)
		b.store.fresh = []int64{1}
		b.start()
		rest(3 * time.Second)
		require.Empty(b.t, b.won())
		require.Equal(b.t, now.Add(-time.Hour).UnixMilli(), b.store.rows[1].Next.UnixMilli(), "begun, and left to the misfire handler")
	})
}

// A claim without an answer is handed back before the same fire can be claimed again.
func TestADoubtIsResolvedBeforeTheNextClaim(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Hour, now), every(2, time.Hour, now.Add(2*time.Second)))
		b.planAll()
		b.store.claimErr = fmt.Errorf("claim: %w", schema.ErrCommitUnknown)
		_, err := b.dispatch(b.t.Context())
		require.ErrorIs(b.t, err, schema.ErrCommitUnknown)
		synctest.Wait()
		require.Empty(b.t, b.begun())
		b.allFree(10)
		require.Empty(b.t, b.store.handed)

		rest(2 * time.Second)
		b.store.err = errAway
		_, err = b.dispatch(b.t.Context())
		require.ErrorIs(b.t, err, errAway)
		require.Equal(b.t, 1, b.calls("Claim"), "not while it is open")
		b.store.err = nil
		_, err = b.dispatch(b.t.Context())
		require.NoError(b.t, err)
		require.Equal(b.t, []int64{1}, b.store.handed)
		require.Equal(b.t, 2, b.calls("Claim"))
		require.NoError(b.t, b.HandBackDoubts(b.t.Context()))
		require.Equal(b.t, 1, b.calls("HandBackFires")-1, "once, after one failure")
	})
}

func TestOtherErrorsLeaveNoDoubt(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Hour, now))
		b.planAll()
		b.store.claimErr = errAway
		_, err := b.dispatch(b.t.Context())
		require.ErrorIs(b.t, err, errAway)
		require.Empty(b.t, b.doubts.open)
		b.allFree(10)
	})
}

func TestNothingIsClaimedWhileThisNodeMayNot(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Hour, now))
		b.planAll()
		b.cluster.off = true
		wait, err := b.dispatch(b.t.Context())
		require.ErrorIs(b.t, err, outage.ErrIdle)
		require.Positive(b.t, wait)
		require.Zero(b.t, b.calls("Claim"))
	})
}

func TestAnIdleDispatcherRests(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Hour, now.Add(4*time.Second)))
		b.planAll()
		freed, stop := b.pool.Freed()
		defer stop()
		wait, err := b.dispatch(b.t.Context())
		require.ErrorIs(b.t, err, outage.ErrIdle)
		require.Equal(b.t, 4*time.Second-firstClaim, wait)
		select {
		case <-freed:
			b.t.Error("it would wake itself")
		default:
		}
	})
}

func TestPaceFollowsWhatClaimsTake(t *testing.T) {
	var p pace
	require.Equal(t, firstClaim, p.claim())
	for range 100 {
		p.note(80 * time.Millisecond)
	}
	require.InDelta(t, 80*time.Millisecond, p.claim(), float64(time.Millisecond))
	p.note(0)
	require.Positive(t, p.claim())
}

var (
	_ Executes = (*execute.Store)(nil)
	_ Runs     = (*run.Store)(nil)
)

// twoClasses has runs of the class "mail" last until the test lets them end, one for each time it sends.
func (b *bench) twoClasses(limits map[string]int) (letGo chan struct{}) {
	letGo = make(chan struct{})
	b.cfg.Classes = []string{"mail", "tick"}
	b.pool.Limit(b.cfg.Classes, limits, -1)
	b.launcher.run = func(r run.Run, at time.Time, _ func()) {
		b.run(r, at)
		if r.Class == "mail" {
			<-letGo
		}
	}
	return letGo
}

// ran are the runs of a class that have begun.
func (b *bench) ran(class string) (runs []claimed) {
	for _, c := range b.begun() {
		if c.Class == class {
			runs = append(runs, c)
		}
	}
	return runs
}

func (b *bench) putMail(n int, at time.Time) {
	for id := range int64(n) {
		e := every(1000+id, time.Hour, at)
		e.Class = "mail"
		b.put(e)
	}
}

func TestAClassAtItsLimitHoldsUpNoOther(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		letGo := b.twoClasses(map[string]int{"mail": 2})
		b.putMail(6, now.Add(time.Second))
		b.put(every(1, 100*time.Millisecond, now.Add(1500*time.Millisecond)))
		b.start()
		rest(11500*time.Millisecond + time.Microsecond)
		require.Len(b.t, b.ran("mail"), 2)
		require.Len(b.t, b.ran("tick"), 101, "what is due behind it continues")
		require.LessOrEqual(b.t, b.calls("Claim"), 110, "what has no room is not tried")
		letGo <- struct{}{}
		rest(time.Microsecond)
		require.Len(b.t, b.ran("mail"), 3, "as soon as there is room")
		rest(time.Minute)
		letGo <- struct{}{}
		letGo <- struct{}{}
		rest(time.Second)
		require.Len(b.t, b.ran("mail"), 3, "the others have become misfires")
		b.stop()
		b.allFree(10)
	})
}

func TestPendingRunsKeepToTheLimitOfTheirClass(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		letGo := b.twoClasses(map[string]int{"mail": 2})
		for id := range int64(6) {
			b.store.pending = append(b.store.pending, run.PendingRun{ID: id + 1, Class: "mail", AvailableAt: now})
		}
		b.store.pending = append(b.store.pending, run.PendingRun{ID: 9, Class: "tick", AvailableAt: now})
		b.start()
		rest(5 * time.Second)
		require.Len(b.t, b.ran("mail"), 2)
		require.Len(b.t, b.ran("tick"), 1)
		for range 6 {
			letGo <- struct{}{}
			rest(time.Second)
		}
		require.Len(b.t, b.ran("mail"), 6)
		b.stop()
		b.allFree(10)
	})
}

// A job's class may be changed between the poll and the claim: the slot is then the other's.
func TestASlotIsThatOfTheClassThatWasWon(t *testing.T) {
	benched(t, 10, func(b *bench, _ time.Time) {
		b.twoClasses(nil)
		require.Equal(b.t, 3, b.pool.ReserveFor("tick", 3))
		b.pool.Limit(b.cfg.Classes, map[string]int{"mail": 5, "tick": 5}, -1)
		b.keepSlots(map[string]int{"tick": 3}, []run.Run{{Class: "mail"}, {Class: "tick"}})
		require.Equal(b.t, []int{4, 4, 8}, []int{b.pool.Room("mail"), b.pool.Room("tick"), b.pool.Free()})
	})
}

// few plans n executes whose fires are a tenth of a second apart, from the next second on.
func (b *bench) few(n int, now time.Time) {
	for i := range int64(n) {
		b.put(every(i+1, time.Hour, now.Add(time.Second+time.Duration(i)*100*time.Millisecond)))
	}
}

func TestFewFiresAreClaimedInCompany(t *testing.T) {
	benched(t, 100, func(b *bench, now time.Time) {
		b.few(20, now)
		b.start()
		rest(4 * time.Second)
		require.Len(b.t, b.begun(), 20)
		for _, s := range b.begun() {
			require.Equal(b.t, s.FireTime, s.at)
		}
		for _, c := range b.won() {
			require.LessOrEqual(b.t, c.FireTime.Sub(c.at), companyIn+2*firstClaim)
		}
		require.Equal(b.t, 2, b.calls("Claim"))
		b.stop()
		b.allFree(100)
	})
}

func TestACompanyIsNoLargerThanItNeeds(t *testing.T) {
	benched(t, 100, func(b *bench, now time.Time) {
		for i := range int64(100) {
			b.put(every(i+1, time.Hour, now.Add(time.Second+time.Duration(i)*10*time.Millisecond)))
		}
		b.start()
		rest(time.Second)
		require.Len(b.t, b.won(), companyOf)
	})
}

func TestManyNodesHaveLargerCompanies(t *testing.T) {
	benched(t, 100, func(b *bench, now time.Time) {
		b.cluster.nodes, b.cluster.joined = 2*fewNodes, true
		for i := range int64(100) {
			b.put(every(i+1, time.Hour, now.Add(time.Second+time.Duration(i)*10*time.Millisecond)))
		}
		b.start()
		rest(time.Second)
		require.Len(b.t, b.won(), 2*companyOf)
	})
}

func TestWhatIsClaimedInCompanyLeavesSlotsToOthers(t *testing.T) {
	benched(t, 6, func(b *bench, now time.Time) {
		b.few(9, now)
		b.start()
		rest(time.Second)
		require.Len(b.t, b.begun(), 1)
		require.Len(b.t, b.won(), 3, "of the five that are free, two may be needed for what is claimed ahead")
		require.Equal(b.t, 6, b.pool.Free())
	})
}

func TestAClassWithLittleRoomHasNoCompany(t *testing.T) {
	benched(t, 100, func(b *bench, now time.Time) {
		b.twoClasses(map[string]int{"tick": 3})
		b.few(9, now)
		b.start()
		rest(time.Second)
		require.Len(b.t, b.won(), 2)
	})
}

// Those of another node may be claimed late, never early.
func TestTheFiresOfOthersAreNoCompany(t *testing.T) {
	benched(t, 100, func(b *bench, now time.Time) {
		mine, others := every(1, time.Hour, now), every(2, time.Hour, now.Add(100*time.Millisecond))
		b.put(mine, others)
		b.plan.add([]*entry{{execute: mine, at: mine.Next}, {execute: others, at: others.Next.Add(grace)}}, b.plan.mark())
		_, err := b.dispatch(b.t.Context())
		require.NoError(b.t, err)
		require.Len(b.t, b.won(), 1)
		early, _ := b.plan.earliest(b.hasRoom)
		require.Equal(b.t, others.Next.Add(grace), early, "it is still planned")
	})
}

func TestNothingHeldStartsOnceSwitchedOff(t *testing.T) {
	benched(t, 100, func(b *bench, now time.Time) {
		b.few(9, now)
		b.start()
		rest(1350 * time.Millisecond)
		require.Len(b.t, b.won(), 9)
		require.Len(b.t, b.begun(), 4)
		b.cluster.set(func() { b.cluster.switchedOff = true }) // no sweep has seen it
		rest(60 * time.Millisecond)
		require.Len(b.t, b.begun(), 4)
		require.ElementsMatch(b.t, []int64{5, 6, 7, 8, 9}, b.store.handed, "for others to take, at once")
		rest(10 * time.Second)
		require.Len(b.t, b.begun(), 4)
		b.allFree(100)
	})
}

func TestWhatIsHeldIsHandedBackWhenASweepSeesTheSwitch(t *testing.T) {
	benched(t, 100, func(b *bench, now time.Time) {
		b.put(every(1, time.Hour, now), every(2, time.Hour, now.Add(900*time.Millisecond)))
		b.start()
		rest(100 * time.Millisecond)
		require.Len(b.t, b.won(), 2)
		b.cluster.set(func() { b.cluster.off = true })
		rest(sweepEvery)
		require.Equal(b.t, []int64{2}, b.store.handed)
	})
}

func TestWhatIsHeldWhenANodeStopsIsHandedBack(t *testing.T) {
	benched(t, 100, func(b *bench, now time.Time) {
		b.few(9, now)
		b.start()
		rest(1350 * time.Millisecond)
		b.stop()
		require.Len(b.t, b.begun(), 4)
		require.Len(b.t, b.store.handed, 5)
		b.allFree(100)
	})
}
