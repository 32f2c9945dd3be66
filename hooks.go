package qrtz

import (
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// Hooks are told what happens to runs, for alerts and metrics. Each may be nil. They are called one after the other,
// in a goroutine of their own: a slow hook delays other hooks, never a run. If they fall behind by 4096 events, further
// ones are dropped, and counted in the log: metrics that must be exact count rows of QRTZ_RUN. When the scheduler stops, what is left is delivered for at most 5 seconds.
type Hooks struct {
	Claimed  func(Event) // this process will start the run
	Started  func(Event) // its handler has been called
	Finished func(Event) // its handler has returned; State says how (Lost: this node stopped before it had ended), RetryAt whether it is tried again
	Skipped  func(Event) // fires that will not run: misfires, or an overlap rule left no room
	Lost     func(Event) // a run whose node died; told on the node that put it on record

	// Stuck is told of runs and schedules that cannot run by themselves, once an hour for each class and reason: no live
	// node has a handler for their class, their job is gone, or their rows contradict each other. Message says why, Count
	// how many rows were seen, and RunID or ScheduleID names one of them.
	Stuck func(Event)
}

// Event is what happened to a run, or to a number of skipped fires. It is told on one node of the cluster, once; not
// at all if that node dies before. Its times are in UTC, but for FireTime.
type Event struct {
	App        string
	Node       string // where the run is, or was; for Skipped, the node that put it on record
	RunID      int64  // in QRTZ_RUN; 0 if it has no row there. For skipped fires the row that stands for them
	JobID      int64
	ScheduleID int64  // of its schedule; 0 if it belongs to none
	Job        string // the name of its job; empty if it has none, and for Stuck
	Schedule   string // the name of its schedule; empty if that has none, and for Stuck
	Class      string
	FireTime   time.Time // in the time zone of its schedule, as Run.FireTime is; of skipped fires the first
	Attempt    int       // 0 for skipped fires
	State      RunState
	Message    string    // the error or the reason
	Count      int64     // how many fires it stands for; 1, but for Skipped and Stuck
	StartedAt  time.Time // for Started, Finished and Lost: when its handler was called; zero if a lost run does not say so
	RetryAt    time.Time // when a run that failed, or was interrupted, is tried again; zero for never
	At         time.Time // when it happened, by the cluster's clock
}

// RunState is how far a run has come, as in QRTZ_RUN.
type RunState = run.State

// The states of a run.
const (
	Pending   = run.Pending   // waits to be claimed
	Running   = run.Running   // claimed by a node
	Succeeded = run.Succeeded // the handler returned nil
	Failed    = run.Failed    // the handler returned an error, or panicked
	Lost      = run.Lost      // its node died, or stopped before it had ended
	Cancelled = run.Cancelled // stopped on request
	Skipped   = run.Skipped   // never run
)
