package main

import (
	"fmt"
	"slices"
	"time"
)

// scheduleRules are about when schedules fire, whatever is done to them: their fires are those of the oracle.
var scheduleRules = []rule{
	{"no fire of it", "Each fire of a schedule is one that its row says: of its grid, whatever pauses, switches and misfires there were, not before its start, not after its end.", offTheGrid},
	{"count", "A schedule with REPEAT_COUNT has exactly so many fires, skipped ones included, unless it ends before.", miscounted},
	{"fired in a pause", "What is due while a schedule is paused is not run, then or later.", firedInARest},
}

func offTheGrid(h *history) (found []finding) {
	of := map[int64][]ruleRun{}
	for _, r := range h.runs {
		if _, ok := h.executes[r.Execute]; ok {
			of[r.Execute] = append(of[r.Execute], r)
		}
	}
	for id, runs := range of {
		e := h.executes[id]
		first, last := runs[0].Fire, runs[0].Fire
		for _, r := range runs {
			first, last = min(first, r.Fire), max(last, r.lastFire())
		}
		grid := e.fires(first, last)
		for _, r := range runs {
			for _, fire := range []int64{r.Fire, r.lastFire()} {
				if _, ok := slices.BinarySearch(grid, fire); !ok {
					found = append(found, r.finding("no fire of it", "%s is no fire of the schedule %s %s, every %d ms from %s to %s", clock(time.UnixMilli(fire)),
						e.Kind, e.Cron.String, e.Every.Int64, clock(time.UnixMilli(e.Start)), clock(time.UnixMilli(e.End.Int64))))
					break
				}
			}
		}
	}
	return found
}

func miscounted(h *history) (found []finding) {
	for id, e := range h.executes {
		job, ok := h.jobs[e.Job]
		if !ok || !e.Repeat.Valid || e.Repeat.Int64 < 0 || !job.keepsAll() {
			continue
		}
		n := h.fired[id].Fires
		early := e.State == "COMPLETE" && n < e.Repeat.Int64 && e.End.Int64 > h.now.UnixMilli() && len(e.fires(h.now.UnixMilli(), e.End.Int64)) > 0
		if n > e.Repeat.Int64 || early {
			found = append(found, finding{"count", id, h.now, fmt.Sprintf("the schedule of job %q is %s with %d fires on record, of %d", job.Name, e.State, n, e.Repeat.Int64)})
		}
	}
	return found
}

func firedInARest(h *history) (found []finding) {
	for _, rest := range h.rests {
		for _, r := range h.runs {
			if h.jobs[r.Job].Name != rest.job || r.Execute == 0 || h.world.stepped(rest.from, rest.until) {
				continue
			}
			from, until := rest.from.UnixMilli(), rest.until.UnixMilli()
			if r.Fire > from && r.Fire < until && r.Claimed.Valid && r.Claimed.Int64 > from { // before, it may have been claimed ahead of its time
				found = append(found, r.finding("fired in a pause", "%q was paused from %s to %s; claimed at %s", rest.job, clock(rest.from), clock(rest.until), clock(time.UnixMilli(r.Claimed.Int64))))
			}
		}
	}
	return found
}
