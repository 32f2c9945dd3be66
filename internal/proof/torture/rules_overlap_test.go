package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func inQueue(w waited, runs ...ruleRun) *history {
	h := story(ruleJob{Overlap: "QUEUE"}, runs)
	w.Job = 1
	h.waits = []waited{w}
	return h
}

func TestAQueueThatOvertakes(t *testing.T) {
	w := waited{Run: 1, Execute: 1, Attempt: 1, Fire: sec(1).UnixMilli(), Available: sec(1).UnixMilli(), from: sec(1), until: sec(9)}
	first, second := run1(1, "SUCCEEDED", 1, 9.2, 10), run1(2, "SUCCEEDED", 2, 11, 12)
	require.Empty(t, judged(inQueue(w, first, second)))
	second.Claimed = valid(sec(5))
	require.Equal(t, []string{"overtaken"}, judged(inQueue(w, first, second)))
	second.Claimed = valid(sec(1.5))
	require.Empty(t, judged(inQueue(w, first, second)), "two nodes looked at the same time")
}

func TestAFullQueueSkipsTheOldest(t *testing.T) {
	w := waited{Run: 1, Execute: 1, Attempt: 1, Fire: sec(1).UnixMilli(), Available: sec(1).UnixMilli(), from: sec(1), until: sec(9)}
	skipped := run1(2, "SKIPPED", 4, 4, 5)
	skipped.Message = "overlap: more than 2 runs of the job were pending"
	require.Equal(t, []string{"queue limit"}, judged(inQueue(w, run1(1, "SUCCEEDED", 1, 9.2, 10), skipped)))
	w.Fire = sec(6).UnixMilli()
	require.Empty(t, judged(inQueue(w, run1(1, "SUCCEEDED", 6, 9.2, 10), skipped)))
}

func TestOnlyFiresAreSkipped(t *testing.T) {
	skipped := run1(2, "SKIPPED", 4, 4, 5)
	skipped.Message = "overlap: more than 2 runs of the job were pending"
	require.Empty(t, judged(story(ruleJob{Overlap: "QUEUE"}, []ruleRun{skipped})))
	skipped.Attempt = 2
	require.Equal(t, []string{"skipped wrongly"}, judged(story(ruleJob{Overlap: "QUEUE", Attempts: 2}, []ruleRun{skipped})))
	skipped.Attempt, skipped.Execute = 1, 0
	require.Equal(t, []string{"skipped wrongly"}, judged(story(ruleJob{Overlap: "QUEUE"}, []ruleRun{skipped})))
}

func TestAFireIsSkippedOnlyBesideAnother(t *testing.T) {
	skipped := run1(2, "SKIPPED", 104, 104, 104)
	skipped.Claimed.Valid = false
	skipped.Message = "overlap: another run of the job was going"
	of := func(runs ...ruleRun) []string { return judged(story(ruleJob{Overlap: "SKIP"}, append(runs, skipped))) }
	require.Empty(t, of(run1(1, "SUCCEEDED", 103, 103, 106)))
	require.Empty(t, of(run1(1, "RUNNING", 103, 103, 0)))
	require.Equal(t, []string{"skipped alone"}, of(run1(1, "SUCCEEDED", 99, 99, 100)))
	require.Equal(t, []string{"skipped alone"}, of(run1(1, "SUCCEEDED", 105, 105, 106)))

	h := story(ruleJob{Overlap: "SKIP"}, []ruleRun{run1(1, "SUCCEEDED", 90, 90, 91), skipped})
	h.world = away{}
	require.Empty(t, judged(h), "the result may have come no sooner")
}

// away is a world whose database has been away.
type away struct{ ideal }

func (away) nodeTrouble(string, time.Time, time.Time) bool { return true }

func TestWhoWaitsIsWatched(t *testing.T) {
	var q queues
	at := func(s float64, fence int64) []waited {
		return []waited{{Run: 1, Fence: fence, Now: sec(s).UnixMicro()}}
	}
	q.see(at(1, 5))
	q.see(at(2, 5))
	q.see(at(3, 7)) // it was claimed and handed back
	q.see(at(4, 7))
	q.see(nil)
	all := q.all()
	require.Len(t, all, 2)
	require.Equal(t, []string{sec(1).String(), sec(2).String(), sec(3).String(), sec(4).String()},
		[]string{all[0].from.UTC().String(), all[0].until.UTC().String(), all[1].from.UTC().String(), all[1].until.UTC().String()})
}
