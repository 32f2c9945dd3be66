package execute

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

func TestMissedFiresByPolicy(t *testing.T) {
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
		{CatchUp, 5000, 1500, maxCatchUp},
		{"", 100, 7, 1}, // a version 1.3 row
	} {
		e := parsed(t, everySecond(Forever), 10, at(10))
		e.Misfire, e.CatchUpLimit = c.policy, c.limit
		m := e.MisfireMove(at(9 + c.missed).Add(999 * time.Millisecond))
		require.Equal(t, int64(c.missed), m.Fires, c)
		require.Equal(t, at(10+c.missed).UnixMilli(), m.Next.UnixMilli(), c)
		require.Equal(t, at(9+c.missed).UnixMilli(), m.Prev.UnixMilli(), c)

		runs := m.Runs
		if skipped := c.missed - c.runs; skipped > 0 {
			first := runs[0]
			require.Equal(t, run.Skipped, first.State, c)
			require.Equal(t, int64(skipped), first.Count, c)
			require.Equal(t, at(10).UnixMilli(), first.FireTime.UnixMilli(), c)
			require.Equal(t, at(9+skipped).UnixMilli(), first.LastFire.UnixMilli(), c)
			runs = runs[1:]
		}
		require.Len(t, runs, c.runs, c)
		for i, r := range runs {
			require.Equal(t, run.Pending, r.State, c)
			require.Equal(t, at(10+c.missed-c.runs+i).UnixMilli(), r.FireTime.UnixMilli(), "the latest run")
		}
	}
}

func TestAMisfireMoveCompletesWithTheLastFire(t *testing.T) {
	m := parsed(t, everySecond(5), 2, at(2)).MisfireMove(at(1000))
	require.Equal(t, Complete, m.State)
	require.Equal(t, int64(3), m.Fires)
	require.Len(t, m.Runs, 2)
}

func TestWithNothingMissedAMisfireMoveOnlyMovesOn(t *testing.T) {
	m := parsed(t, everySecond(Forever), 0, at(100)).MisfireMove(at(50))
	require.Equal(t, at(100), m.Next)
	require.Empty(t, m.Runs)
	require.Zero(t, m.Fires)
}

// Whatever its START_TIME, a fixed rate costs nothing: here it fires every millisecond since 1970.
func TestTheMissedFiresOfARateAreNotWalkedThrough(t *testing.T) {
	start := time.UnixMilli(1)
	for policy, runs := range map[Misfire]int{FireOnce: 1, Skip: 0, CatchUp: 100} {
		e := parsed(t, Spec{Kind: Simple, Every: time.Millisecond, Repeat: Forever, Start: start}, 0, start)
		e.Misfire = policy
		began := time.Now()
		m := e.MisfireMove(noon)
		require.Less(t, time.Since(began), time.Second)
		require.Zero(t, m.Walked)
		require.Equal(t, noon.UnixMilli(), m.Fires)
		require.Equal(t, noon.UnixMilli()+1, m.Next.UnixMilli())
		require.Len(t, m.Runs, 1+runs)
		require.Equal(t, int64(math.MaxInt32), m.Runs[0].Count, "as much as FIRE_COUNT can say")
		require.Contains(t, m.Runs[0].Message, fmt.Sprintf("%d missed", noon.UnixMilli()))
	}
}

// What is computed is what would be walked through.
func TestMissedByArithmeticAndByWalking(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		spec := Spec{
			Kind: Simple, Every: time.Duration(1+rnd.IntN(50)) * time.Millisecond, Start: time.UnixMilli(1 + rnd.Int64N(100)),
			Repeat: rnd.IntN(40) - 5,
		}
		if spec.Repeat <= 0 {
			spec.Repeat = Forever
		}
		if rnd.IntN(3) == 0 {
			spec.End = spec.Start.Add(time.Duration(rnd.IntN(500)) * time.Millisecond)
		}
		if spec.Repeat == 1 && rnd.IntN(2) == 0 {
			spec.Every = 0
		}
		e := parsed(t, spec, rnd.Int64N(10), time.Time{})
		e.Next = spec.Start.Add(time.Duration(rnd.IntN(200)) * time.Millisecond) // on the grid or off it
		if !e.Schedule.allows(e.Next, e.Fired) {
			continue
		}
		e.CatchUpLimit = rnd.IntN(12)
		now := spec.Start.Add(time.Duration(rnd.IntN(800_000)) * time.Microsecond)
		runs := rnd.IntN(12)
		walked, computed := e.walkMissed(now, runs), e.missed(now, runs)
		walked.walked = 0
		if len(walked.late) == 0 {
			walked.late = nil
		}
		require.Equal(t, millisOf(walked), millisOf(computed), "%+v, next %d, fired %d, now %s", spec, e.Next.UnixMilli(), e.Fired, now)
	}
}

// millisOf are missed fires in a form that compares.
func millisOf(m missedFires) []int64 {
	all := []int64{m.count, m.last.UnixMilli(), m.lastEarly.UnixMilli()}
	for _, fire := range m.late {
		all = append(all, fire.UnixMilli())
	}
	return all
}

func everySecondByCron() Spec {
	return Spec{Kind: Cron, Cron: "* * * * * ?", Zone: "Europe/Berlin", Repeat: Forever, Start: noon}
}

// With more missed fires than one move deals with, the next continues where it stopped. Which of them run, the last
// move decides: those that would run if all had been dealt with at once.
func TestMoreMissedFiresThanOneMoveDealsWith(t *testing.T) {
	for policy, runs := range map[Misfire]int{FireOnce: 1, Skip: 0, CatchUp: 3} {
		for _, missed := range []int{maxWalked - 1, maxWalked, maxWalked + 1, maxWalked + 2, maxWalked + 5, 3*maxWalked + 7} {
			e := parsed(t, everySecondByCron(), 0, noon)
			e.Misfire, e.CatchUpLimit = policy, 3
			now := at(missed - 1)
			var pending []time.Time
			var fires, skipped int64
			for more := true; more; {
				m := e.MisfireMove(now)
				require.LessOrEqual(t, m.Walked, maxWalked)
				fires += m.Fires
				for _, r := range m.Runs {
					if r.State == run.Skipped {
						require.Equal(t, at(int(skipped)).UnixMilli(), r.FireTime.UnixMilli())
						skipped += r.Count
						require.Equal(t, at(int(skipped)-1).UnixMilli(), r.LastFire.UnixMilli())
					} else {
						require.True(t, m.Next.After(now), "only the last move lets fires run")
						pending = append(pending, r.FireTime)
					}
				}
				more = !m.Next.After(now)
				e = m.moved()
			}
			require.Equal(t, int64(missed), fires)
			require.Equal(t, int64(missed-runs), skipped)
			require.Len(t, pending, runs)
			for i, fire := range pending {
				require.Equal(t, at(missed-runs+i).UnixMilli(), fire.UnixMilli(), "the latest")
			}
			require.Equal(t, at(missed).UnixMilli(), e.Next.UnixMilli())
		}
	}
}
