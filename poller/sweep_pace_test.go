package poller

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

// sweeps are the times of all sweeps of a node.
func (b *bench) sweeps() (at []time.Time) {
	b.store.set(func() {
		for _, look := range b.store.looks {
			at = append(at, look.Until.Add(grace))
		}
	})
	return at
}

// However many nodes there are, the cluster looks about as often, and no node looks more rarely than a switch may wait.
func TestTheNodesTakeTurnsAtSweeping(t *testing.T) {
	for nodes, every := range map[int]time.Duration{
		1: sweepEvery, 4: sweepEvery, 8: 2 * sweepEvery, 12: 3 * sweepEvery, 30: slowestSweep, 100: slowestSweep,
	} {
		var phases []time.Duration
		for _, position := range []int{0, 1, nodes - 1} {
			if position >= nodes {
				continue
			}
			benched(t, 10, func(b *bench, _ time.Time) {
				b.cluster.nodes, b.cluster.position = nodes, position
				b.start()
				rest(10 * time.Second)
				at := b.sweeps()
				require.NotEmpty(b.t, at)
				for i := 1; i < len(at); i++ {
					require.Equal(b.t, every, at[i].Sub(at[i-1]), "%d nodes", nodes)
				}
				phases = append(phases, time.Duration(at[0].UnixNano())%every)
			})
		}
		if nodes > 2 {
			require.Equal(t, every/time.Duration(nodes), phases[1]-phases[0], "%d nodes: one after the other", nodes)
			require.Equal(t, every*time.Duration(nodes-1)/time.Duration(nodes), phases[2]-phases[0], "%d nodes: spread", nodes)
		}
	}
}

// A sweep that is made a little before its phase, by a clock that has been measured again, is not made twice.
func TestASweepIsNotMadeTwice(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		for _, c := range []struct{ since, wait time.Duration }{
			{0, sweepEvery},
			{100 * time.Millisecond, sweepEvery - 100*time.Millisecond},
			{sweepEvery - sweepEvery/8, sweepEvery / 8},
			{sweepEvery - time.Millisecond, sweepEvery + time.Millisecond},
		} {
			b.cluster.offset = c.since - time.Duration(time.Now().UnixNano())%sweepEvery
			require.Equal(b.t, c.wait, b.untilSweep(), "%s after the phase", c.since)
		}
	})
}

// A node that has found what an owner left sweeps often at once.
func TestAnUneasyNodeSweepsOften(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.cluster.nodes = 30
		b.start()
		rest(2 * slowestSweep)
		b.put(every(1, time.Hour, time.Now().UTC().Add(-time.Second)))
		rest(slowestSweep)
		require.Len(b.t, b.won(), 1)
		before := len(b.sweeps())
		rest(10 * time.Second)
		require.Equal(b.t, 20, len(b.sweeps())-before)
		rest(uneasyFor)
		before = len(b.sweeps())
		rest(9 * time.Second)
		require.Equal(b.t, 6, len(b.sweeps())-before, "calm again")
	})
}

// What another node may claim before this one is left to the node that looks next.
func TestWhatMayBeClaimedLaterIsLeftToTheNextLook(t *testing.T) {
	for late, claimed := range map[time.Duration]int{2*grace - 100*time.Millisecond: 0, 2*grace - 40*time.Millisecond: 1, 2 * grace: 1} {
		benched(t, 10, func(b *bench, now time.Time) {
			b.cluster.nodes, b.cluster.rank = 30, 7
			b.put(every(1, time.Hour, now.Add(-late)))
			b.swept()
			require.Len(b.t, b.plan.entries, claimed, "%s late; the next node looks %s later", late, slowestSweep/30)
		})
	}
}

// Where a node's own fires are overdue like those of all others, it leaves the others theirs.
func TestWhoIsBehindLikeAllOthersClaimsItsOwn(t *testing.T) {
	for _, c := range []struct {
		nodes, own, others, claimed int
	}{
		{10, 1, 9, 1},
		{10, 1, 19, 1},
		{10, 1, 20, 21}, // one of its own that cannot be claimed, say, and what a node left that died
		{3, 0, 12, 12},
		{1, 5, 0, 5},
	} {
		benched(t, 100, func(b *bench, now time.Time) {
			b.cluster.nodes = c.nodes
			b.cluster.ranks = func(id int64) int { return min(1, int(id)/(c.own+1)) }
			for i := range c.own + c.others {
				b.put(every(int64(i+1), time.Hour, now.Add(-time.Second)))
			}
			b.swept()
			require.Len(b.t, b.plan.entries, c.claimed, "%+v", c)
		})
	}
}

// A schedule that is new to the cluster is on time whichever node sees it first: its owner may look after its first fire.
func TestTheFirstToSeeAScheduleClaimsItInTime(t *testing.T) {
	for _, c := range []struct {
		what     string
		changed  time.Duration // before the sweep
		due      time.Duration // after it
		headLeft time.Duration
	}{
		{"just added, and due before its owner looks", 20 * time.Millisecond, 800 * time.Millisecond, 0},
		{"another node has seen it", 300 * time.Millisecond, 800 * time.Millisecond, 2 * grace},
		{"its owner sees it in time", 20 * time.Millisecond, 3 * time.Second, 2 * grace},
	} {
		benched(t, 10, func(b *bench, now time.Time) {
			b.cluster.nodes, b.cluster.rank = 30, 7
			e := every(1, time.Hour, now.Add(c.due))
			e.ChangedAt = now.Add(-c.changed)
			b.put(e)
			b.store.glance.Changed = sql.NullInt64{Int64: e.ChangedAt.UnixMilli(), Valid: true}
			b.swept()
			require.Len(b.t, b.plan.entries, 1)
			require.Equal(b.t, e.Next.Add(c.headLeft), b.plan.entries[1].at, c.what)
		})
	}
}

// A schedule without a next fire is on time at the node that gave it one.
func TestAScheduleIsOnTimeWhereItBegan(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.cluster.nodes, b.cluster.rank = 30, 7
		e := every(1, time.Second, now)
		e.Next = time.Time{}
		b.put(e)
		b.store.fresh = []int64{1}
		b.swept()
		require.Len(b.t, b.plan.entries, 1)
		require.Equal(b.t, b.store.rows[1].Next, b.plan.entries[1].at)
	})
}

// A few runs that are found at rest are claimed by the node whose sweep found them: their owner may sweep much later.
func TestTheFirstToSeeARunClaimsIt(t *testing.T) {
	for nodes, claimed := range map[int]int{3: 0, 30: 1} {
		benched(t, 10, func(b *bench, now time.Time) {
			b.cluster.nodes, b.cluster.rank = nodes, 7
			b.start()
			rest(slowestSweep - 10*time.Millisecond)
			b.store.set(func() {
				b.store.pending = []run.PendingRun{{ID: 1, Class: "tick", AvailableAt: time.Now()}}
			})
			rest(20 * time.Millisecond)
			require.Len(b.t, b.won(), claimed, "%d nodes", nodes)
		})
	}
}

// One of its own that stays where it is, since another transaction holds its row, keeps a node from nothing.
func TestARowThatIsLockedHidesNoOthers(t *testing.T) {
	benched(t, 10, func(b *bench, now time.Time) {
		b.cluster.set(func() {
			b.cluster.nodes = 2
			b.cluster.ranks = func(id int64) int { return int(id - 1) }
		})
		b.store.set(func() { b.store.lost = map[int64]bool{1: true} })
		b.put(every(1, time.Hour, now.Add(time.Second)), every(2, time.Hour, now.Add(time.Second)))
		b.start()
		rest(5 * time.Second)
		require.Len(b.t, b.begun(), 1)
	})
}
