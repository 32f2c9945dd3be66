package main

import (
	"math"
	"strings"
	"time"
)

// mostRecoveries is how often one fire is recovered, or handed on by a node that stops.
const mostRecoveries = 5

// attemptRules are about attempts and what follows what.
var attemptRules = []rule{
	{"attempts", "A run has no more attempts than its job allows. Those that its node lost are not counted.", tooManyAttempts},
	{"further attempt", "An attempt follows one that has failed and may be tried again, or was lost and is recovered.", unfounded},
	{"recoveries", "A run is recovered five times at most, and each recovery names the run it recovers.", wronglyRecovered},
	{"backoff", "The pause before an attempt is Backoff, doubled with each attempt spent, up to MaxBackoff, give or take a fifth; or what RetryAfter says. After a loss there is none.", wrongPauses},
	{"early attempt", "An attempt does not start before its pause is over.", earlyAttempts},
	{"not tried again", "A run that failed with attempts left, or was lost and is to be recovered, is followed by the next attempt.", notFollowed},
}

func (h *history) allowed(r ruleRun) int {
	if r.Attempts > 0 {
		return r.Attempts
	}
	return h.jobs[r.Job].Attempts
}

func tooManyAttempts(h *history) (found []finding) {
	for _, r := range h.runs {
		if job, ok := h.jobs[r.Job]; ok && r.spent() > h.allowed(r) {
			found = append(found, r.finding("attempts", "job %q allows %d, of which %d are spent, with %d recoveries", job.Name, h.allowed(r), r.spent(), r.Recoveries))
		}
	}
	return found
}

// pairs calls do with each attempt and the one before it.
func (h *history) pairs(do func(job ruleJob, before, next ruleRun)) {
	for _, chain := range h.chains() {
		for i, next := range chain[1:] {
			if job, ok := h.jobs[next.Job]; ok && chain[i].Attempt+1 == next.Attempt {
				do(job, chain[i], next)
			}
		}
	}
}

func interruption(r ruleRun) bool { return strings.HasPrefix(r.Message, "interrupted:") }

func unfounded(h *history) (found []finding) {
	h.pairs(func(job ruleJob, before, next ruleRun) {
		a := h.said(before)
		switch {
		case before.State == "LOST" && (job.Recovery || interruption(before) && h.allowed(before) > 1):
		case before.State == "FAILED" && (a == nil || !a.how.Final) && h.allowed(before) > before.spent():
		default:
			found = append(found, next.finding("further attempt", "the one before is run %d, %s (%s), cancel %v; job %q: recovery %t, attempts %d; %v",
				before.ID, before.State, before.Message, before.Cancel, job.Name, job.Recovery, h.allowed(before), a))
		}
	})
	return found
}

func wronglyRecovered(h *history) (found []finding) {
	for _, r := range h.runs {
		if r.Recoveries > mostRecoveries {
			found = append(found, r.finding("recoveries", "recovered %d times", r.Recoveries))
		}
	}
	h.pairs(func(_ ruleJob, before, next ruleRun) {
		want, recovers := before.Recoveries, int64(0)
		if before.State == "LOST" {
			want, recovers = want+1, before.ID
		}
		if before.State != "FAILED" && before.State != "LOST" {
			return
		}
		if next.Recoveries != want || next.Recovers != recovers {
			found = append(found, next.finding("recoveries", "it recovers run %d, for the %d-th time; the one before is run %d, %s, recovered %d times",
				next.Recovers, next.Recoveries, before.ID, before.State, before.Recoveries))
		}
		for _, a := range h.byRun[next.ID] {
			if a.Recovers != recovers {
				found = append(found, next.finding("recoveries", "its handler was told that it recovers run %d, and not %d: %s", a.Recovers, recovers, a))
			}
		}
	})
	return found
}

// backoff is the pause after so many attempts, in ms.
func (j ruleJob) backoff(spent int) float64 {
	return min(float64(j.Backoff)*math.Pow(2, float64(spent-1)), float64(j.MaxBackoff))
}

func wrongPauses(h *history) (found []finding) {
	h.pairs(func(job ruleJob, before, next ruleRun) {
		if !before.Finished.Valid {
			return
		}
		pause := float64(next.Available - before.Finished.Int64)
		least, most := job.backoff(before.spent())*0.8-2, job.backoff(before.spent())*1.2+2
		if before.State == "LOST" {
			least, most = -1000, 5000
			if h.world.stepped(before.finished(), before.finished().Add(5*time.Second)) {
				return
			}
		} else if a := h.said(before); a != nil && a.how.After > 0 {
			least, most = float64(a.how.After-2), float64(a.how.After+2)
		}
		if pause < least || pause > most {
			found = append(found, next.finding("backoff", "it follows %d ms after run %d, %s, with %d attempts spent; want %.0f to %.0f (BACKOFF %d, MAX_BACKOFF %d)",
				int64(pause), before.ID, before.State, before.spent(), least, most, job.Backoff, job.MaxBackoff))
		}
	})
	return found
}

func earlyAttempts(h *history) (found []finding) {
	for _, r := range h.runs {
		if r.Attempt > 1 && r.Claimed.Valid && r.Claimed.Int64 < r.Available-clockError.Milliseconds() && !h.world.stepped(time.UnixMilli(r.Claimed.Int64), time.UnixMilli(r.Available)) {
			found = append(found, r.finding("early attempt", "claimed %d ms before it was available", r.Available-r.Claimed.Int64))
		}
	}
	return found
}

// clockError is how far two readings of the database's clock may be apart.
const clockError = 50 * time.Millisecond

func notFollowed(h *history) (found []finding) {
	last := map[int64]int{}
	for _, r := range h.runs {
		last[r.Origin] = max(last[r.Origin], r.Attempt)
	}
	for _, r := range h.runs {
		job, ok := h.jobs[r.Job]
		if !ok || !job.keepsAll() || r.Cancel.Valid || last[r.Origin] > r.Attempt || strings.Contains(r.Message, "no further attempt") ||
			strings.Contains(r.Message, "by SQL") || strings.Contains(r.Message, "refuse") || job.Class == "refused" {
			continue
		}
		a := h.said(r)
		switch {
		case r.State == "FAILED" && h.allowed(r) > r.spent() && (a == nil || !a.how.Final):
		case r.State == "LOST" && r.Recoveries < mostRecoveries && (job.Recovery || interruption(r) && h.allowed(r) > 1):
		default:
			continue
		}
		found = append(found, r.finding("not tried again", "%d attempts of %d are spent, recovered %d times, and there is no further one (%s)", r.spent(), h.allowed(r), r.Recoveries, r.Message))
	}
	return found
}
