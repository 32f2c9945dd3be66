package qrtz

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/run"
)

// Job is what to run and when, as Scheduler.Declare takes it.
type Job struct {
	Name        string // identifies the job in its app, at most 120 bytes; names that differ in case only are refused
	Class       string // the class of its handler; defaults to Name
	Description string // for people, at most 100 characters
	Data        any    // handed to the handler, stored as JSON; nil for none
	Schedules   []Schedule
	Options

	// Reset has Declare write all that it says, in place of what an operator has changed, deleted schedules included. Without
	// it, what has not changed in the program since the last Declare is left as the operator made it. Pauses stay.
	Reset bool
}

// Options are what a job asks of its runs. Zero values mean the defaults.
type Options struct {
	// Recovery has a run whose node died tried again on a live node: a new attempt, which Run.RecoveryOf tells from the
	// first. Without it, the run just stays on record as LOST. Off by default, since the first may have done its work.
	Recovery bool

	// Overlap is what becomes of a fire while another run of the job lasts: OverlapAllow (the default), OverlapSkip
	// or OverlapQueue. The database enforces it with a unique key.
	Overlap    Overlap
	QueueLimit int // with OverlapQueue: how many runs wait, the newest; defaults to 10

	// MaxRunning is how many runs of the job the whole cluster carries out at once, at most 10,000. What is beyond that stays
	// pending until one of them has ended. With OverlapSkip and OverlapQueue, whose rule then decides about what is beyond, it
	// defaults to 1; else to any number. A unique key enforces it, so that no crash can use up a place for good.
	MaxRunning int

	// Priority decides which runs start first where several are due at once and there is no room for all of them:
	// PriorityLow, PriorityNormal (the default) or PriorityHigh.
	Priority Priority

	// Timeout is how long a run may take before its context is cancelled with ErrTimedOut. Defaults to no limit.
	Timeout time.Duration

	// Attempts is how often a fire is tried, at most, when its handler fails or times out. Defaults to 1. Before the
	// second attempt passes Backoff (10 seconds), and twice as long before each further one, up to MaxBackoff (1 hour),
	// give or take a fifth. See NoRetry and RetryAfter.
	Attempts            int
	Backoff, MaxBackoff time.Duration

	// History is which finished runs stay on record: HistoryAll (the default), HistoryFailed, or HistoryNone, with which
	// runs write no row at all unless Recovery, Overlap or Attempts need one while they go.
	History History

	// KeepFor is how long finished runs are kept, 30 days by default, and KeepRuns how many of a job's, any number by default.
	KeepFor  time.Duration
	KeepRuns int
}

// Overlap is what becomes of a fire while another run of its job lasts.
type Overlap = run.Overlap

// The overlap rules.
const (
	OverlapAllow = run.OverlapAllow // it runs beside it
	OverlapSkip  = run.OverlapSkip  // it is recorded as skipped
	OverlapQueue = run.OverlapQueue // it waits
)

// Priority decides which runs start first where several are due at once and there is no room for all of them.
type Priority = run.Priority

// The priorities.
const (
	PriorityLow    = run.PriorityLow
	PriorityNormal = run.PriorityNormal
	PriorityHigh   = run.PriorityHigh
)

// History is which finished runs stay on record.
type History = run.History

// The history rules.
const (
	HistoryAll    = run.HistoryAll
	HistoryFailed = run.HistoryFailed
	HistoryNone   = run.HistoryNone
)

func (o Options) withDefaults() run.Options {
	d := run.Defaults()
	setDefault(&o.Overlap, d.Overlap)
	setDefault(&o.QueueLimit, d.QueueLimit)
	setDefault(&o.Attempts, d.Attempts)
	setDefault(&o.Backoff, d.Backoff)
	setDefault(&o.MaxBackoff, max(d.MaxBackoff, o.Backoff))
	setDefault(&o.History, d.History)
	setDefault(&o.KeepFor, d.KeepFor)
	return run.Options{
		Recovery: o.Recovery, Overlap: o.Overlap, QueueLimit: o.QueueLimit, MaxRunning: o.MaxRunning, Priority: o.Priority,
		Timeout: o.Timeout, Attempts: o.Attempts,
		Backoff: o.Backoff, MaxBackoff: o.MaxBackoff, History: o.History, KeepFor: o.KeepFor, KeepRuns: o.KeepRuns,
	}
}

// Misfire is what happens to fires that no node ran within Config.MisfireAfter.
type Misfire = execute.Misfire

// The misfire policies.
const (
	FireOnce = execute.FireOnce // run once, now; the default
	Skip     = execute.Skip     // run none; record them
	CatchUp  = execute.CatchUp  // run all, the latest Schedule.CatchUpLimit at most
)

// Schedule is when a job runs: one row of QRTZ_EXECUTE. Make one with Cron, Every or At.
type Schedule struct {
	// Name identifies the schedule among those of its job, at most 120 bytes. It may stay empty if the job has only one.
	Name string

	// Start is before the first fire; a fixed rate counts from it. Defaults to when the schedule is first declared.
	Start time.Time

	// End is after the last fire; a fire exactly then still runs. Zero for no end.
	End time.Time

	// Count is how many fires there are in all. Defaults to no limit.
	Count int

	Misfire      Misfire // defaults to FireOnce
	CatchUpLimit int     // with CatchUp; defaults to 100, at most 1000

	kind       execute.Kind
	cron, zone string
	every      time.Duration
}

// Cron is a Quartz expression, seconds first, in a time zone; an empty zone is UTC.
// "0 30 2 ? * MON-FRI" is half past two on weekdays. See docs/schedules.md.
func Cron(expression, zone string) Schedule {
	return Schedule{kind: execute.Cron, cron: expression, zone: zone}
}

// Every is a fixed rate, in whole milliseconds: the k-th fire is at Start + k × every, however long the runs take.
func Every(every time.Duration) Schedule {
	return Schedule{kind: execute.Simple, every: every}
}

// At is a single fire. If t has passed when it is declared, the misfire policy decides.
func At(t time.Time) Schedule {
	return Schedule{kind: execute.Simple, Start: t, Count: 1}
}

func (j Job) declaration() (execute.Declaration, error) {
	d := execute.Declaration{Name: j.Name, Class: j.Class, Description: j.Description, Options: j.withDefaults(), Reset: j.Reset}
	if d.Class == "" {
		d.Class = j.Name
	}
	if j.Data != nil {
		data, err := json.Marshal(j.Data)
		if err != nil {
			return d, fmt.Errorf("job %q: data: %w", j.Name, err)
		}
		d.Data = data
	}
	for _, s := range j.Schedules {
		d.Schedules = append(d.Schedules, s.declared())
	}
	return d, nil
}

func (s Schedule) declared() execute.DeclaredSchedule {
	setDefault(&s.Misfire, FireOnce)
	setDefault(&s.CatchUpLimit, 100)
	setDefault(&s.Count, execute.Forever)
	return execute.DeclaredSchedule{
		Name: s.Name, Misfire: s.Misfire, CatchUpLimit: s.CatchUpLimit,
		Spec: execute.Spec{Kind: s.kind, Cron: s.cron, Zone: s.zone, Repeat: s.Count, Every: s.every, Start: s.Start, End: s.End},
	}
}
