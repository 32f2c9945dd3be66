package main

import (
	"fmt"
	"time"
)

// stopRules are about what ends a run before its handler has done its work: drains, timeouts and cancels.
var stopRules = []rule{
	{"drain cut short", "A node that stops waits DrainTimeout for its runs before it ends their contexts.", drainCutShort},
	{"drain too long", "After DrainTimeout the context of each run of a node that stops ends.", drainTooLong},
	{"started in a drain", "A node that stops starts nothing new.", startedInADrain},
	{"timeout", "The context of a run ends after its timeout, and not before.", overtime},
	{"cancel", "The context of a run that is to be cancelled ends within a second, whether it has news or not, also while its node drains; a pending one does not start.", unheardCancels},
	{"state", "A run whose handler returns an error is FAILED, or CANCELLED if it was cancelled, or LOST if it was interrupted, fenced or its node died.", wrongStates},
}

// inTime is by how much something may be late that has a time, on a busy machine.
const inTime = 1500 * time.Millisecond

func (a *account) finding(what, format string, args ...any) finding {
	return finding{what, a.Execute, a.fire(), fmt.Sprintf(format, args...) + ": " + a.String()}
}

func drainCutShort(h *history) (found []finding) {
	for _, a := range h.accounts {
		if s, ok := h.world.stopping(a); ok && a.ended && a.how.Cause == drained && a.endedAt.Before(s.from.Add(h.world.drainTimeout(a)-inTime/10)) {
			found = append(found, a.finding("drain cut short", "its node was asked to stop at %s and waits %s", clock(s.from), h.world.drainTimeout(a)))
		}
	}
	return found
}

func drainTooLong(h *history) (found []finding) {
	for _, a := range h.accounts {
		s, ok := h.world.stopping(a)
		if !ok || !obeys(a.Class) || a.startedAt().After(s.from) {
			continue
		}
		end := orNow(s.until)
		if a.ended {
			end = a.endedAt
		}
		bound := s.from.Add(h.world.drainTimeout(a) + inTime)
		if end.After(bound.Add(h.world.stood(s.from, end))) && !h.world.frozen(a, s.from, end) {
			found = append(found, a.finding("drain too long", "its node was asked to stop at %s and waits %s", clock(s.from), h.world.drainTimeout(a)))
		}
	}
	return found
}

func startedInADrain(h *history) (found []finding) {
	for _, a := range h.accounts {
		s, ok := h.world.stopping(a)
		if ok && a.startedAt().After(s.from.Add(inTime+h.world.stood(s.from, a.startedAt()))) {
			found = append(found, a.finding("started in a drain", "its node was asked to stop at %s", clock(s.from)))
		}
	}
	return found
}

func overtime(h *history) (found []finding) {
	for _, a := range h.accounts {
		timeout := time.Duration(h.jobs[a.Job].Timeout) * time.Millisecond
		if timeout == 0 {
			continue
		}
		if a.ended && a.how.Cause == timedOut && a.endedAt.Sub(a.startedAt()) < timeout-inTime/5 { // its account begins a little later
			found = append(found, a.finding("timeout", "timed out after %s, before its timeout of %s", a.endedAt.Sub(a.startedAt()), timeout))
		}
		end := h.taken
		if a.ended {
			end = a.endedAt
		}
		if !obeys(a.Class) || !a.ended && !h.world.lives(a) {
			continue
		}
		if took := end.Sub(a.startedAt()); took > timeout+inTime+h.world.stood(a.startedAt(), end) && !h.world.frozen(a, a.startedAt(), end) {
			found = append(found, a.finding("timeout", "it has taken %s, its timeout is %s", short(took), timeout))
		}
	}
	return found
}

// heard is within what time the engine promises that a request to cancel is heard.
const heard = time.Second

func unheardCancels(h *history) (found []finding) {
	for _, c := range h.cancels {
		for _, a := range h.byRun[c.run] {
			bound := c.at.Add(heard + inTime)
			bound = bound.Add(h.world.stood(c.asked, bound))
			if a.startedAt().After(bound) {
				found = append(found, a.finding("cancel", "it was to be cancelled at %s, and has started", clock(c.at)))
				continue
			}
			end := h.taken
			if a.ended {
				end = a.endedAt
			}
			if !obeys(a.Class) || !end.After(bound) || !a.ended && !h.world.lives(a) || a.startedAt().After(c.asked) || h.world.disturbed(a, c.asked.Add(-time.Second), bound) {
				continue
			}
			found = append(found, a.finding("cancel", "it was to be cancelled at %s, and has not ended by %s", clock(c.at), clock(bound)))
		}
	}
	return found
}

func wrongStates(h *history) (found []finding) {
	for _, r := range h.runs {
		a := h.said(r)
		if a == nil || a.ok || !r.over() || r.State == "LOST" || a.Class == paying || len(h.byRun[r.ID]) > 1 {
			continue
		}
		allowed := false
		switch r.State {
		case "FAILED":
			allowed = a.how.Cause == "" || a.how.Cause == timedOut || a.how.Cause == drained && a.how.Final
		case "CANCELLED": // the request may have been heard just after the handler had returned
			allowed = r.Cancel.Valid && (a.how.Cause == cancelled || a.how.Cause == drained || a.how.Cause == "")
		}
		if !allowed {
			found = append(found, r.finding("state", "(%s) cancel %v: %s", r.Message, r.Cancel, a))
		}
	}
	return found
}
