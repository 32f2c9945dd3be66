package main

import (
	"strings"
	"time"
)

// overlapRules are about jobs of which only some runs may go at a time. That no more go is checked by package check.
var overlapRules = []rule{
	{"overtaken", "Pending runs of a job with QUEUE or MAX_RUNNING start in the order of AVAILABLE_AT, and no new fire overtakes them.", overtaken},
	{"skipped wrongly", "Only fires are skipped by an overlap rule; further attempts and runs that were asked for are not.", skippedWrongly},
	{"skipped alone", "With SKIP, a fire is skipped only while another run of its job goes.", skippedAlone},
	{"queue limit", "A full queue skips the fire that is the oldest of those that wait.", skippedTheYounger},
}

// inLine is how long a run must have waited for it to be said that it was overtaken: two nodes may look at the same time, and
// the one that loses its slot leaves the run to its next look.
const inLine = 1500 * time.Millisecond

// waitedOf are the runs that have waited, by job.
func (h *history) waitedOf() map[int64][]waited {
	of := map[int64][]waited{}
	for _, w := range h.waits {
		of[w.Job] = append(of[w.Job], w)
	}
	return of
}

func (h *history) isOverlapSkip(r ruleRun) bool {
	return r.State == "SKIPPED" && strings.HasPrefix(r.Message, "overlap:")
}

func overtaken(h *history) (found []finding) {
	of := h.waitedOf()
	for _, r := range h.runs {
		job, ok := h.jobs[r.Job]
		if !ok || !r.Claimed.Valid || r.State == "SKIPPED" || job.Overlap == "SKIP" {
			continue
		}
		claimed := time.UnixMilli(r.Claimed.Int64)
		for _, w := range of[r.Job] {
			since := later(w.from, time.UnixMilli(w.Available)).Add(inLine)
			if w.Run == r.ID || w.Available >= r.Available || claimed.Before(since) || claimed.After(w.until.Add(-clockError)) || h.world.stepped(since, claimed) {
				continue
			}
			if !exact(r.App) && h.world.nodeTrouble(r.App, since.Add(-inLine), w.until) {
				continue
			}
			found = append(found, r.finding("overtaken", "available since %s, claimed at %s, though run %d of job %q, available since %s, was pending from %s to %s",
				clock(time.UnixMilli(r.Available)), clock(claimed), w.Run, job.Name, clock(time.UnixMilli(w.Available)), clock(w.from), clock(w.until)))
		}
	}
	return found
}

func skippedWrongly(h *history) (found []finding) {
	for _, r := range h.runs {
		if h.isOverlapSkip(r) && (r.Attempt > 1 || r.Execute == 0) {
			found = append(found, r.finding("skipped wrongly", "it is no first attempt at a fire: %s", r.Message))
		}
	}
	return found
}

// freed is how long it may take until the row says that a run has ended whose handler has returned.
const freed = 3 * time.Second

// longAway is longer than any fault lasts.
const longAway = 2 * time.Minute

func skippedAlone(h *history) (found []finding) {
	of := map[int64][]ruleRun{}
	for _, r := range h.runs {
		if job := h.jobs[r.Job]; job.Overlap == "SKIP" && job.keepsAll() && r.Claimed.Valid {
			of[r.Job] = append(of[r.Job], r)
		}
	}
	for _, r := range h.runs {
		job := h.jobs[r.Job]
		if !h.isOverlapSkip(r) || job.Overlap != "SKIP" || !job.keepsAll() || !exact(r.App) || r.Fire-h.from.UnixMilli() < time.Minute.Milliseconds()/2 {
			continue // a run that goes may be of a fire before those that were read
		}
		at, going := r.finished(), 0
		slack := freed + h.world.stood(at.Add(-2*time.Second), at)
		if h.world.nodeTrouble(r.App, at.Add(-freed), at) {
			slack += longAway // a result waits for as long as the database is away
		}
		for _, other := range of[r.Job] {
			if other.ID != r.ID && !h.isOverlapSkip(other) && other.Claimed.Int64 <= r.Finished.Int64+clockError.Milliseconds() &&
				(!other.Finished.Valid || other.finished().Add(slack).After(at)) {
				going++
			}
		}
		if going < max(job.MaxRunning, 1) && !h.world.stepped(at.Add(-10*time.Second), at) {
			found = append(found, r.finding("skipped alone", "job %q may have %d runs at a time, and %d went at %s", job.Name, max(job.MaxRunning, 1), going, clock(at)))
		}
	}
	return found
}

func skippedTheYounger(h *history) (found []finding) {
	of := h.waitedOf()
	for _, r := range h.runs {
		if !h.isOverlapSkip(r) || h.jobs[r.Job].Overlap != "QUEUE" || !r.Finished.Valid {
			continue
		}
		at := r.finished()
		for _, w := range of[r.Job] {
			if w.Execute != 0 && w.Attempt == 1 && w.Fire < r.Fire && w.from.Before(at.Add(-clockError)) && w.until.After(at.Add(inLine)) && !h.world.stepped(at, at.Add(inLine)) {
				found = append(found, r.finding("queue limit", "skipped at %s, though run %d of the earlier fire %s was pending from %s to %s",
					clock(at), w.Run, clock(time.UnixMilli(w.Fire)), clock(w.from), clock(w.until)))
			}
		}
	}
	return found
}
