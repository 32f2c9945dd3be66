package execute

import (
	"database/sql"
	"iter"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// Execute is one schedule of a job, as it was read. It is moved only under the guard that its row is still what was read.
type Execute struct {
	ID, JobID    int64
	Class        string // the class of its job
	JobName      string // empty if its job has none
	Name         string // empty if it has none
	State        State
	Misfire      Misfire
	CatchUpLimit int
	Schedule     Schedule
	Problem      error        // why Schedule cannot be used; nil if it can
	Fired        int64        // how many fires are behind it, run or recorded as skipped
	Exclusive    bool         // only some runs of its job may go at a time
	Priority     run.Priority // of its job
	Prev         time.Time    // the latest fire behind it, in the schedule's zone; zero if there is none
	Next         time.Time    // the next fire, in the schedule's zone; zero if not yet computed, or none

	ChangedAt time.Time // when it was last added or changed by SQL, as it was read

	// ResumedAt is when an execute that was paused was set to EXECUTING again by SQL: fires before it belong to the pause.
	// Zero otherwise.
	ResumedAt time.Time

	guard guard
}

// guard is the raw row that a claim compares, as it was read or as our own claim left it.
type guard struct {
	prev, next sql.NullInt64
	fired      sql.NullInt64
	token      sql.NullInt64 // CLAIM_TOKEN: of the latest move of the row
	spec       uint32        // a checksum of the schedule's columns
}

// Fires lists the fires not after until, in order, at most limit of them.
func (e *Execute) Fires(until time.Time, limit int) []time.Time {
	var fires []time.Time
	for fire := range e.upTo(until) {
		if len(fires) == limit {
			break
		}
		fires = append(fires, fire)
	}
	return fires
}

// upTo walks through the fires not after until, in order.
func (e *Execute) upTo(until time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		next, fired := e.Next, e.Fired
		for !next.IsZero() && !next.After(until) && yield(next) {
			fired++
			next = e.Schedule.After(next, fired)
		}
	}
}
