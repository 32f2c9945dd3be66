package main

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatHistoryKeeps(t *testing.T) {
	for _, c := range []struct {
		history, state string
		kept           bool
	}{
		{"ALL", "SUCCEEDED", true},
		{"FAILED", "FAILED", true},
		{"FAILED", "LOST", true},
		{"FAILED", "SUCCEEDED", false},
		{"NONE", "SUCCEEDED", false},
		{"NONE", "FAILED", false},
		{"NONE", "SKIPPED", true},
	} {
		h := story(ruleJob{History: c.history}, []ruleRun{run1(1, c.state, 1, 1, 2)})
		require.Equal(t, c.kept, len(keptTooMuch(h)) == 0, "%+v", c)
	}
}

func TestAFailureLeavesItsRow(t *testing.T) {
	failed := told1(1, 1, 2, false, ending{})
	for history, broken := range map[string][]string{"ALL": {"no trace"}, "FAILED": {"no trace"}, "NONE": nil} {
		require.Equal(t, broken, judged(story(ruleJob{History: history}, nil, failed)), history)
	}
	require.Empty(t, judged(story(ruleJob{History: "FAILED"}, nil, told1(1, 1, 2, true, ending{}))))
}

// gone is a history in which run 1, which finished at second 100, has been deleted; runs 2 and 3 are younger.
func gone(job ruleJob, at float64) []string {
	h := story(job, []ruleRun{run1(2, "SUCCEEDED", 101, 101, 102), run1(3, "SUCCEEDED", 102, 102, 103)})
	h.earlier[1] = run1(1, "SUCCEEDED", 99, 99, 100)
	h.earlier[1] = func(r ruleRun) ruleRun { r.Job = 1; return r }(h.earlier[1])
	h.now, h.read = sec(at), sec(at)
	return judged(h)
}

func TestYoungRunsAreNotDeleted(t *testing.T) {
	require.Equal(t, []string{"deleted"}, gone(ruleJob{}, 110))
	require.Equal(t, []string{"deleted"}, gone(ruleJob{KeepFor: 20000}, 110))
	require.Empty(t, gone(ruleJob{KeepFor: 5000}, 105.5))
	require.Equal(t, []string{"deleted"}, gone(ruleJob{KeepRuns: 3}, 110))
	require.Empty(t, gone(ruleJob{KeepRuns: 2}, 110))
}

func TestOldRunsAreDeleted(t *testing.T) {
	runs := []ruleRun{run1(1, "SUCCEEDED", 1, 1, 2), run1(2, "SUCCEEDED", 2, 2, 3), run1(3, "SUCCEEDED", 3, 3, 4)}
	require.Empty(t, judged(story(ruleJob{KeepFor: 290000, KeepRuns: 3}, runs)))
	require.Equal(t, []string{"kept"}, judged(story(ruleJob{KeepFor: 200000}, runs)))
	require.Equal(t, []string{"kept"}, judged(story(ruleJob{KeepRuns: 2}, runs)))
}

func TestProgressIsTheLastThatWasTold(t *testing.T) {
	r := run1(1, "SUCCEEDED", 1, 1, 2)
	r.Progress, r.Message = sql.NullInt64{Int64: 70, Valid: true}, "at 70 %"
	a := told1(1, 1, 2, true, ending{})
	a.told = 71
	require.Empty(t, judged(story(ruleJob{Class: telling}, []ruleRun{r}, a)))
	a.told = 91
	require.Equal(t, []string{"progress"}, judged(story(ruleJob{Class: telling}, []ruleRun{r}, a)))
	a.told = 71
	h := story(ruleJob{Class: telling}, []ruleRun{r}, a)
	h.earlier[1] = h.runs[0]
	before := h.earlier[1]
	before.Progress.Int64 = 80
	h.earlier[1] = before
	require.Equal(t, []string{"progress"}, judged(h), "it goes back")
}
