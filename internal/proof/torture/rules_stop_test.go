package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stopped is a history of a node that was asked to stop at second 10 and waits for 9 s.
func stopped(a *account, state string) *history {
	r := run1(1, state, 5, 5, 0)
	if state != "RUNNING" {
		r.Finished = valid(a.endedAt)
	}
	a.Fire = r.Fire
	h := story(ruleJob{Attempts: 1}, []ruleRun{r}, a)
	h.world = ideal{stops: map[string]span{"d-one-1": {sec(10), sec(25)}}, drain: 9 * time.Second}
	return h
}

func TestADrainWaits(t *testing.T) {
	require.Empty(t, judged(stopped(told1(1, 5, 18, true, ending{}), "SUCCEEDED")))
	require.Empty(t, judged(stopped(told1(1, 5, 19.1, false, ending{Cause: drained}), "LOST")))
	require.Equal(t, []string{"drain cut short"}, judged(stopped(told1(1, 5, 12, false, ending{Cause: drained}), "LOST")))
}

func TestADrainEnds(t *testing.T) {
	require.Equal(t, []string{"drain too long"}, judged(stopped(told1(1, 5, 22, true, ending{}), "SUCCEEDED")))
	killed := told1(1, 5, 0, false, ending{})
	killed.ended = false
	require.Equal(t, []string{"drain too long"}, judged(stopped(killed, "LOST")))
}

func TestNothingStartsInADrain(t *testing.T) {
	require.Equal(t, []string{"started in a drain"}, judged(stopped(told1(1, 14, 15, true, ending{}), "SUCCEEDED")))
}

func TestATimeout(t *testing.T) {
	of := func(a *account) []string {
		r := run1(1, "FAILED", 5, 5, 8)
		return judged(story(ruleJob{Timeout: 1000}, []ruleRun{r}, a))
	}
	require.Empty(t, of(told1(1, 5, 6.1, false, ending{Cause: timedOut})))
	require.Equal(t, []string{"timeout"}, of(told1(1, 5, 5.5, false, ending{Cause: timedOut})), "before its time")
	require.Equal(t, []string{"timeout"}, of(told1(1, 5, 8, false, ending{})))
	goes := told1(1, 5, 0, false, ending{})
	goes.ended = false
	require.Equal(t, []string{"timeout"}, of(goes))
	goes.Class = stubborn
	require.Empty(t, of(goes))
}

func TestACancelIsHeard(t *testing.T) {
	of := func(a *account, state string, asked float64) []string {
		r := run1(1, state, 5, 5, 0)
		if a.ended {
			r.Finished = valid(a.endedAt)
		}
		r.Cancel = valid(sec(asked))
		h := story(ruleJob{}, []ruleRun{r}, a)
		h.cancels = []cancel{{1, sec(asked), sec(asked)}}
		return judged(h)
	}
	require.Empty(t, of(told1(1, 5, 8, false, ending{Cause: cancelled}), "CANCELLED", 7))
	require.Equal(t, []string{"cancel"}, of(told1(1, 5, 12, false, ending{Cause: cancelled}), "CANCELLED", 7))
	goes := told1(1, 5, 0, false, ending{})
	goes.ended = false
	require.Equal(t, []string{"cancel"}, of(goes, "RUNNING", 7))
	require.Equal(t, []string{"cancel"}, of(told1(1, 5, 5.1, true, ending{}), "SUCCEEDED", 1), "it was pending, and starts")
}

func TestStatesAreWhatHandlersReturn(t *testing.T) {
	for _, c := range []struct {
		state, cause      string
		cancel, final, ok bool
	}{
		{"FAILED", "", false, false, true},
		{"FAILED", timedOut, false, false, true},
		{"FAILED", cancelled, true, false, false},
		{"FAILED", drained, false, false, false},
		{"FAILED", drained, false, true, true},
		{"CANCELLED", cancelled, true, false, true},
		{"CANCELLED", cancelled, false, false, false},
		{"CANCELLED", timedOut, true, false, false},
		{"LOST", fenced, false, false, true},
		{"SUCCEEDED", "", false, false, false},
	} {
		r := run1(1, c.state, 5, 5, 6)
		if c.cancel {
			r.Cancel = valid(sec(5))
		}
		h := story(ruleJob{}, []ruleRun{r}, told1(1, 5, 6, false, ending{Cause: c.cause, Final: c.final}))
		require.Equal(t, c.ok, len(wrongStates(h)) == 0, "%+v", c)
	}
}
