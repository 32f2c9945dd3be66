package main

import "pgregory.net/rapid"

// What random histories are made of.

func pick[T any](t *rapid.T, some ...T) T { return rapid.SampledFrom(some).Draw(t, "") }

func number(t *rapid.T, from, to int) int { return rapid.IntRange(from, to).Draw(t, "") }

func drawJob(t *rapid.T, id int64) Step {
	backoff := pick(t, ms(1000), 10000, 0, 1000)
	return Step{Do: "job", ID: id, Job: &Job{
		Recovery: pick(t, false, true), Overlap: pick(t, "", "SKIP", "QUEUE", ""), History: pick(t, "", "", "FAILED", "NONE"), QueueLimit: pick(t, 10, 0, 1, 2),
		MaxRunning: pick(t, 0, 0, 0, 1, 2, 3), Priority: pick(t, 0, 0, -1, 1), Timeout: pick(t, ms(0), 0, 2000), Attempts: pick(t, 1, 3, 2, 1, 4),
		Backoff: backoff, MaxBackoff: backoff * pick(t, ms(100), 3, 1), KeepRuns: pick(t, 0, 0, 0, 1, 3),
	}}
}

func drawCron(t *rapid.T) string {
	return pick(t, "15 * * * * ?", "0/20 * * * * ?", "0/7 * * * * ?", "0 0/5 * * * ?", "30 10,40 0-1 * * ?", "10,11 0 0 1 1 ? 2030", "0 0 * ? * TUE", broken)
}

func drawExec(t *rapid.T, id int64, jobs int) Step {
	e := &Exec{
		Misfire: pick(t, "", "SKIP", "CATCH_UP"), CatchUp: pick(t, 10, 1, 2, 0), Repeat: pick(t, int64(-1), -1, -1, -1, -1, -1, 1, 3, 0), State: pick(t, "", "", "", "", "", "", "", initial, paused),
		Start: pick(t, ms(0), 0, 0, 0, 1000, 7500, -30000, -600000), End: pick(t, ms(0), 0, 0, 0, 0, 0, 30000, 90000), NoApp: pick(t, false, false, false, false, false, false, false, true),
	}
	if pick(t, true, true, false) {
		e.Every = pick(t, ms(10000), 5000, 30000, 60000, 20000, 7777, 2000, 300000)
	} else {
		e.Cron = drawCron(t)
	}
	return Step{Do: "exec", ID: id, N: number(t, 1, jobs), Exec: e}
}

// drawSetup begins a history with jobs, schedules and processes.
func drawSetup(t *rapid.T) (steps []Step) {
	jobs := number(t, 1, 3)
	for id := range int64(jobs) {
		steps = append(steps, drawJob(t, id+1))
	}
	for id := range int64(number(t, 0, 4)) {
		steps = append(steps, drawExec(t, id+1, jobs))
	}
	for n := range number(t, 1, procs) {
		steps = append(steps, Step{Do: "join", Node: n})
	}
	return steps
}

var jumps = []ms{5000, 1000, 10000, 500, 1, 3000, 15000, 7600, 250, 2000, 30000, 23000, 61000, 60000, 120000, 600000}

func drawStep(t *rapid.T, faults bool) Step {
	node, id := number(t, 0, procs-1), int64(number(t, 1, 4))
	switch pick(t, // the first ones are drawn more often
		"advance", "poll", "poll", "advance", "beat", "pass", "advance", "poll", "enqueue", "poll", "advance", "release", "hold", "mode", "beat", "pass",
		"advance", "poll", "app", "node", "pause", "resume", "pause job", "resume job", "cron", "attend", "sql run", "cancel", "sql cancel", "retry",
		"join", "kill", "stop", "back", "exec", "poll", "advance", "enqueue", "end", "limit", "edit", "delete", "beat", "pass", "attend", "job") {
	case "advance":
		return Step{Do: "advance", By: pick(t, jumps...)}
	case "back":
		return Step{Do: "advance", By: -pick(t, ms(1000), 100, 5000, 30000, 50000)}
	case "poll":
		return drawFault(t, Step{Do: "poll", Node: node}, faults)
	case "pass":
		return drawFault(t, Step{Do: "pass", Node: node}, faults)
	case "beat", "beats":
		return Step{Do: "beat", Node: node}
	case "attend":
		return drawFault(t, Step{Do: "attend", Node: node}, faults)
	case "hold":
		return Step{Do: "hold", Node: node, Text: classOfJob(id)}
	case "release":
		return Step{Do: "release", Node: node, Text: classOfJob(id)}
	case "mode":
		return Step{Do: "mode", ID: id, Text: pick(t, "", "fail", "obey", "noretry", "retry5")}
	case "app":
		return Step{Do: "app", On: pick(t, true, true, false)}
	case "node":
		return Step{Do: "node", Node: number(t, 0, 4), On: pick(t, true, true, false)}
	case "cron":
		return Step{Do: "cron", ID: id, Text: drawCron(t)}
	case "enqueue":
		s := Step{Do: "enqueue", ID: id, By: pick(t, ms(0), 0, 3000, 70000), Text: pick(t, "", "", "k", "l"), N: pick(t, 0, 0, number(t, 0, 31))}
		s.On = s.Text != "" && pick(t, false, true)
		return s
	case "pause":
		return Step{Do: "pause", ID: id}
	case "resume":
		return Step{Do: "resume", ID: id}
	case "pause job":
		return Step{Do: "pause job", ID: id}
	case "resume job":
		return Step{Do: "resume job", ID: id}
	case "sql run":
		return Step{Do: "sql run", ID: id}
	case "cancel":
		return Step{Do: "cancel", ID: int64(number(t, 0, 40))}
	case "sql cancel":
		return Step{Do: "sql cancel", ID: int64(number(t, 0, 40))}
	case "end":
		return Step{Do: "end", ID: int64(number(t, 0, 40))}
	case "limit":
		return Step{Do: "limit", ID: id, N: number(t, 0, 11)}
	case "edit":
		return Step{Do: "edit", ID: id, N: pick(t, 0, 0, 1, 5, 20), By: pick(t, ms(0), 0, 30000, -5000), On: pick(t, false, true)}
	case "delete":
		return Step{Do: "delete", ID: id}
	case "retry":
		return Step{Do: "retry", ID: int64(number(t, 0, 40))}
	case "join":
		return Step{Do: "join", Node: node}
	case "kill":
		return Step{Do: "kill", Node: node}
	case "stop":
		return Step{Do: "stop", Node: node}
	case "job":
		return drawJob(t, id)
	default:
		return drawExec(t, id, 3)
	}
}

// drawSteps are one step, or several that together lead somewhere.
func drawSteps(t *rapid.T, faults bool) []Step {
	node, id := number(t, 0, procs-1), int64(number(t, 1, 3))
	poll := func(node int) Step { return drawFault(t, Step{Do: "poll", Node: node}, faults) }
	pass := func(node int) Step { return drawFault(t, Step{Do: "pass", Node: node}, faults) }
	switch number(t, 0, 63) {
	case 20, 21, 22: // a node that is silent for long while its runs go, or that dies
		steps := []Step{{Do: "hold", Node: node, Text: classOfJob(id)}, {Do: "enqueue", ID: id}, poll(node)}
		if pick(t, true, false) {
			steps = append(steps, Step{Do: "kill", Node: node})
		}
		steps = append(steps, silence(node, number(t, 4, 6))...)
		steps = append(steps, pass((node+1)%procs), pass((node+2)%procs), poll((node+1)%procs), Step{Do: "beat", Node: node}, Step{Do: "join", Node: node}, poll(node))
		return append(steps, Step{Do: "release", Node: node, Text: classOfJob(id)})
	case 0, 24, 25: // a job that fails again and again
		steps := []Step{{Do: "mode", ID: id, Text: pick(t, "fail", "retry5")}, {Do: "enqueue", ID: id, N: pick(t, 0, 0, 3, 2)}}
		for range number(t, 3, 6) {
			steps = append(steps, poll(number(t, 0, procs-1)), Step{Do: "advance", By: pick(t, ms(1000), 2000, 5000, 10000, 30000)})
		}
		return steps
	case 26, 27: // something is off for a while
		off, on := Step{Do: "app"}, Step{Do: "app", On: true}
		if pick(t, true, false) {
			off, on = Step{Do: "node", Node: node}, Step{Do: "node", Node: node, On: true}
		}
		steps := []Step{off, poll(node), {Do: "advance", By: pick(t, jumps...)}, pass(node), poll((node + 1) % procs), {Do: "advance", By: pick(t, jumps...)}}
		return append(steps, on, poll(node), poll((node+1)%procs), poll((node+2)%procs))
	case 28, 29: // a limited job whose runs take long
		steps := []Step{{Do: "hold", Node: node, Text: classOfJob(id)}}
		for range number(t, 1, 5) {
			steps = append(steps, poll(node), Step{Do: "advance", By: pick(t, ms(1000), 2000, 5000, 333)})
		}
		return append(steps, Step{Do: "attend", Node: node}, poll((node+1)%procs), Step{Do: "release", Node: node, Text: classOfJob(id)}, poll(node))
	case 30: // a run is interrupted
		return []Step{
			{Do: "mode", ID: id, Text: "obey"},
			{Do: "hold", Node: node, Text: classOfJob(id)},
			{Do: "enqueue", ID: id},
			poll(node),
			{Do: "advance", By: pick(t, ms(1000), 1, 3000)},
			drawFault(t, Step{Do: "attend", Node: node}, faults),
			{Do: pick(t, "stop", "sql cancel", "cancel"), Node: node, ID: int64(number(t, 0, 20))},
			{Do: "attend", Node: node},
			{Do: "release", Node: node, Text: classOfJob(id)},
			poll((node + 1) % procs),
		}
	case 31: // a schedule is paused for a while
		return []Step{
			{Do: "pause", ID: id},
			poll(node),
			{Do: "advance", By: pick(t, jumps...)},
			pass(node),
			{Do: "advance", By: pick(t, jumps...)},
			{Do: pick(t, "resume", "resume job"), ID: id},
			{Do: "advance", By: pick(t, ms(0), 1000, 5000)},
			poll(node),
		}
	}
	return []Step{drawStep(t, faults)}
}

// silence is time in which all nodes but one send heartbeats.
func silence(node, beats int) (steps []Step) {
	for range beats {
		steps = append(steps, Step{Do: "advance", By: beatEvery})
		for n := range procs {
			if n != node {
				steps = append(steps, Step{Do: "beat", Node: n})
			}
		}
	}
	return steps
}

// drawFault may have something go wrong in a step.
func drawFault(t *rapid.T, s Step, faults bool) Step {
	if !faults || !pick(t, false, false, false, true) {
		return s
	}
	s.At, s.How = number(t, 1, 18), pick(t, "freeze", "freeze", "lost", "never")
	if s.Do == "pass" {
		s.At = number(t, 1, 40)
	}
	if s.How == "freeze" {
		for range number(t, 1, 2) {
			s.Then = append(s.Then, drawStep(t, false))
		}
	}
	return s
}

// drawHistory is a whole history.
func drawHistory(faults bool, length int) *rapid.Generator[[]Step] {
	return rapid.Custom(func(t *rapid.T) []Step {
		steps := drawSetup(t)
		for end := len(steps) + length; len(steps) < end; {
			steps = append(steps, drawSteps(t, faults)...)
		}
		return steps
	})
}
