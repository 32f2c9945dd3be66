package main

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// misfireRules are about fires that no node ran in time. A SKIPPED row stands for those that the policy does not run; FINISHED_AT
// is when that was decided.
var misfireRules = []rule{
	{"misfire: too few", "Of missed fires, the policy runs the latest: one (FIRE_ONCE), or CATCH_UP_LIMIT (CATCH_UP).", skippedTooMany},
	{"misfire: too many", "It runs no more than that, and with SKIP none.", ranTooMany},
	{"misfire: late", "A fire that no node has claimed within MisfireAfter is not run with SKIP.", ranThoughLate},
	{"misfire: order", "Fires of a schedule are claimed in order, those that were missed, too.", claimedOutOfOrder},
}

// decisions calls do with each row of a misfire's decision.
func (h *history) decisions(do func(e ruleExecute, r ruleRun)) {
	for _, r := range h.runs {
		e, ok := h.executes[r.Execute]
		if ok && r.State == "SKIPPED" && strings.HasPrefix(r.Message, "misfire:") && r.Finished.Valid && !h.world.stepped(r.finished().Add(-time.Minute), r.finished()) {
			do(e, r)
		}
	}
}

func (r ruleRun) lastFire() int64 {
	if r.LastFire.Valid {
		return r.LastFire.Int64
	}
	return r.Fire
}

func skippedTooMany(h *history) (found []finding) {
	h.decisions(func(e ruleExecute, r ruleRun) {
		left := e.fires(r.lastFire()+1, r.Finished.Int64+clockError.Milliseconds())
		if len(left) < e.limit() {
			found = append(found, r.finding("misfire: too few", "policy %s runs %d, but up to %s it left %d after the last that it skipped, %s",
				e.Misfire, e.limit(), clock(r.finished()), len(left), clock(time.UnixMilli(r.lastFire()))))
		}
	})
	return found
}

// decided is how long before it is on record a decision may have been made, where nothing is wrong.
const decided = 1500 * time.Millisecond

func ranTooMany(h *history) (found []finding) {
	ran := map[[2]int64]ruleRun{}
	for _, r := range h.runs {
		if r.State != "SKIPPED" && r.Attempt == 1 {
			ran[[2]int64{r.Execute, r.Fire}] = r
		}
	}
	h.decisions(func(e ruleExecute, r ruleRun) {
		if !exact(r.App) || e.Repeat.Valid && e.Repeat.Int64 >= 0 { // the grid does not tell which fire is the last of a number
			return
		}
		at := h.decidedBy(r)
		left := e.fires(r.lastFire()+1, at.UnixMilli())
		if len(left) <= e.limit() {
			return
		}
		if more, ok := ran[[2]int64{e.ID, left[0]}]; ok {
			found = append(found, r.finding("misfire: too many", "policy %s runs %d, but by %s %d were due after the last that it skipped, and the first of them has run %d",
				e.Misfire, e.limit(), clock(at), len(left), more.ID))
		}
	})
	return found
}

// decidedBy is a time that a decision was not made before.
func (h *history) decidedBy(r ruleRun) time.Time {
	at := r.finished()
	return at.Add(-decided - h.world.stood(at.Add(-10*time.Second), at))
}

func ranThoughLate(h *history) (found []finding) {
	for _, r := range h.runs {
		e, ok := h.executes[r.Execute]
		if !ok || e.Misfire != "SKIP" || r.Attempt > 1 || r.State == "SKIPPED" || !r.Claimed.Valid || !exact(r.App) {
			continue
		}
		late, due := r.Claimed.Int64-r.Fire, time.UnixMilli(r.Fire)
		at := time.UnixMilli(r.Claimed.Int64)
		if late > (h.pace.misfireAfter()+2*time.Second+h.world.stood(due, at)).Milliseconds() && !h.world.stepped(due, at) {
			found = append(found, r.finding("misfire: late", "claimed %d ms after its fire, though its policy is SKIP", late))
		}
	}
	return found
}

// inOrder is by how much a fire may be claimed after a later one of its schedule, where nothing is wrong: it may have been handed
// back by a node that stops.
const inOrder = 2 * time.Second

func claimedOutOfOrder(h *history) (found []finding) {
	of := map[int64][]ruleRun{}
	for _, r := range h.runs {
		job := h.jobs[r.Job]
		if r.Execute != 0 && exact(r.App) && r.Attempt == 1 && r.Claimed.Valid && r.State != "SKIPPED" && job.Overlap == "ALLOW" && job.MaxRunning == 0 {
			of[r.Execute] = append(of[r.Execute], r)
		}
	}
	for _, same := range of {
		slices.SortFunc(same, func(a, b ruleRun) int { return cmp.Compare(a.Fire, b.Fire) })
		latest := same[0]
		for _, r := range same[1:] {
			if at := time.UnixMilli(r.Claimed.Int64); latest.Claimed.Int64-r.Claimed.Int64 > (inOrder+h.world.stood(at, time.UnixMilli(latest.Claimed.Int64))).Milliseconds() && !h.world.stepped(at, at.Add(inOrder)) {
				found = append(found, r.finding("misfire: order", "claimed %d ms before run %d of the earlier fire %s", latest.Claimed.Int64-r.Claimed.Int64, latest.ID, clock(time.UnixMilli(latest.Fire))))
			}
			if r.Claimed.Int64 > latest.Claimed.Int64 {
				latest = r
			}
		}
	}
	return found
}
