package poller

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

func TestTheBeatIsSteady(t *testing.T) {
	for _, c := range []struct{ now, next int }{
		{10, 15},
		{11, 15},
		{14, 15},
		{15, 20},
		{32, 35},  // polls were missed
		{9, 10},   // a retry before the beat does not push it back
		{-20, 10}, // many retries neither
	} {
		require.Equal(t, sec(c.next), nextBeat(sec(10), sec(c.now), interval), c)
	}
}

func TestPollsKeepTheBeatThroughAnOutage(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.start()
		rest(7 * time.Second)
		require.Equal(b.t, 2, b.calls("Due"))
		b.store.set(func() { b.store.err = errAway })
		rest(10 * time.Minute)
		require.Equal(b.t, 3, strings.Count(b.logged(), "failed; trying again")+1, "each loop logs it once; the dispatcher has nothing to do")
		b.store.set(func() { b.store.err = nil })
		fire := time.Now().UTC().Add(4 * time.Second)
		b.put(every(1, 500*time.Millisecond, fire))
		polls := b.calls("Due")
		rest(2 * time.Second)
		require.Greater(b.t, b.calls("Due"), polls, "soon")
		require.Equal(b.t, 2, strings.Count(b.logged(), "works again"))
		rest(18 * time.Second)
		for _, s := range b.begun() {
			require.Equal(b.t, s.FireTime, s.at, "on time again")
		}
		require.Greater(b.t, len(b.begun()), 30)
	})
}

func TestFailingClaimsPauseThoughSlotsComeFree(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		for id := range int64(150) { // no crowd, and more than one claim has slots for
			b.put(every(id+1, time.Hour, now.Add(4*time.Second)))
		}
		b.start()
		rest(3 * time.Second)
		b.store.set(func() { b.store.err = errAway })
		rest(1040 * time.Millisecond) // the claim begins a little before its time, and the first pause is 50 ms at least
		require.Equal(b.t, 1, b.calls("Claim"), "the slots that it gives back do not end the pause")
		b.store.set(func() { b.store.err = nil })
	})
}

func TestAClaimThatFailsIsTriedAgain(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.put(every(1, time.Hour, now.Add(2*time.Second)))
		b.start()
		rest(time.Second)
		b.store.set(func() { b.store.err = errAway })
		rest(30 * time.Second)
		require.Empty(b.t, b.begun())
		require.Equal(b.t, 1, strings.Count(b.logged(), `"doing":"claim","error"`), b.logged())
		b.store.set(func() { b.store.err = nil })
		rest(5 * time.Second)
		require.Len(b.t, b.begun(), 1)
		b.allFree(10)
	})
}

func TestWakePollsAtOnce(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.start()
		rest(time.Second)
		b.put(every(1, time.Hour, now.Add(1500*time.Millisecond)))
		b.Wake()
		rest(time.Second)
		require.Len(b.t, b.begun(), 1)
		require.Equal(b.t, 2, b.calls("Due"))
		rest(3 * time.Second)
		require.Equal(b.t, 3, b.calls("Due"), "the beat is as before")
	})
}

func TestOnlyTheOwnerAndItsClassesArePlanned(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		var unhandled []string
		b.cfg.Unhandled = func(class string) { unhandled = append(unhandled, class) }
		other := every(2, time.Second, now)
		other.Class = "other"
		b.put(every(1, time.Second, now), other)
		b.planAll()
		require.Equal(b.t, []string{"other"}, unhandled)
		require.Equal(b.t, []int64{1}, ids(b.plan.takeEarly(now, 10)))
		b.plan.clear()
		b.plan.entries = map[int64]*entry{}
		b.cluster.rank = 1
		b.planAll()
		_, ok := b.plan.earliestOfAll()
		require.False(b.t, ok)
	})
}

func TestStoppingHandsBackWhatHasNotStarted(t *testing.T) {
	benched(t, 600, func(b *bench, now time.Time) {
		b.hold = make(chan struct{})
		for id := range int64(250) {
			b.put(every(id+1, time.Hour, now.Add(2*time.Second)))
		}
		b.put(every(500, time.Hour, now.Add(time.Second)))
		b.start()
		rest(1900 * time.Millisecond)
		require.Len(b.t, b.won(), 251, "a crowd is claimed early")
		require.Len(b.t, b.begun(), 1)
		b.stop()
		require.Len(b.t, b.store.handed, 250)
		require.NotContains(b.t, b.store.handed, b.begun()[0].ID)
		require.Equal(b.t, 599, b.pool.Free(), "running jobs continue")
		rest(time.Hour)
		require.Len(b.t, b.begun(), 1)
		close(b.hold)
		synctest.Wait()
		b.allFree(600)
	})
}

func TestAClaimUnderWayIsFinishedWhenStopping(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.store.slow = 500 * time.Millisecond
		b.put(every(1, time.Hour, now.Add(time.Second)))
		b.start()
		rest(1100 * time.Millisecond)
		require.Equal(b.t, now.Add(1100*time.Millisecond), time.Now().UTC())
		b.stop()
		require.Len(b.t, b.won(), 1)
		synctest.Wait()
		require.Len(b.t, b.begun(), 1, "late, so started rather than handed back")
		b.allFree(10)
	})
}

func TestStoppingDoesNotWaitForADatabaseThatHangs(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.store.hang = true
		b.store.pending = []run.PendingRun{{ID: 5, Class: "tick", AvailableAt: now}}
		b.start()
		rest(time.Second)
		began := time.Now()
		b.stop()
		require.LessOrEqual(b.t, time.Since(began), storeTimeout)
		b.allFree(10)
	})
}
