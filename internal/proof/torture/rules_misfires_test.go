package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// missed is the row of a decision at second 60 about the fires from one second to another.
func missed(first, last float64) ruleRun {
	r := run1(10, "SKIPPED", first, 60.2, 60.2)
	r.LastFire, r.Count, r.Message = valid(sec(last)), int64(last-first)+1, "misfire: so many missed"
	return r
}

func misfired(policy string, limit int, runs ...ruleRun) *history {
	h := story(ruleJob{}, runs)
	e := h.executes[1]
	e.Misfire, e.CatchUp = policy, limit
	h.executes[1] = e
	return h
}

func TestTheLatestOfMissedFiresRuns(t *testing.T) {
	require.Empty(t, judged(misfired("FIRE_ONCE", 0, missed(10, 59), run1(11, "SUCCEEDED", 60, 60.3, 61))))
	require.Equal(t, []string{"misfire: too few"}, judged(misfired("FIRE_ONCE", 0, missed(11, 60), run1(11, "SUCCEEDED", 10, 60.3, 61))), "the oldest")
	require.Equal(t, []string{"misfire: too many"}, judged(misfired("FIRE_ONCE", 0, missed(10, 56), run1(11, "SUCCEEDED", 57, 60.3, 61), run1(12, "SUCCEEDED", 58, 60.4, 61))))
}

func TestCatchUpRunsAsManyAsItsLimit(t *testing.T) {
	lates := []ruleRun{run1(11, "SUCCEEDED", 58, 60.3, 61), run1(12, "SUCCEEDED", 59, 60.3, 61), run1(13, "SUCCEEDED", 60, 60.3, 61)}
	require.Empty(t, judged(misfired("CATCH_UP", 3, append(lates, missed(10, 57))...)))
	require.Equal(t, []string{"misfire: too few"}, judged(misfired("CATCH_UP", 4, append(lates, missed(10, 57))...)), "one short")
	require.Equal(t, []string{"misfire: too many"}, judged(misfired("CATCH_UP", 1, append(lates, run1(14, "SUCCEEDED", 57, 60.3, 61), missed(10, 56))...)))
}

func TestSkipRunsNone(t *testing.T) {
	require.Empty(t, judged(misfired("SKIP", 0, missed(10, 60), run1(11, "SUCCEEDED", 61, 61, 62))))
	require.Equal(t, []string{"misfire: late"}, judged(misfired("SKIP", 0, run1(11, "SUCCEEDED", 40, 60.3, 62))))
}

func TestMissedFiresRunInOrder(t *testing.T) {
	early, late := run1(11, "SUCCEEDED", 58, 63, 64), run1(12, "SUCCEEDED", 59, 60.3, 61)
	require.Equal(t, []string{"misfire: order"}, judged(misfired("CATCH_UP", 2, missed(10, 57), early, late)))
}
