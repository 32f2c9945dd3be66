package main

import (
	"context"
	"slices"
	"time"
)

// rule is something that was promised, and can be told from rows and accounts.
type rule struct {
	name   string // as findings are called
	says   string
	broken func(*history) []finding
}

// rules are all of them; docs/reliability.md has their table.
func rules() []rule {
	return slices.Concat(attemptRules, misfireRules, overlapRules, scheduleRules, stopRules, recordRules)
}

// brokenRules judges the runs of fires since a time.
func (j *judge) brokenRules(h *history, accounts []*account) (found []finding) {
	h.byRun = map[int64][]*account{}
	for _, a := range accounts {
		if a.fire().Before(h.from) {
			continue
		}
		h.accounts = append(h.accounts, a)
		if a.Run != 0 {
			h.byRun[a.Run] = append(h.byRun[a.Run], a)
		}
	}
	for _, r := range rules() {
		found = append(found, r.broken(h)...)
	}
	return found
}

// judgeRules is brokenRules on a snapshot of its own. The accounts are read after it: what the rows show has been told.
func (j *judge) judgeRules(ctx context.Context, from time.Time) ([]finding, error) {
	h, err := j.readHistory(ctx, from)
	if err != nil {
		return nil, err
	}
	accounts, err := j.t.records.update()
	if err != nil {
		return nil, err
	}
	return j.brokenRules(h, accounts), nil
}
