package qrtz

import (
	"encoding/json"
	"time"

	"github.com/qrtz-go/qrtz/execute"
)

// Page is a part of a list.
type Page[T any] struct {
	Rows []T

	// Next is where the next part begins: the After of the same filter. It is empty if this was the last part.
	Next string
}

// AppInfo is an app: a row of QRTZ_APP. Times are in UTC, and zero if there is none.
type AppInfo struct {
	Name       string
	On         bool      // its switch
	SwitchedAt time.Time // when the switch was last thrown
	CheckedAt  time.Time // the last pass of the misfire handler, which one node makes every Config.MisfireInterval
	Nodes      int       // in the cluster
	Jobs       int       // counted up to 1000; 1001 stands for more
}

// NodeState says whether a node is there.
type NodeState string

// The states of a node.
const (
	NodeAlive NodeState = "ALIVE" // its last heartbeat is not older than Config.NodeTimeout of the program that asks
	NodeDead  NodeState = "DEAD"  // it has sent no heartbeat for longer, or the others have declared it dead
	NodeLeft  NodeState = "LEFT"  // it has stopped in order, or was never there
)

// NodeInfo is a node: a row of QRTZ_NODE. Times are in UTC, and zero if there is none.
type NodeInfo struct {
	ID           string
	HostName     string
	State        NodeState
	On           bool // its own switch; while its app is off, it is off too
	StoppedByApp bool // it is off because its app is, and will be on again with it
	JoinedAt     time.Time
	HeartbeatAt  time.Time     // by the database's clock
	ClockSkew    time.Duration // how far its machine's clock is ahead of the database's
	Classes      []string      // it has handlers for, sorted
	Running      int           // its runs that are RUNNING and have a row
	ProcessID    int64
	Version      string // of this module, as far as its build tells
}

// JobState is what a job or a schedule is in. A job's state follows from those of its schedules, within a pass of the misfire
// handler.
type JobState = execute.State

// The states of jobs and schedules.
const (
	JobInit      = execute.Init      // not started
	JobExecuting = execute.Executing // active
	JobPaused    = execute.Paused    // stopped by an operator or a program
	JobComplete  = execute.Complete  // its last fire has been claimed
	JobError     = execute.Error     // it cannot be used; ScheduleInfo.Why says why
)

// JobInfo is a job as it is stored: a row of QRTZ_JOB.
type JobInfo struct {
	ID          int64
	Name        string // empty for a job that was added by SQL without one
	Class       string
	Description string
	State       JobState
	Why         string          // why its runs cannot run by themselves, such as that no live node has a handler for its class; empty if they can
	Data        json.RawMessage // nil for none, and for more than 64 KiB
	Schedules   int             // counted up to 1000; 1001 stands for more
	NextFire    time.Time       // of its active schedules, in UTC; zero for none, or if there are more than 1000 schedules
	Differs     []Difference    // what an operator has changed since the job was declared; FindJob names deleted schedules, too

	Options // as they are stored, with the defaults filled in; Timeout, MaxRunning and KeepRuns are 0 for no limit
}

// ScheduleInfo is a schedule as it is stored: a row of QRTZ_EXECUTE. Its times are in its time zone, which is UTC for a fixed rate,
// and zero if there is none.
type ScheduleInfo struct {
	ID       int64
	JobID    int64
	Job      string // the name of its job, or else the class
	Name     string
	Schedule string // a cron expression, "every 2000 ms" or "once"
	Zone     string // of a cron expression; empty is UTC
	State    JobState
	Why      string // why it is in JobError, or cannot fire by itself; empty otherwise
	Misfire  Misfire
	Start    time.Time
	End      time.Time
	Count    int64 // how many fires there are in all; Unlimited for no limit
	Fired    int64 // how many of them are behind it
	PrevFire time.Time
	NextFire time.Time
	Fires    []time.Time     // its next fires, as many as ScheduleFilter.Fires asks for
	Data     json.RawMessage // in place of the job's; nil for none
	Differs  []Difference    // what an operator has changed since the schedule was declared
}

// Difference is a column of a job or a schedule whose stored value is not the one that the program declared last. It has the name of
// the Column, and what is Declared and Stored, as text. If it has only the name of a Schedule, that schedule was deleted.
type Difference = execute.Difference

// RunInfo is a run as it is on record: a row of QRTZ_RUN. FireTime and LastFire are in the time zone of its schedule, or in UTC if it
// has none. The other times are in UTC. What there is not is zero.
type RunInfo struct {
	ID          int64
	Origin      int64 // the first attempt; its own ID if it is that
	Attempt     int   // from 1
	JobID       int64
	Job         string // the name of its job, or else the class; "(deleted)" once the job is gone
	Class       string // empty once the job is gone
	ScheduleID  int64  // 0 for a run that belongs to none
	Schedule    string // the name of its schedule
	Key         string // that the program gave it
	State       RunState
	Why         string // why it cannot run by itself, such as that no live node has a handler for its class; empty if it can
	Node        string // where it runs or ran
	Fence       int64
	FireTime    time.Time // when it was due
	AvailableAt time.Time // from when on this attempt may be claimed
	ClaimedAt   time.Time
	StartedAt   time.Time // when its handler was called; written within a second, or with the result
	FinishedAt  time.Time
	RecoveryOf  int64           // the run, LOST, that this one is a recovery of
	Cancelling  bool            // it is RUNNING, and has been asked to stop
	FireCount   int64           // how many fires it stands for; more than 1 only for skipped ones
	LastFire    time.Time       // the last of these
	Progress    int             // in percent, as its handler says; 0 if it does not
	Data        json.RawMessage // its own, or else its schedule's, or its job's; in lists nil if it is larger than 64 KiB
	Message     string          // the error of a failed run, or what its handler says
}

// Ended tells whether this attempt has ended. Another one may follow: see Client.Wait and Client.Attempts.
func (r RunInfo) Ended() bool { return r.State != Pending && r.State != Running }

// JobFilter says which jobs Client.Jobs lists. The zero value is the first hundred.
type JobFilter struct {
	State JobState // empty: any
	After string   // Page.Next of the part before
	Limit int      // at most 1000; defaults to 100
}

// ScheduleFilter says which schedules Client.Schedules lists. The zero value is the hundred that fire next.
type ScheduleFilter struct {
	Job   string   // the name of a job; empty: any
	State JobState // empty: any
	Fires int      // how many fires to compute for each, at most 1000; defaults to none
	After string   // Page.Next of the part before
	Limit int      // at most 1000; defaults to 100
}

// RunFilter says which runs Client.Runs lists. The zero value is the hundred that were available last.
type RunFilter struct {
	Job        string   // the name of a job; empty: any
	ScheduleID int64    // ScheduleInfo.ID; 0: any
	Key        string   // that the program gave the run; needs Job
	State      RunState // empty: any

	// Since and Until bound the time from when on the runs could be claimed (AvailableAt), or with ScheduleID when they were due
	// (FireTime). Since is included, Until is not. Zero for no bound.
	Since, Until time.Time

	After string // Page.Next of the part before
	Limit int    // at most 1000; defaults to 100
}
