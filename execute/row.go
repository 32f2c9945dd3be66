package execute

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// mostFired is as far as TIME_TRIGGERED is counted, some below what its column takes; a person may have typed more.
const mostFired = 8_999_999_000_000_000_000

// millis is t for a column in which the value none stands for no time.
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
	return time.UnixMilli(ms.Int64).UTC()
}

// row is an execute as columns.
type row struct {
	ID           int64          `db:"ID"`
	JobID        int64          `db:"PID"`
	Class        string         `db:"JOB_CLASS"`
	JobName      sql.NullString `db:"JOB_NAME"`
	Name         sql.NullString `db:"NAME"`
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
	Priority     run.Priority   `db:"PRIORITY"`
	Token        sql.NullInt64  `db:"CLAIM_TOKEN"`
}

// specSQL is the checksum of the columns that say when an execute fires. It is part of the guard, so
// that a claim computed from a schedule that has been changed since is lost.
const specSQL = `CRC32(CONCAT_WS('|', E.JOB_TYPE, E.CRON, E.ZONE_ID, E.REPEAT_COUNT, E.REPEAT_INTERVAL, E.START_TIME, E.END_TIME))`

const rowColumns = `E.ID, E.PID, J.JOB_CLASS, J.NAME AS JOB_NAME, E.NAME, E.STATE, E.JOB_TYPE, E.CRON, E.ZONE_ID, E.REPEAT_COUNT, E.REPEAT_INTERVAL,
       E.TIME_TRIGGERED, E.PREV_FIRE_TIME, E.NEXT_FIRE_TIME, E.START_TIME, E.END_TIME, E.MISFIRE, E.CATCH_UP_LIMIT,
       E.PAUSED_AT, CAST(UNIX_TIMESTAMP(E.CHANGED_AT) * 1000 AS SIGNED) AS CHANGED_MS, ` + specSQL + ` AS SPEC, ` + run.LimitedSQL + ` AS EXCLUSIVE,
       J.PRIORITY, E.CLAIM_TOKEN`

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

// checkTimes refuses times that a calendar does not have.
func (r *row) checkTimes() error {
	for _, c := range []struct {
		column string
		value  int64
	}{
		{"START_TIME", r.Start}, {"END_TIME", r.End.Int64}, {"PREV_FIRE_TIME", r.Prev.Int64}, {"NEXT_FIRE_TIME", r.Next.Int64},
	} {
		if c.value > lastMilli {
			return fmt.Errorf("%s %d is after the year 9999: want milliseconds since 1970", c.column, c.value)
		}
	}
	return nil
}

// givenUp returns an error if the server refused to take a move of the execute, and the row has not been changed since.
func (r *row) givenUp() error {
	const sameMoment = 10 // milliseconds
	if r.State == Error && r.PausedAt.Valid && r.ChangedAt.Int64 <= r.PausedAt.Int64+sameMoment {
		return errors.New("the server has refused its next state, and the row has not been changed since")
	}
	return nil
}

func (r *row) execute(schedules *Schedules) *Execute {
	e := &Execute{
		ID: r.ID, JobID: r.JobID, Class: r.Class, JobName: r.JobName.String, Name: r.Name.String, State: r.State, Misfire: r.Misfire, CatchUpLimit: r.CatchUpLimit,
		ChangedAt: fromMillis(r.ChangedAt), Exclusive: r.Exclusive, Priority: r.Priority.Within(),
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
	e.Prev, e.Next = e.Schedule.in(e.Prev), e.Schedule.in(e.Next)
	if !e.Schedule.allows(e.Next, e.Fired) {
		e.Next = time.Time{} // a person wrote it, or moved an end before it: to be computed again
	}
	return e
}
