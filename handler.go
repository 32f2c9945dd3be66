package qrtz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/run"
)

// Run is what a handler learns about the run it carries out.
type Run struct {
	ID         int64     // of its row in QRTZ_RUN
	JobID      int64     // of its job
	ExecuteID  int64     // of its schedule; 0 for a run that belongs to none
	Job        string    // the name of its job; empty if it has none
	Schedule   string    // the name of its schedule; empty if that has none
	Class      string    // under which the handler is registered
	FireTime   time.Time // when it was due, in the time zone of its schedule: UTC but for Cron with a zone
	StartedAt  time.Time // by the cluster's clock, in UTC; never before FireTime
	Attempt    int       // 1, and more when a fire is tried again
	RecoveryOf int64     // the run, LOST with its node, that this one is a recovery of; 0 if it is none
	Node       string    // the id of this process in the cluster

	// Fence grows with every claim of the same schedule. A system that remembers the highest number it has
	// seen can refuse a handler whose node was taken for dead while it continued.
	Fence int64

	active *active
}

// handler carries out a run whose data is still JSON.
type handler func(ctx context.Context, run *Run, data []byte) error

// Handle registers the handler of a class; T is what the job's JSON data is decoded into. Runs of the class go
// to nodes that have registered it, and to no others. A handler that returns an error, panics, or is given data
// that does not decode makes a FAILED run. Its context ends when the scheduler gives up waiting for it
// (Config.DrainTimeout) or loses the run (ErrFenced is the cause then).
//
// Handle must be called before Scheduler.Run; it panics on an empty class or one that has a handler already.
func Handle[T any](s *Scheduler, class string, h func(ctx context.Context, run *Run, data T) error) {
	s.handle(class, func(ctx context.Context, run *Run, data []byte) error {
		var value T
		if len(data) > 0 {
			if err := json.Unmarshal(data, &value); err != nil {
				return fmt.Errorf("JOB_DATA of job %d does not fit the handler of class %q (%T): %w", run.JobID, class, value, err)
			}
		}
		return h(ctx, run, value)
	})
}

// call runs a handler on the data that load brings, and hands over what it returned. A panic becomes an error with its stack; a
// handler that ends its goroutine (runtime.Goexit, as a test's FailNow does) has failed too.
func call(ctx context.Context, h handler, run *Run, load func() (data []byte, release func(), err error), done func(error)) {
	err := errors.New("the handler ended its goroutine")
	defer func() {
		if p := recover(); p != nil {
			err = errors.New(panicked(p))
		}
		done(err)
	}()
	if h == nil {
		err = fmt.Errorf("no handler for class %q on this node", run.Class)
		return
	}
	data, release, failed := load()
	if failed != nil {
		err = failed
		return
	}
	defer release()
	err = h(ctx, run, data)
}

func newRun(a *active, node string) *Run {
	r := a.run
	return &Run{
		ID: r.ID, JobID: r.JobID, ExecuteID: r.ExecuteID, Job: r.Job, Schedule: r.Schedule, Class: r.Class, FireTime: r.FireTime, StartedAt: a.startedAt,
		Attempt: r.Attempt, RecoveryOf: r.Recovers, Node: node, Fence: r.Fence, active: a,
	}
}

// Key is the same for all attempts of one fire of a schedule, and for all attempts of one run that was enqueued or asked for; no
// other run in the database has it. It is a short text of ASCII characters, such as "12@1763762400000" for the fire of schedule
// 12 at that time, in milliseconds, or "r4711" for a run whose first attempt has the id 4711. Have the transaction that
// does the work insert it into a column with a unique key: the second attempt to do the same work then fails.
func (r *Run) Key() string { return r.active.run.Key() }

// Progress notes how far the run is, in percent. It is written to QRTZ_RUN within a second, and costs nothing before.
func (r *Run) Progress(percent int) {
	r.active.say(func(a *active) { a.progress = min(max(percent, 0), 100) })
}

// Message notes what the run is doing or has done, in a line. It stays on record if the run succeeds; the error of a
// run that fails takes its place. At most 8 KiB are kept.
func (r *Run) Message(message string) {
	clipped := text.Clip(message, run.MaxMessage)
	r.active.say(func(a *active) { a.message = clipped })
}
