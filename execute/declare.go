package execute

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/run"
)

const (
	maxName        = 120 // bytes, of a job's or a schedule's name
	maxClass       = 127
	maxCron        = 250
	maxDescription = 100
)

// Declaration is a job as a program declares it at every start.
type Declaration struct {
	Name, Class, Description string
	Data                     []byte // JSON; nil for none
	Options                  run.Options
	Schedules                []DeclaredSchedule
}

// DeclaredSchedule is one schedule of a declared job.
type DeclaredSchedule struct {
	Name         string
	Spec         Spec // a zero Start is the time of the first declaration
	Misfire      Misfire
	CatchUpLimit int
}

// Validate names everything in the declaration that cannot be stored or would never work.
func (d Declaration) Validate() error {
	var problems []error
	refuse := func(when bool, format string, args ...any) {
		if when {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	refuse(d.Name == "", "a job needs a name: it tells a second declaration from a second job")
	refuse(len(d.Name) > maxName, "the name has %d bytes, at most %d fit", len(d.Name), maxName)
	refuse(len(d.Class) > maxClass, "class %q has %d bytes, at most %d fit", d.Class, len(d.Class), maxClass)
	refuse(len([]rune(d.Description)) > maxDescription, "the description has %d characters, at most %d fit", len([]rune(d.Description)), maxDescription)
	problems = append(problems, d.Options.Validate())
	names := map[string]bool{}
	for i, s := range d.Schedules {
		refuse(s.Name == "" && len(d.Schedules) > 1, "schedule %d of %d has no name: with several, each needs one", i+1, len(d.Schedules))
		refuse(names[s.Name] && s.Name != "", "two schedules are called %q", s.Name)
		names[s.Name] = true
		if err := s.validate(); err != nil {
			problems = append(problems, fmt.Errorf("schedule %q: %w", s.Name, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("job %q: %w", d.Name, err)
	}
	return nil
}

func (s DeclaredSchedule) validate() error {
	var schedules Schedules
	_, err := schedules.Parse(s.Spec)
	if len(s.Name) > maxName {
		err = errors.Join(err, fmt.Errorf("the name has %d bytes, at most %d fit", len(s.Name), maxName))
	}
	if len(s.Spec.Cron) > maxCron {
		err = errors.Join(err, fmt.Errorf("the expression has %d bytes, at most %d fit", len(s.Spec.Cron), maxCron))
	}
	if s.CatchUpLimit < 1 || s.CatchUpLimit > maxCatchUp {
		err = errors.Join(err, fmt.Errorf("CatchUpLimit (%d) must be between 1 and %d", s.CatchUpLimit, maxCatchUp))
	}
	return errors.Join(err, s.Misfire.Validate())
}

// Declare is DeclareIn in a transaction of its own.
func (s *Store) Declare(ctx context.Context, now time.Time, declarations []Declaration) error {
	return s.db.InTx(ctx, func(tx *sqlx.Tx) error { return s.DeclareIn(ctx, tx, now, declarations) })
}

// DeclareIn makes the stored jobs what the declarations say, all or none. What is as declared stays untouched, an
// operator's PAUSED included. A changed schedule fires from now on. A schedule that is no longer declared is COMPLETE.
// Schedules that were not declared but added by SQL are left alone.
// After an error the transaction must be rolled back, to a savepoint at least.
func (s *Store) DeclareIn(ctx context.Context, tx *sqlx.Tx, now time.Time, declarations []Declaration) error {
	for _, d := range declarations {
		if err := d.Validate(); err != nil {
			return err
		}
	}
	sorted := slices.Clone(declarations)
	slices.SortFunc(sorted, func(a, b Declaration) int { return strings.Compare(a.Name, b.Name) })
	for _, d := range sorted {
		if err := s.declare(ctx, tx, now, d); err != nil {
			return fmt.Errorf("declare job %q: %w", d.Name, err)
		}
	}
	return nil
}

const (
	addJobSQL = `
INSERT INTO QRTZ_JOB (APPLICATION, NAME, STATE, UPDATE_TIME, JOB_CLASS, JOB_DATA, JOB_DESCRIPTION,
       RECOVERY, OVERLAP, QUEUE_LIMIT, RUN_TIMEOUT, ATTEMPTS, BACKOFF, MAX_BACKOFF, HISTORY, KEEP_FOR, KEEP_RUNS, MAX_RUNNING, PRIORITY)
VALUES (?, ?, 'EXECUTING', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON DUPLICATE KEY UPDATE ID = ID`
	readJobSQL = `
SELECT J.ID, J.NAME, J.JOB_CLASS, J.JOB_DATA, J.JOB_DESCRIPTION, ` + run.OptionColumns + `
  FROM QRTZ_JOB J WHERE J.APPLICATION = ? AND J.NAME = ? FOR UPDATE`
	changeJobSQL = `
UPDATE QRTZ_JOB SET UPDATE_TIME = ?, JOB_CLASS = ?, JOB_DATA = ?, JOB_DESCRIPTION = ?,
       RECOVERY = ?, OVERLAP = ?, QUEUE_LIMIT = ?, RUN_TIMEOUT = ?, ATTEMPTS = ?, BACKOFF = ?, MAX_BACKOFF = ?, HISTORY = ?, KEEP_FOR = ?, KEEP_RUNS = ?,
       MAX_RUNNING = ?, PRIORITY = ?
 WHERE ID = ?`
)

func (s *Store) declare(ctx context.Context, tx *sqlx.Tx, now time.Time, d Declaration) error {
	data := sql.NullString{String: string(d.Data), Valid: d.Data != nil}
	description := sql.NullString{String: d.Description, Valid: d.Description != ""}
	columns := append([]any{now.UnixMilli(), d.Class, data, description}, d.Options.Columns()...)
	if _, err := s.db.On(tx).Exec(ctx, addJobSQL, append([]any{s.app, d.Name}, columns...)...); err != nil {
		return err
	}
	var job struct {
		ID          int64          `db:"ID"`
		Name        string         `db:"NAME"`
		Class       string         `db:"JOB_CLASS"`
		Data        sql.NullString `db:"JOB_DATA"`
		Description sql.NullString `db:"JOB_DESCRIPTION"`
		run.OptionRow
	}
	if err := s.db.On(tx).Get(ctx, &job, readJobSQL, s.app, d.Name); err != nil {
		return err
	}
	if job.Name != d.Name { // what the collation takes for one name, such as two that differ in case
		return fmt.Errorf("its name is that of another job, %q, to the server (job %d): choose one of the two names", job.Name, job.ID)
	}
	if job.Class != d.Class || job.Data != data || job.Description != description || job.Options() != d.Options {
		if _, err := s.db.On(tx).Exec(ctx, changeJobSQL, append(columns, job.ID)...); err != nil {
			return err
		}
	}
	return s.declareSchedules(ctx, tx, now, job.ID, d.Schedules)
}

const (
	readDeclaredSQL = `
SELECT E.NAME, E.STATE_REASON, ` + rowColumns + `
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID
 WHERE E.PID = ? AND E.NAME IS NOT NULL ORDER BY E.ID FOR UPDATE`

	noLongerDeclared = "no longer declared"

	retireSQL = `
UPDATE QRTZ_EXECUTE SET STATE = 'COMPLETE', STATE_REASON = '` + noLongerDeclared + `' WHERE ID = ? AND STATE <> 'COMPLETE'`
)

type declaredRow struct {
	Name string `db:"NAME"`
	row
	Reason sql.NullString `db:"STATE_REASON"`
}

func (s *Store) declareSchedules(ctx context.Context, tx *sqlx.Tx, now time.Time, jobID int64, schedules []DeclaredSchedule) error {
	var stored []declaredRow
	if err := s.db.On(tx).Select(ctx, &stored, readDeclaredSQL, jobID); err != nil {
		return err
	}
	left := map[string]declaredRow{}
	for _, r := range stored {
		left[r.Name] = r
	}
	for _, d := range schedules {
		old, ok := left[d.Name]
		delete(left, d.Name)
		var err error
		if ok {
			err = s.changeSchedule(ctx, tx, now, old, d)
		} else {
			err = s.addSchedule(ctx, tx, now, jobID, d)
		}
		if err != nil {
			return fmt.Errorf("schedule %q: %w", d.Name, err)
		}
	}
	for _, r := range left {
		if _, err := s.db.On(tx).Exec(ctx, retireSQL, r.ID); err != nil {
			return fmt.Errorf("retire schedule %q: %w", r.Name, err)
		}
	}
	return nil
}

const addScheduleSQL = `
INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, NAME, JOB_TYPE, STATE, CRON, ZONE_ID, REPEAT_COUNT, REPEAT_INTERVAL,
       START_TIME, END_TIME, MISFIRE, CATCH_UP_LIMIT, NEXT_FIRE_TIME)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (s *Store) addSchedule(ctx context.Context, tx *sqlx.Tx, now time.Time, jobID int64, d DeclaredSchedule) error {
	if d.Spec.Start.IsZero() {
		d.Spec.Start = now.Truncate(time.Millisecond)
	}
	schedule, err := s.schedules.Parse(d.Spec)
	if err != nil {
		return err
	}
	next, state := schedule.First(now), Executing
	if next.IsZero() {
		state = Complete
	}
	args := append([]any{jobID, s.app, d.Name, d.Spec.Kind, state}, specColumns(d)...)
	_, err = s.db.On(tx).Exec(ctx, addScheduleSQL, append(args, nextMillis(next))...)
	return err
}

const changeScheduleSQL = `
UPDATE QRTZ_EXECUTE
   SET JOB_TYPE = ?, STATE = ?, CRON = ?, ZONE_ID = ?, REPEAT_COUNT = ?, REPEAT_INTERVAL = ?, START_TIME = ?, END_TIME = ?,
       MISFIRE = ?, CATCH_UP_LIMIT = ?, NEXT_FIRE_TIME = ?, TIME_TRIGGERED = ?, STATE_REASON = NULL
 WHERE ID = ?`

func (s *Store) changeSchedule(ctx context.Context, tx *sqlx.Tx, now time.Time, old declaredRow, d DeclaredSchedule) error {
	if d.Spec.Start.IsZero() {
		d.Spec.Start = time.UnixMilli(old.Start)
	}
	was := old.spec()
	sameRule := sameSpec(was, d.Spec)
	retired := old.State == Complete && old.Reason.String == noLongerDeclared
	if sameRule && !retired && old.Misfire == d.Misfire && old.CatchUpLimit == d.CatchUpLimit {
		return nil
	}
	schedule, err := s.schedules.Parse(d.Spec)
	if err != nil {
		return err
	}
	e := old.execute(&s.schedules)
	e.Schedule, e.Problem = schedule, nil
	if was.Kind != d.Spec.Kind || millis(was.Start, 0) != millis(d.Spec.Start, 0) {
		e.Fired = 0 // another series: its fires are counted from 0
	}
	state, next := old.State, e.Next
	if !sameRule || retired {
		next = e.changedNext(now)
		switch {
		case next.IsZero():
			state = Complete
		case state != Paused && state != Init:
			state = Executing
		}
	}
	args := append([]any{d.Spec.Kind, state}, specColumns(d)...)
	_, err = s.db.On(tx).Exec(ctx, changeScheduleSQL, append(args, nextMillis(next), e.Fired, old.ID)...)
	return err
}

// changedNext is the next fire of an execute whose schedule is now another one. What it fired before is not owed again.
func (e *Execute) changedNext(now time.Time) time.Time {
	if e.Fired > 0 {
		after := now.Add(-time.Nanosecond)
		if e.Prev.After(after) {
			after = e.Prev
		}
		return e.Schedule.After(after, e.Fired)
	}
	first := e.Schedule.First(now)
	if !first.After(e.Prev) {
		if next := e.Schedule.After(e.Prev, 0); !next.IsZero() {
			return next
		}
	}
	return first
}

func sameSpec(a, b Spec) bool {
	return a.Kind == b.Kind && a.Cron == b.Cron && a.Zone == b.Zone && a.Repeat == b.Repeat && a.Every == b.Every &&
		millis(a.Start, 0) == millis(b.Start, 0) && millis(a.End, -1) == millis(b.End, -1)
}

// specColumns are the values of CRON, ZONE_ID, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, END_TIME, MISFIRE and CATCH_UP_LIMIT.
func specColumns(d DeclaredSchedule) []any {
	spec := d.Spec
	isCron := spec.Kind == Cron
	return []any{
		sql.NullString{String: spec.Cron, Valid: isCron},
		sql.NullString{String: spec.Zone, Valid: isCron},
		spec.Repeat,
		sql.NullInt64{Int64: spec.Every.Milliseconds(), Valid: !isCron},
		millis(spec.Start, 0), millis(spec.End, -1), d.Misfire, d.CatchUpLimit,
	}
}
