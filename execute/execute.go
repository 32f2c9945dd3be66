package execute

import (
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// Execute is one schedule of a job, as it was read. It is moved on only under the guard that its row
// still is what was read.
type Execute struct {
	ID, JobID    int64
	Class        string // the class of its job
	State        State
	Misfire      Misfire
	CatchUpLimit int
	Schedule     Schedule
	Problem      error     // why Schedule cannot be used; nil if it can
	Fired        int64     // fires behind it, run or recorded as skipped
	Exclusive    bool      // only one run of its job may go at a time
	Prev         time.Time // the latest of them; zero if there is none
	Next         time.Time // the next fire; zero if not yet computed, or none

	// ResumedAt is set when the execute was paused and has been set to EXECUTING again by hand:
	// fires before it belong to the pause.
	ResumedAt time.Time

	guard guard
}

// guard is the raw row that a claim compares, as it was read or as our own claim left it.
type guard struct {
	prev, next sql.NullInt64
	fired      sql.NullInt64
	token      sql.NullInt64 // of the claim that the row was last moved by
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

// Move takes an execute from the row that was read to a new one, and leaves rows in QRTZ_RUN.
type Move struct {
	Execute *Execute
	State   State
	Reason  string    // STATE_REASON; only with Error
	Prev    time.Time // zero: none
	Next    time.Time // zero: none
	Fires   int64     // how many fires are behind it now that were not
	Runs    []run.NewRun

	Walked int // how many fires had to be looked at one by one

	token int64 // the CLAIM_TOKEN of the latest attempt to apply this move
}

// claimsOne tells whether the move is a claim of the one fire that it passes, as most are.
func (m *Move) claimsOne() bool {
	return len(m.Runs) == 1 && m.Runs[0].State == run.Running && m.Runs[0].FireTime.Equal(m.Prev)
}

// ClaimMove is the move that makes us run the given fires, which must be the next ones, in order.
func (e *Execute) ClaimMove(fires []time.Time) Move {
	m := e.pass(fires[len(fires)-1], int64(len(fires)))
	for _, fire := range fires {
		m.Runs = append(m.Runs, run.NewRun{State: run.Running, FireTime: fire, Count: 1})
	}
	return m
}

// pass moves on past the fire last, the n-th from here; with the last fire the schedule is complete.
func (e *Execute) pass(last time.Time, n int64) Move {
	m := Move{Execute: e, State: e.State, Prev: last, Next: e.Schedule.After(last, e.Fired+n), Fires: n}
	if m.Next.IsZero() {
		m.State = Complete
	}
	return m
}

// MoveTo is the move to the first fire at or after t. The fires before it are passed over without a
// trace and not counted: the execute was paused, or its app or all its nodes were switched off.
func (e *Execute) MoveTo(t time.Time) Move {
	m := Move{Execute: e, State: e.State, Prev: e.Prev, Next: e.firstFrom(t)}
	if m.Next.IsZero() {
		m.State = Complete
	}
	return m
}

func (e *Execute) firstFrom(t time.Time) time.Time {
	if !e.Next.IsZero() && !e.Next.Before(t) {
		return e.Next
	}
	return e.Schedule.After(t.Add(-time.Nanosecond), e.Fired)
}

// BeginMove is the move that gives an active execute its first fire: one that was added without
// NEXT_FIRE_TIME, or whose NEXT_FIRE_TIME was cleared to have it computed anew.
func (e *Execute) BeginMove(now time.Time) Move {
	m := Move{Execute: e, State: e.State, Prev: e.Prev}
	if e.Prev.IsZero() && e.Fired == 0 {
		m.Next = e.Schedule.First(now)
	} else {
		m.Next = e.firstFrom(now)
	}
	if m.Next.IsZero() {
		m.State = Complete
	}
	return m
}

// ErrorMove is the move that takes an execute whose schedule cannot be used out of service.
func (e *Execute) ErrorMove() Move {
	return Move{Execute: e, State: Error, Reason: e.Problem.Error(), Prev: e.Prev, Next: e.Next}
}

// HealMove is the move that brings a corrected execute back; it fires from now on.
func (e *Execute) HealMove(now time.Time) Move {
	m := e.MoveTo(now)
	if m.State == Error {
		m.State = Executing
	}
	return m
}

// moved is the execute as the move left it, ready for its next claim.
func (m Move) moved() *Execute {
	e := *m.Execute
	e.State, e.Prev, e.Next, e.ResumedAt = m.State, m.Prev, m.Next, time.Time{}
	e.Fired = min(e.Fired, mostFired) + m.Fires
	e.guard.prev, e.guard.next = millis(m.Prev, -1), nextMillis(m.Next)
	e.guard.fired = sql.NullInt64{Int64: e.Fired, Valid: true}
	e.guard.token = sql.NullInt64{Int64: m.token, Valid: true}
	return &e
}

// mostFired is as far as TIME_TRIGGERED is counted, some below what its column takes; a person may have typed more.
const mostFired = 8_999_999_000_000_000_000

// millis is t in the form of a column in which none stands for no time.
func millis(t time.Time, none int64) sql.NullInt64 {
	if t.IsZero() {
		return sql.NullInt64{Int64: none, Valid: true}
	}
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: true}
}

func nextMillis(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// fromMillis is the time in a column; NULL and values below 1 stand for no time.
func fromMillis(ms sql.NullInt64) time.Time {
	if !ms.Valid || ms.Int64 < 1 {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64)
}

// row is an execute as columns.
type row struct {
	ID           int64          `db:"ID"`
	JobID        int64          `db:"PID"`
	Class        string         `db:"JOB_CLASS"`
	State        State          `db:"STATE"`
	Kind         Kind           `db:"JOB_TYPE"`
	Cron         sql.NullString `db:"CRON"`
	Zone         sql.NullString `db:"ZONE_ID"`
	Repeat       sql.NullInt64  `db:"REPEAT_COUNT"`
	Every        sql.NullInt64  `db:"REPEAT_INTERVAL"`
	Fired        sql.NullInt64  `db:"TIME_TRIGGERED"`
	Prev         sql.NullInt64  `db:"PREV_FIRE_TIME"`
	Next         sql.NullInt64  `db:"NEXT_FIRE_TIME"`
	Start        int64          `db:"START_TIME"`
	End          sql.NullInt64  `db:"END_TIME"`
	Misfire      Misfire        `db:"MISFIRE"`
	CatchUpLimit int            `db:"CATCH_UP_LIMIT"`
	PausedAt     sql.NullInt64  `db:"PAUSED_AT"`
	ChangedAt    sql.NullInt64  `db:"CHANGED_MS"`
	Spec         uint32         `db:"SPEC"`
	Exclusive    bool           `db:"EXCLUSIVE"`
	Token        sql.NullInt64  `db:"CLAIM_TOKEN"`
}

// specSQL is the checksum of the columns that say when an execute fires. It is part of the guard, so
// that a claim computed from a schedule that somebody has changed since is lost.
const specSQL = `CRC32(CONCAT_WS('|', E.JOB_TYPE, E.CRON, E.ZONE_ID, E.REPEAT_COUNT, E.REPEAT_INTERVAL, E.START_TIME, E.END_TIME))`

const rowColumns = `E.ID, E.PID, J.JOB_CLASS, E.STATE, E.JOB_TYPE, E.CRON, E.ZONE_ID, E.REPEAT_COUNT, E.REPEAT_INTERVAL,
       E.TIME_TRIGGERED, E.PREV_FIRE_TIME, E.NEXT_FIRE_TIME, E.START_TIME, E.END_TIME, E.MISFIRE, E.CATCH_UP_LIMIT,
       E.PAUSED_AT, CAST(UNIX_TIMESTAMP(E.CHANGED_AT) * 1000 AS SIGNED) AS CHANGED_MS, ` + specSQL + ` AS SPEC, J.OVERLAP <> 'ALLOW' AS EXCLUSIVE, E.CLAIM_TOKEN`

// longestEvery is the longest rate that is told apart from longer ones: a Duration holds no more.
const longestEvery = 290 * 365 * 24 * time.Hour

func (r *row) spec() Spec {
	s := Spec{
		Kind: r.Kind, Cron: r.Cron.String, Zone: r.Zone.String,
		Repeat: Forever, Every: time.Duration(min(max(r.Every.Int64, -1), longestEvery.Milliseconds())) * time.Millisecond,
		Start: time.UnixMilli(max(r.Start, 0)), End: fromMillis(r.End),
	}
	if r.Repeat.Valid && r.Repeat.Int64 >= 0 {
		s.Repeat = int(r.Repeat.Int64)
	}
	return s
}

// latest is the end of the year 9999.
const latest = 253402300799999

// checkTimes refuses times that a calendar does not have.
func (r *row) checkTimes() error {
	for _, c := range []struct {
		column string
		value  int64
	}{
		{"START_TIME", r.Start}, {"END_TIME", r.End.Int64}, {"PREV_FIRE_TIME", r.Prev.Int64}, {"NEXT_FIRE_TIME", r.Next.Int64},
	} {
		if c.value > latest {
			return fmt.Errorf("%s %d is after the year 9999: want milliseconds since 1970", c.column, c.value)
		}
	}
	return nil
}

// givenUp tells whether the server refused to take a move of the execute, and nobody has changed the row since.
func (r *row) givenUp() error {
	const sameMoment = 10 // milliseconds
	if r.State == Error && r.PausedAt.Valid && r.ChangedAt.Int64 <= r.PausedAt.Int64+sameMoment {
		return errors.New("the server has refused its next state, and the row has not been changed since")
	}
	return nil
}

func (r *row) execute(schedules *Schedules) *Execute {
	e := &Execute{
		ID: r.ID, JobID: r.JobID, Class: r.Class, State: r.State, Misfire: r.Misfire, CatchUpLimit: r.CatchUpLimit, Exclusive: r.Exclusive,
		Fired: max(r.Fired.Int64, 0), Prev: fromMillis(r.Prev), Next: fromMillis(r.Next),
		guard: guard{prev: r.Prev, next: r.Next, fired: r.Fired, token: r.Token, spec: r.Spec},
	}
	if r.State == Executing && r.PausedAt.Valid {
		e.ResumedAt = fromMillis(r.ChangedAt)
	}
	if e.Problem = errors.Join(r.checkTimes(), r.givenUp()); e.Problem == nil {
		e.Schedule, e.Problem = schedules.Parse(r.spec())
	}
	if e.Problem != nil {
		e.Problem = fmt.Errorf("execute %d: %w", r.ID, e.Problem)
		return e
	}
	if !e.Schedule.allows(e.Next, e.Fired) {
		e.Next = time.Time{} // somebody wrote it by hand, or moved an end before it: to be computed anew
	}
	return e
}
