package run

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARunThatComesAgainFromAnOlderStateIsNotStarted(t *testing.T) {
	one := Run{ID: 7, JobID: 1, ExecuteID: 3, FireTime: at(0), Attempt: 1, Fence: 5}
	next, other := one, one
	next.ID, next.FireTime, next.Fence = 8, at(1), 6
	other.ID, other.ExecuteID, other.Fence = 9, 4, 1
	asked := Run{ID: 10, JobID: 1, FireTime: at(0), Attempt: 1, Fence: 1}
	with := func(r Run, change func(*Run)) Run {
		change(&r)
		return r
	}
	check := func(b *Begun, again bool, r Run) {
		t.Helper()
		start, before := b.Check([]Run{r}, at(5))
		if again {
			require.Equal(t, []Run{r}, before)
			require.Empty(t, start)
			return
		}
		require.Equal(t, []Run{r}, start)
		require.Empty(t, before)
	}
	begun := func() *Begun {
		var b Begun
		for _, r := range []Run{one, next, other, asked} {
			b.Add(r, at(2))
		}
		return &b
	}
	check(&Begun{}, false, one)
	check(begun(), true, one)
	check(begun(), true, asked)
	check(begun(), true, with(one, func(r *Run) { r.ID, r.Fence = 99, 6 })) // two fires in one claim, where there had been two claims
	check(begun(), false, with(one, func(r *Run) { r.Fence = 7 }))          // set back to PENDING by a person
	check(begun(), false, with(asked, func(r *Run) { r.Fence = 2 }))
	check(begun(), false, with(one, func(r *Run) { r.Attempt = 2 }))
	check(begun(), false, with(one, func(r *Run) { r.FireTime = at(9) }))
	check(begun(), false, with(asked, func(r *Run) { r.JobID = 2 })) // a new run, with the id of one that was lost
	check(begun(), false, with(asked, func(r *Run) { r.FireTime = at(9) }))

	b := begun()
	start, again := b.Check([]Run{one, with(other, func(r *Run) { r.FireTime, r.Fence = at(3), 2 }), next}, at(5))
	require.Len(t, start, 1)
	require.Equal(t, []Run{one, next}, again)
	check(b, true, with(other, func(r *Run) { r.Fence = 50 })) // after a loss the fences do not tell
	check(b, false, with(other, func(r *Run) { r.FireTime, r.Fence = at(4), 51 }))
}

func TestWhatHasBegunIsForgottenInTime(t *testing.T) {
	run := Run{ID: 7, JobID: 1, ExecuteID: 3, FireTime: at(0), Attempt: 1, Fence: 5}
	var b Begun
	b.Add(run, at(0))
	for i := range 3 * begunMax {
		b.Add(Run{ID: int64(i), JobID: 1, ExecuteID: 4, FireTime: at(i), Attempt: 1, Fence: int64(i)}, at(1))
	}
	require.LessOrEqual(t, len(b.young.runs)+len(b.old.runs), 2*begunMax)
	_, again := b.Check([]Run{run}, at(2))
	require.Empty(t, again)
}
