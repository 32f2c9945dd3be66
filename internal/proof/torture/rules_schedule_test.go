package main

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPhaseThatDrifts(t *testing.T) {
	require.Empty(t, judged(story(ruleJob{}, []ruleRun{run1(1, "SUCCEEDED", 1, 1, 2), run1(2, "SUCCEEDED", 7, 7, 8)})))
	require.Equal(t, []string{"no fire of it"}, judged(story(ruleJob{}, []ruleRun{run1(1, "SUCCEEDED", 1, 1, 2), run1(2, "SUCCEEDED", 7.3, 7.3, 8)})))
}

func TestAnEndThatIsIgnored(t *testing.T) {
	h := story(ruleJob{}, []ruleRun{run1(1, "SUCCEEDED", 1, 1, 2), run1(2, "SUCCEEDED", 2, 2, 2.1)})
	e := h.executes[1]
	e.End = valid(sec(2))
	h.executes[1] = e
	require.Empty(t, judged(h))
	e.End = valid(sec(1.9))
	h.executes[1] = e
	require.Equal(t, []string{"no fire of it"}, judged(h))
}

func TestANumberOfFires(t *testing.T) {
	h := story(ruleJob{}, nil)
	e := h.executes[1]
	e.Repeat = sql.NullInt64{Int64: 5, Valid: true}
	e.End, e.State = valid(sec(1000)), "COMPLETE"
	h.executes[1] = e
	for n, broken := range map[int64][]string{4: {"count"}, 5: nil, 6: {"count"}} {
		h.fired[1] = fired{1, n}
		require.Equal(t, broken, judged(h), n)
	}
	e.End = valid(sec(100))
	h.executes[1] = e
	h.fired[1] = fired{1, 4}
	require.Empty(t, judged(h), "it has ended before")
}

func TestAFireInAPause(t *testing.T) {
	h := story(ruleJob{}, []ruleRun{run1(1, "SUCCEEDED", 1, 1, 2), run1(2, "SUCCEEDED", 2, 1.2, 2.1), run1(3, "SUCCEEDED", 9, 9, 9.1)})
	h.rests = []rest{{"lasting", sec(1.5), sec(8.5)}}
	require.Empty(t, judged(h), "the second was claimed before it, ahead of its time")
	h.runs[1].Claimed = valid(sec(2))
	require.Equal(t, []string{"fired in a pause"}, judged(h))
	h.runs[1].Claimed = valid(sec(8.6))
	require.Contains(t, judged(h), "fired in a pause", "nor afterwards")
}
