package qrtz

import (
	"encoding/json"
	"fmt"
	"math"
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

	// Was has former names of the job. A job of such a name keeps its row under the new one, with its schedules and its
	// history. As long as Was has a name, programs that use it mean this job, and no other job can have it.
	Was []string
}

// Forever is the KeepFor of a job whose finished runs are never deleted, since 0 is the default of 30 days. It is also a Timeout: a
// run may take any time, which is the default.
const Forever time.Duration = math.MaxInt64

// NoBackoff is the Backoff of a job whose failed runs are tried again at once, since 0 is the default of 10 seconds.
const NoBackoff time.Duration = -1

// Unlimited is a number without a limit, where 0 is a default that has one: Attempts and QueueLimit. KeepRuns and Schedule.Count
// take it, too; it is their default.
const Unlimited = -1

// Options are what a job asks of its runs. Zero values mean the defaults; Forever, NoBackoff and Unlimited say what zero cannot.
type Options struct {
	// Recovery has a run whose node died, or stopped before the run had ended, tried again on a live node: a new attempt, which
	// Run.RecoveryOf tells from the first and which spends none of Attempts. Without it, the run just stays on record as LOST.
	// Off by default, since the first may have done its work.
	Recovery bool

	// Overlap is what becomes of a fire while another run of the job lasts: OverlapAllow (the default), OverlapSkip
	// or OverlapQueue. The database enforces it with a unique key.
	Overlap    Overlap
	QueueLimit int // with OverlapQueue: how many runs wait, the newest; defaults to 10, or Unlimited

	// MaxRunning is how many runs of the job the whole cluster carries out at once, at most 10,000. What is beyond that stays
	// pending until one of them has ended. With OverlapSkip and OverlapQueue, whose rule then decides about what is beyond, it
	// defaults to 1; else to any number. A unique key enforces it, so that no crash can use up a place for good.
	MaxRunning int

	// Priority decides which runs start first where several are due at once and there is no room for all of them:
	// PriorityLow, PriorityNormal (the default) or PriorityHigh.
	Priority Priority

	// Timeout is how long a run may take before its context is cancelled with ErrTimedOut. Defaults to no limit (Forever).
	Timeout time.Duration

	// Attempts is how often a fire is tried, at most, when its handler fails or times out: 1 by default, or Unlimited. Before
	// the second attempt passes Backoff (10 seconds by default, or NoBackoff), and twice as long before each further one, up to
	// MaxBackoff (1 hour), give or take a fifth. See NoRetry and RetryAfter. With more than 1, a run that was interrupted because
	// its node stops (ErrDrained) is tried again at once, on another node, and that spends none.
	Attempts            int
	Backoff, MaxBackoff time.Duration

	// History is which finished runs stay on record: HistoryAll (the default), HistoryFailed, or HistoryNone, with which
	// runs write no row at all unless Recovery, Overlap, MaxRunning or Attempts need one while they go. What is enqueued has a row until it has ended.
	History History

	// KeepFor is how long finished runs are kept, 30 days by default, or Forever. KeepRuns is how many of a job's, the latest; any
	// number by default (Unlimited). For none at all, see HistoryNone.
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
	for _, limit := range []*int{&o.Attempts, &o.QueueLimit} {
		if *limit == Unlimited {
			*limit = math.MaxInt32
		}
	}
	if o.KeepRuns == Unlimited {
		o.KeepRuns = 0
	}
	for _, d := range []*time.Duration{&o.KeepFor, &o.Timeout} {
		if *d == Forever {
			*d = 0
		}
	}
	if o.Backoff == NoBackoff {
		o.Backoff = 0
	}
	return run.Options{
		Recovery: o.Recovery, Overlap: o.Overlap, QueueLimit: o.QueueLimit, MaxRunning: o.MaxRunning, Priority: o.Priority,
		Timeout: o.Timeout, Attempts: o.Attempts,
		Backoff: o.Backoff, MaxBackoff: o.MaxBackoff, History: o.History, KeepFor: o.KeepFor, KeepRuns: o.KeepRuns,
	}
}

func (j Job) declaration() (execute.Declaration, error) {
	d := execute.Declaration{Name: j.Name, Class: j.Class, Description: j.Description, Options: j.withDefaults(), Reset: j.Reset, Was: j.Was}
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
		schedule, err := s.declared()
		if err != nil {
			return d, fmt.Errorf("job %q: schedule %q: %w", j.Name, s.Name, err)
		}
		d.Schedules = append(d.Schedules, schedule)
	}
	return d, nil
}
