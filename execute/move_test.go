package execute

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFiresAreInOrderAndLimited(t *testing.T) {
	e := parsed(t, everySecond(5), 1, at(1))
	require.Equal(t, []time.Time{at(1)}, e.Fires(at(1), 10), "until is included")
	require.Empty(t, e.Fires(at(1).Add(-1), 10))
	require.Empty(t, e.Fires(at(100), 0))
	require.Len(t, e.Fires(at(100), 2), 2)
	fires := e.Fires(at(100), 100)
	require.Len(t, fires, 4, "one of five is behind")
	for i, fire := range fires {
		require.Equal(t, at(1+i).UnixMilli(), fire.UnixMilli())
	}
}

func TestAClaimMovesPastItsFiresAndCompletesWithTheLast(t *testing.T) {
	e := parsed(t, everySecond(3), 0, noon)
	m := e.Claim(e.Fires(at(100), 2))
	require.Equal(t, Executing, m.State)
	require.Equal(t, at(1).UnixMilli(), m.Prev.UnixMilli())
	require.Equal(t, at(2).UnixMilli(), m.Next.UnixMilli())
	require.Equal(t, int64(2), m.Fires)
	require.Len(t, m.Runs, 2)
	for i, r := range m.Runs {
		require.Equal(t, Running, r.State)
		require.Equal(t, at(i).UnixMilli(), r.FireTime.UnixMilli())
	}

	rest := m.moved()
	require.Equal(t, int64(2), rest.Fired)
	m = rest.Claim(rest.Fires(at(100), 100))
	require.Equal(t, Complete, m.State)
	require.Zero(t, m.Next)
	require.Len(t, m.Runs, 1)
}

func TestRepairByPolicy(t *testing.T) {
	for _, c := range []struct {
		policy        Misfire
		limit, missed int
		runs          int
	}{
		{FireOnce, 100, 1, 1},
		{FireOnce, 100, 7, 1},
		{Skip, 100, 7, 0},
		{CatchUp, 100, 7, 7},
		{CatchUp, 3, 7, 3},
		{CatchUp, 7, 7, 7},
		{CatchUp, 0, 7, 0},
		{CatchUp, -4, 7, 0},
		{CatchUp, 5000, 1500, MaxCatchUp},
		{"", 100, 7, 1}, // a version 1.3 row
	} {
		e := parsed(t, everySecond(Forever), 10, at(10))
		e.Misfire, e.CatchUpLimit = c.policy, c.limit
		m := e.Repair(at(9 + c.missed).Add(999 * time.Millisecond))
		require.Equal(t, int64(c.missed), m.Fires, c)
		require.Equal(t, at(10+c.missed).UnixMilli(), m.Next.UnixMilli(), c)
		require.Equal(t, at(9+c.missed).UnixMilli(), m.Prev.UnixMilli(), c)

		runs := m.Runs
		if skipped := c.missed - c.runs; skipped > 0 {
			first := runs[0]
			require.Equal(t, Skipped, first.State, c)
			require.Equal(t, int64(skipped), first.Count, c)
			require.Equal(t, at(10).UnixMilli(), first.FireTime.UnixMilli(), c)
			require.Equal(t, at(9+skipped).UnixMilli(), first.LastFire.UnixMilli(), c)
			runs = runs[1:]
		}
		require.Len(t, runs, c.runs, c)
		for i, r := range runs {
			require.Equal(t, Pending, r.State, c)
			require.Equal(t, at(10+c.missed-c.runs+i).UnixMilli(), r.FireTime.UnixMilli(), "the latest run")
		}
	}
}

func TestRepairCompletesWithTheLastFire(t *testing.T) {
	m := parsed(t, everySecond(5), 2, at(2)).Repair(at(1000))
	require.Equal(t, Complete, m.State)
	require.Equal(t, int64(3), m.Fires)
	require.Len(t, m.Runs, 2)
}

func TestRepairOfNothingMissedOnlyMovesOn(t *testing.T) {
	m := parsed(t, everySecond(Forever), 0, at(100)).Repair(at(50))
	require.Equal(t, at(100), m.Next)
	require.Empty(t, m.Runs)
	require.Zero(t, m.Fires)
}

func TestThreeMillionMissedFires(t *testing.T) {
	for _, spec := range []Spec{everySecond(Forever), {Kind: Cron, Cron: "* * * * * ?", Zone: "Europe/Berlin", Repeat: Forever, Start: noon}} {
		began := time.Now()
		m := parsed(t, spec, 0, noon).Repair(at(maxMissed - 1))
		require.Less(t, time.Since(began), 20*time.Second, "with the race detector, on a busy machine")
		require.Equal(t, int64(maxMissed), m.Fires)
		require.Equal(t, at(maxMissed).UnixMilli(), m.Next.UnixMilli())
		require.Len(t, m.Runs, 2)
	}
}

// With more missed fires than one move deals with, the next goes on where it stopped, and decides what runs.
func TestMoreMissedFiresThanOneMoveDealsWith(t *testing.T) {
	e := parsed(t, everySecond(Forever), 0, noon)
	e.Misfire, e.CatchUpLimit = CatchUp, 3
	m := e.Repair(at(maxMissed + 1))
	require.Len(t, m.Runs, 1)
	require.Equal(t, Skipped, m.Runs[0].State)
	require.Equal(t, int64(maxMissed-3), m.Runs[0].Count)
	require.Equal(t, m.Fires, m.Runs[0].Count)

	m = m.moved().Repair(at(maxMissed + 1))
	require.Equal(t, int64(5), m.Fires)
	require.Len(t, m.Runs, 4)
	require.Equal(t, int64(2), m.Runs[0].Count)
	require.Equal(t, at(maxMissed-1).UnixMilli(), m.Runs[1].FireTime.UnixMilli())
	require.Equal(t, at(maxMissed+1).UnixMilli(), m.Runs[3].FireTime.UnixMilli())
}

func TestResumePassesOverWithoutATrace(t *testing.T) {
	e := parsed(t, everySecond(5), 2, at(2))
	m := e.Resume(at(1000))
	require.Equal(t, at(1000).UnixMilli(), m.Next.UnixMilli(), "the fire at that very time counts")
	require.Empty(t, m.Runs)
	require.Zero(t, m.Fires, "what was passed over is still owed by the count")

	require.Equal(t, at(2), e.Resume(at(1)).Next, "a fire ahead stays")
	ended := everySecond(Forever)
	ended.End = at(10)
	require.Equal(t, Complete, parsed(t, ended, 0, at(2)).Resume(at(11)).State)
	paused := parsed(t, everySecond(5), 2, at(2))
	paused.State = Paused
	require.Equal(t, Paused, paused.Resume(at(1000)).State)
}

func TestBegin(t *testing.T) {
	require.Equal(t, noon, parsed(t, everySecond(5), 0, time.Time{}).Begin(at(50)).Next, "a new rate owes its fires")
	old := parsed(t, everySecond(Forever), 3, time.Time{})
	old.Prev = at(2)
	require.Equal(t, at(50).UnixMilli(), old.Begin(at(50)).Next.UnixMilli(), "cleared to be computed anew")
	require.Equal(t, Complete, parsed(t, everySecond(0), 0, time.Time{}).Begin(noon).State)
	require.Equal(t, Complete, parsed(t, everySecond(3), 3, time.Time{}).Begin(noon).State)
}

func TestBreakAndHeal(t *testing.T) {
	e := parsed(t, everySecond(Forever), 3, at(3))
	e.Problem = errors.New("execute 1: CRON: no")
	m := e.Break()
	require.Equal(t, Error, m.State)
	require.Equal(t, "execute 1: CRON: no", m.Reason)
	require.Equal(t, at(3), m.Next)

	e.State, e.Problem = Error, nil
	m = e.Heal(at(50))
	require.Equal(t, Executing, m.State)
	require.Empty(t, m.Reason)
	require.Equal(t, at(50).UnixMilli(), m.Next.UnixMilli())
	done := parsed(t, everySecond(3), 3, time.Time{})
	done.State = Error
	require.Equal(t, Complete, done.Heal(at(50)).State)
}

func TestANextFireTimeThatCannotBeIsComputedAnew(t *testing.T) {
	var s Schedules
	r := row{ID: 1, State: Executing, Kind: Simple, Every: num(1000), Repeat: num(5), Start: noon.UnixMilli(), End: num(at(100).UnixMilli())}
	for next, kept := range map[time.Time]bool{
		noon: true, at(100): true, at(7).Add(3 * time.Millisecond): true, // off the grid: whoever wrote it decides
		noon.Add(-time.Millisecond): false, at(100).Add(time.Millisecond): false,
	} {
		r.Next = num(next.UnixMilli())
		require.Equal(t, kept, !r.execute(&s).Next.IsZero(), next)
	}
	r.Next, r.Fired = num(noon.UnixMilli()), num(5)
	require.Zero(t, r.execute(&s).Next, "all its fires are behind")
	r.Fired = num(-1)
	require.Zero(t, r.execute(&s).Fired, "negative counts as 0")
	r.Repeat = sql.NullInt64{}
	require.Equal(t, Forever, r.spec().Repeat)
}

func num(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: true} }
