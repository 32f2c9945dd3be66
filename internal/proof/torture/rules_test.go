package main

import (
	"cmp"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ideal is a world in which nothing is wrong.
type ideal struct {
	stops map[string]span
	drain time.Duration
}

func (ideal) stood(time.Time, time.Time) time.Duration      { return 0 }
func (ideal) disturbed(*account, time.Time, time.Time) bool { return false }
func (ideal) frozen(*account, time.Time, time.Time) bool    { return false }
func (ideal) lives(*account) bool                           { return true }
func (ideal) stepped(time.Time, time.Time) bool             { return false }
func (ideal) nodeTrouble(string, time.Time, time.Time) bool { return false }
func (w ideal) drainTimeout(*account) time.Duration         { return w.drain }
func (w ideal) stopping(a *account) (s span, ok bool)       { s, ok = w.stops[a.life]; return s, ok }

// sec is a time of these tests, in seconds after t0.
func sec(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

func valid(at time.Time) sql.NullInt64 { return sql.NullInt64{Int64: at.UnixMilli(), Valid: true} }

// story is a history of app d at t0 and five minutes: job 1 with execute 1, which fires every second from t0.
func story(job ruleJob, runs []ruleRun, accounts ...*account) *history {
	job.ID, job.App, job.Name = 1, exactApp, "lasting"
	if job.History == "" {
		job.History = "ALL"
	}
	if job.KeepFor == 0 {
		job.KeepFor = (30 * 24 * time.Hour).Milliseconds()
	}
	if job.Overlap == "" {
		job.Overlap = "ALLOW"
	}
	job.Attempts = max(job.Attempts, 1)
	h := &history{
		now: sec(300), read: sec(300), taken: sec(300), from: t0, pace: inHaste, runs: runs, jobs: map[int64]ruleJob{1: job}, fired: map[int64]fired{},
		executes: map[int64]ruleExecute{1: {ID: 1, Job: 1, State: "EXECUTING", Kind: "SIMPLE", Start: t0.UnixMilli(), Every: sql.NullInt64{Int64: 1000, Valid: true}, Misfire: "FIRE_ONCE"}},
		byRun:    map[int64][]*account{}, accounts: accounts, earlier: map[int64]ruleRun{}, world: ideal{},
	}
	for i := range h.runs {
		r := &h.runs[i]
		r.App, r.Job = exactApp, 1
		if r.Origin == 0 {
			r.Origin = r.ID
		}
		r.Attempt = max(r.Attempt, 1)
		if r.Available == 0 {
			r.Available = r.Fire
		}
	}
	for _, a := range accounts {
		a.Job = 1
		h.byRun[a.Run] = append(h.byRun[a.Run], a)
	}
	return h
}

// run1 is a run of execute 1 that was due, claimed and finished at some seconds.
func run1(id int64, state string, fire, claimed, finished float64) ruleRun {
	r := ruleRun{ID: id, Execute: 1, Fire: sec(fire).UnixMilli(), State: state, Claimed: valid(sec(claimed)), Count: 1}
	if finished > 0 {
		r.Finished = valid(sec(finished))
	}
	return r
}

// next is an attempt at what another run was, available and claimed at a time.
func (r ruleRun) next(id int64, state string, available float64) ruleRun {
	n := run1(id, state, 0, available, available+0.1)
	n.Fire, n.Origin, n.Attempt, n.Recoveries = r.Fire, cmp.Or(r.Origin, r.ID), max(r.Attempt, 1)+1, r.Recoveries
	if r.State == "LOST" {
		n.Recoveries, n.Recovers = r.Recoveries+1, r.ID
	}
	n.Available = sec(available).UnixMilli()
	return n
}

// told1 is the account of a run that began and ended at some seconds.
func told1(run int64, began, ended float64, ok bool, how ending) *account {
	return &account{
		entry: entry{Run: run, Execute: 1, Attempt: 1, Fire: sec(began).UnixMilli(), At: sec(began).UnixMicro(), Class: "quick"},
		ended: true, ok: ok, endedAt: sec(ended), how: how, life: "d-one-1", app: exactApp,
	}
}

// judged tells which rules, of all, a history breaks.
func judged(h *history) (broken []string) {
	for _, r := range rules() {
		if len(r.broken(h)) > 0 {
			broken = append(broken, r.name)
		}
	}
	return broken
}

// Each rule says what it is, and each of their names is one rule's.
func TestEachRuleHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules() {
		require.False(t, seen[r.name], r.name)
		seen[r.name] = true
		require.Regexp(t, `^[A-Z].*\.$`, r.says)
	}
}
