package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// kept are histories that showed a difference once, of the engine or of the model, as the program printed them.
var kept = []struct {
	name  string
	steps []Step
}{
	{name: "a pass ends pending runs that are to be cancelled", steps: []Step{
		{Do: "job", ID: 1, Job: &Job{}},
		{Do: "sql run", ID: 1},
		{Do: "sql cancel"},
		{Do: "join", Node: 1},
	}},
	{name: "rows of one pass are in the order of their executes", steps: []Step{
		{Do: "job", ID: 1, Job: &Job{KeepRuns: 1}},
		{Do: "exec", ID: 1, N: 1, Exec: &Exec{Every: 1000, Repeat: -1, Start: -600000}},
		{Do: "exec", ID: 2, N: 1, Exec: &Exec{Every: 1000, Repeat: 3}},
		{Do: "join"},
		{Do: "advance", By: 120000},
		{Do: "pass"},
	}},
	{name: "a schedule that names no app is paused with its job", steps: []Step{
		{Do: "job", ID: 1, Job: &Job{}},
		{Do: "exec", ID: 4, N: 1, Exec: &Exec{Every: 333, Repeat: 1, NoApp: true}},
		{Do: "pause job", ID: 1},
	}},
	{name: "a fire is not skipped for a run in line before it while there are slots for both", steps: []Step{
		{Do: "job", ID: 1, Job: &Job{Overlap: "QUEUE", MaxRunning: 3}},
		{Do: "exec", ID: 1, N: 1, Exec: &Exec{Every: 1000, Repeat: -1}},
		{Do: "join"},
		{Do: "enqueue", ID: 1},
		{Do: "poll"},
	}},
	{name: "the same, with a fire of another job", steps: []Step{
		{Do: "job", ID: 1, Job: &Job{Overlap: "QUEUE", MaxRunning: 3}},
		{Do: "job", ID: 3, Job: &Job{MaxRunning: 3}},
		{Do: "exec", ID: 1, N: 1, Exec: &Exec{Every: 1000, Repeat: -1}},
		{Do: "exec", ID: 2, N: 3, Exec: &Exec{Every: 2000, Repeat: -1}},
		{Do: "join"},
		{Do: "enqueue", ID: 1},
		{Do: "poll"},
	}},
	{name: "history is cleaned job by job", steps: []Step{
		{Do: "job", ID: 1, Job: &Job{KeepRuns: 1}},
		{Do: "job", ID: 3, Job: &Job{KeepRuns: 1}},
		{Do: "exec", ID: 1, N: 3, Exec: &Exec{Every: 1000, Repeat: -1}},
		{Do: "join"},
		{Do: "mode", ID: 1, Text: "fail"},
		{Do: "enqueue", ID: 1, N: 3},
		{Do: "advance", By: 2000},
		{Do: "poll"},
		{Do: "advance", By: 30000},
		{Do: "beat"},
		{Do: "pass", At: 30, How: "lost"},
	}},
	{name: "a run that leaves no row cannot be tried again", steps: []Step{
		{Do: "job", ID: 2, Job: &Job{History: "NONE"}},
		{Do: "sql run", ID: 2},
		{Do: "join"},
		{Do: "poll", At: 13, How: "freeze", Then: []Step{{Do: "retry", ID: 19}}},
	}},
	{name: "history is cleaned in the order of what jobs keep", steps: []Step{
		{Do: "job", ID: 1, Job: &Job{Attempts: 3, KeepRuns: 3}},
		{Do: "job", ID: 2, Job: &Job{KeepRuns: 1}},
		{Do: "exec", ID: 1, N: 1, Exec: &Exec{Every: 5000, Repeat: 1}},
		{Do: "exec", ID: 2, N: 2, Exec: &Exec{Every: 2000, Repeat: -1}},
		{Do: "join"},
		{Do: "join", Node: 1},
		{Do: "mode", ID: 1, Text: "fail"},
		{Do: "poll"},
		{Do: "enqueue", ID: 1},
		{Do: "advance", By: 30000},
		{Do: "beat", Node: 1},
		{Do: "pass", At: 29, How: "freeze", Then: []Step{{Do: "poll", Node: 1}}},
	}},
	{name: "pending runs are claimed in more packets than one", steps: []Step{
		{Do: "job", ID: 2, Job: &Job{}},
		{Do: "exec", ID: 1, N: 2, Exec: &Exec{Every: 5000, Repeat: -1, Start: -600000, Misfire: "CATCH_UP", CatchUp: 10}},
		{Do: "join"},
		{Do: "poll", At: 11, How: "never"},
	}},
	{name: "runs are put on record as LOST in more packets than one", steps: []Step{
		{Do: "job", ID: 2, Job: &Job{Recovery: true}},
		{Do: "exec", ID: 1, N: 2, Exec: &Exec{Every: 5000, Repeat: -1, Start: -600000, Misfire: "CATCH_UP", CatchUp: 20}},
		{Do: "join"},
		{Do: "hold", Text: "c2"},
		{Do: "poll"},
		{Do: "join", Node: 1},
		{Do: "kill"},
		{Do: "advance", By: 5000},
		{Do: "beat", Node: 1},
		{Do: "advance", By: 5000},
		{Do: "beat", Node: 1},
		{Do: "advance", By: 5000},
		{Do: "beat", Node: 1},
		{Do: "advance", By: 5000},
		{Do: "beat", Node: 1},
		{Do: "advance", By: 5000},
		{Do: "beat", Node: 1},
		{Do: "advance", By: 5000},
		{Do: "beat", Node: 1},
		{Do: "pass", Node: 1, At: 16, How: "never"},
	}},
}

func TestKeptHistories(t *testing.T) {
	w := testWorld(t)
	for _, h := range kept {
		t.Run(h.name, func(t *testing.T) {
			p, err := newPlayer(w)
			require.NoError(t, err)
			require.NoError(t, p.play(h.steps))
		})
	}
}
