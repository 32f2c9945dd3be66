package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// recordRules are about what stays on record.
var recordRules = []rule{
	{"history", "With HISTORY FAILED no run that succeeded stays on record, with NONE none that succeeded or failed.", keptTooMuch},
	{"no trace", "A run that failed stays on record with HISTORY ALL and FAILED.", failedWithoutRow},
	{"deleted", "A finished run is deleted only when it is older than KEEP_FOR, or KEEP_RUNS younger ones of its job have finished.", deletedTooEarly},
	{"kept", "A finished run that is to be deleted is gone soon.", keptTooLong},
	{"progress", "PROGRESS and MESSAGE of a run that has succeeded are what its handler said last, and before that they do not go back.", wrongProgress},
}

func keptTooMuch(h *history) (found []finding) {
	for _, r := range h.runs {
		job := h.jobs[r.Job]
		if r.Execute == 0 {
			continue // a key that is used once keeps its row
		}
		if job.History == "FAILED" && r.State == "SUCCEEDED" || job.History == "NONE" && (r.State == "SUCCEEDED" || r.State == "FAILED") {
			found = append(found, r.finding("history", "job %q has HISTORY %s", job.Name, job.History))
		}
	}
	return found
}

func failedWithoutRow(h *history) (found []finding) {
	stored := map[int64]bool{}
	for _, r := range h.runs {
		stored[r.ID] = true
	}
	for _, a := range h.accounts {
		job, ok := h.jobs[a.Job]
		kept := job.keepsAll() || job.History == "FAILED" && job.App != "b" && job.KeepRuns == 0
		if ok && kept && a.Run != 0 && !stored[a.Run] && a.ended && !a.ok && !a.fire().Before(h.from) && a.endedAt.Before(h.taken.Add(-inTime)) {
			found = append(found, a.finding("no trace", "run %d of job %q, HISTORY %s, has no row", a.Run, job.Name, job.History))
		}
	}
	return found
}

// finishedOf are the finished runs of a job, the youngest first, of this look and the one before.
func (h *history) finishedOf() map[int64][]ruleRun {
	of, seen := map[int64][]ruleRun{}, map[int64]bool{}
	add := func(r ruleRun) {
		if r.over() && !seen[r.ID] {
			seen[r.ID] = true
			of[r.Job] = append(of[r.Job], r)
		}
	}
	for _, r := range h.runs {
		add(r)
	}
	for _, r := range h.earlier {
		add(r)
	}
	for _, runs := range of {
		slices.SortFunc(runs, func(a, b ruleRun) int { return cmp.Compare(b.ID, a.ID) })
	}
	return of
}

func deletedTooEarly(h *history) (found []finding) {
	stored := map[int64]bool{}
	for _, r := range h.runs {
		stored[r.ID] = true
	}
	for id, runs := range h.finishedOf() {
		job, ok := h.jobs[id]
		if !ok || job.App == "b" { // whose history is cleaned
			continue
		}
		for younger, r := range runs {
			if stored[r.ID] || r.Fire < h.from.UnixMilli() {
				continue
			}
			age := h.read.Sub(r.finished())
			old := job.KeepFor > 0 && age > time.Duration(job.KeepFor)*time.Millisecond-clockError || h.world.stepped(r.finished(), h.read)
			if !old && (job.KeepRuns == 0 || younger < job.KeepRuns) {
				found = append(found, r.finding("deleted", "it finished %s ago, %d younger ones are known; job %q keeps runs for %d ms, and %d of them",
					short(age), younger, job.Name, job.KeepFor, job.KeepRuns))
			}
		}
	}
	return found
}

func keptTooLong(h *history) (found []finding) {
	slack := h.pace.lateAfter()
	stored := map[int64][]ruleRun{}
	for _, r := range h.runs {
		if r.over() {
			stored[r.Job] = append(stored[r.Job], r)
		}
	}
	for id, runs := range stored {
		job, ok := h.jobs[id]
		if !ok {
			continue
		}
		slices.SortFunc(runs, func(a, b ruleRun) int { return cmp.Compare(b.ID, a.ID) })
		settled := 0 // of the younger ones, that finished long ago
		for _, r := range runs {
			age := h.now.Sub(r.finished())
			why := ""
			switch {
			case job.KeepFor > 0 && age > time.Duration(job.KeepFor)*time.Millisecond+slack:
				why = fmt.Sprintf("it is kept for %d ms", job.KeepFor)
			case job.KeepRuns > 0 && settled >= job.KeepRuns:
				why = fmt.Sprintf("%d younger ones finished before that, of which %d are kept", settled, job.KeepRuns)
			}
			if age > slack {
				settled++
				if why != "" && !h.world.stepped(r.finished(), h.now) {
					found = append(found, r.finding("kept", "job %q; it finished %s ago; %s", job.Name, short(age), why))
				}
			}
		}
	}
	return found
}

func wrongProgress(h *history) (found []finding) {
	for _, r := range h.runs {
		job := h.jobs[r.Job]
		if before, ok := h.earlier[r.ID]; ok && before.Fence == r.Fence && before.Progress.Valid && job.Class == telling && (!r.Progress.Valid || r.Progress.Int64 < before.Progress.Int64) {
			found = append(found, r.finding("progress", "it was at %d, and is at %v", before.Progress.Int64, r.Progress))
		}
		a := h.said(r)
		if job.Class != telling || r.State != "SUCCEEDED" || a == nil || a.told == 0 {
			continue
		}
		if want := fmt.Sprintf("at %d %%", a.told-1); r.Progress.Int64 != int64(a.told-1) || r.Message != want {
			found = append(found, r.finding("progress", "it is at %v, %q, and has told %d: %s", r.Progress, r.Message, a.told-1, a))
		}
	}
	return found
}
