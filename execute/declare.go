package execute

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	maxName        = 120 // bytes, of a job's or a schedule's name
	maxClass       = 127
	maxCron        = 250
	maxDescription = 100

	firstMilli      = 100_000_000_000 // the first time that a column takes, beside 0
	longestDeclared = 100 * 365 * 24 * time.Hour

	maxScheduleData = 65535 // bytes, as QRTZ_EXECUTE.JOB_DATA takes
)

// Declaration is a job as a program declares it at every start.
type Declaration struct {
	Name, Class, Description string
	Data                     []byte // JSON; nil for none
	Options                  run.Options
	Schedules                []DeclaredSchedule
	Reset                    bool     // what an operator has changed becomes what is declared, too
	Was                      []string // former names of the job
}

// DeclaredSchedule is one schedule of a declared job.
type DeclaredSchedule struct {
	Name         string
	Spec         Spec // a zero Start is the time of the first declaration
	Misfire      Misfire
	CatchUpLimit int
	Data         []byte // JSON, in place of the job's; nil for none
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
	problems = append(problems, validateName("the name", d.Name, maxName), ValidateClass(d.Class))
	refuse(len([]rune(d.Description)) > maxDescription, "the description has %d characters, at most %d fit", len([]rune(d.Description)), maxDescription)
	refuse(slices.Contains(d.Was, d.Name) || slices.Contains(d.Was, ""), "Was (%q) must name other jobs", d.Was)
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

// ValidateClass says what is wrong with the name of a class.
func ValidateClass(class string) error {
	return validateName("class", class, maxClass)
}

// validateName says what is wrong with a name that a program gives. The server takes blanks at the end of a name for none.
func validateName(what, name string, most int) error {
	if len(name) > most {
		return fmt.Errorf("%s %q has %d bytes, at most %d fit", what, name, len(name), most)
	}
	if err := text.Name(name); err != nil {
		return fmt.Errorf("%s %w", what, err)
	}
	return nil
}

func (s DeclaredSchedule) validate() error {
	var schedules Schedules
	_, err := schedules.Parse(s.Spec)
	if s.Spec.Kind == "" {
		err = errors.New("it does not say when it fires: make it with Cron, Every or At")
	}
	err = errors.Join(err, validateName("the name", s.Name, maxName))
	if len(s.Spec.Cron) > maxCron {
		err = errors.Join(err, fmt.Errorf("the expression has %d bytes, at most %d fit", len(s.Spec.Cron), maxCron))
	}
	for _, t := range []struct {
		name  string
		value time.Time
		zero  bool // 1970 is a time: START_TIME 0 anchors a fixed rate, END_TIME 0 is none
	}{{"Start", s.Spec.Start, true}, {"End", s.Spec.End, false}} {
		ms := t.value.UnixMilli()
		if !t.value.IsZero() && (ms < firstMilli || ms > lastMilli) && (ms != 0 || !t.zero) {
			err = errors.Join(err, fmt.Errorf("%s (%s) must be between 1973 and 9999", t.name, t.value.Format(time.RFC3339)))
		}
	}
	if s.Spec.Repeat > math.MaxInt32 {
		err = errors.Join(err, fmt.Errorf("a Count of %d: want at most %d, or Unlimited", s.Spec.Repeat, math.MaxInt32))
	}
	if s.Spec.Every > longestDeclared {
		err = errors.Join(err, fmt.Errorf("the rate (%s) must be at most 100 years", s.Spec.Every))
	}
	if s.CatchUpLimit < 1 || s.CatchUpLimit > maxCatchUp {
		err = errors.Join(err, fmt.Errorf("CatchUpLimit (%d) must be between 1 and %d", s.CatchUpLimit, maxCatchUp))
	}
	if len(s.Data) > maxScheduleData {
		err = errors.Join(err, fmt.Errorf("the data has %d bytes, at most %d fit: each claim of a fire brings it along", len(s.Data), maxScheduleData))
	}
	return errors.Join(err, s.Misfire.Validate())
}

// Declare is DeclareIn in a transaction of its own.
func (s *Store) Declare(ctx context.Context, now time.Time, declarations []Declaration) (apart []Finding, err error) {
	err = s.db.InTx(ctx, func(tx *sqlx.Tx) error {
		apart, err = s.DeclareIn(ctx, tx, now, declarations)
		return err
	})
	return apart, err
}

// DeclareIn makes the stored jobs what the declarations say, all or none, except for what an operator has changed and the
// program has not: that it leaves alone, and returns it. What is as declared stays untouched, an operator's PAUSED included. A
// changed schedule fires from now on. A schedule that is no longer declared is COMPLETE. Schedules that were not declared but
// added by SQL, or by Schedule, are left alone. After an error the transaction must be rolled back, to a savepoint at least.
func (s *Store) DeclareIn(ctx context.Context, tx *sqlx.Tx, now time.Time, declarations []Declaration) (apart []Finding, err error) {
	for _, d := range declarations {
		if err := d.Validate(); err != nil {
			return nil, err
		}
		for _, other := range declarations {
			if slices.Contains(d.Was, other.Name) {
				return nil, fmt.Errorf("job %q: %q, its former name, is declared as another job's", d.Name, other.Name)
			}
		}
	}
	sorted := slices.Clone(declarations)
	slices.SortFunc(sorted, func(a, b Declaration) int { return strings.Compare(a.Name, b.Name) })
	for _, d := range sorted {
		more, err := s.declare(ctx, tx, now, d)
		if err != nil {
			return nil, fmt.Errorf("declare job %q: %w", d.Name, err)
		}
		apart = append(apart, more...)
	}
	return apart, nil
}

const (
	jobExistsSQL = `SELECT COUNT(*) FROM QRTZ_JOB WHERE APPLICATION = ? AND NAME = ?`

	addJobSQL = `
INSERT INTO QRTZ_JOB (APPLICATION, NAME, STATE, UPDATE_TIME, %s)
VALUES (?, ?, 'EXECUTING', ?%s)
    ON DUPLICATE KEY UPDATE ID = ID`

	lockDeclaredSQL = `
SELECT J.ID, J.NAME, J.JOB_CLASS, J.JOB_DATA, J.JOB_DESCRIPTION, J.DECLARED, J.FORMER_NAME, ` + run.OptionColumns + `
  FROM QRTZ_JOB J WHERE J.APPLICATION = ?`

	lockNamedSQL = lockDeclaredSQL + ` AND J.NAME = ? FOR UPDATE`
	lockByIDSQL  = lockDeclaredSQL + ` AND J.ID = ? FOR UPDATE`

	changeJobSQL   = `UPDATE QRTZ_JOB SET UPDATE_TIME = ?, %s WHERE ID = ?`
	setDeclaredSQL = `UPDATE QRTZ_JOB SET DECLARED = ? WHERE ID = ?`
)

type declaredJob struct {
	ID          int64          `db:"ID"`
	Name        string         `db:"NAME"`
	Class       string         `db:"JOB_CLASS"`
	Data        sql.NullString `db:"JOB_DATA"`
	Description sql.NullString `db:"JOB_DESCRIPTION"`
	Declared    sql.NullString `db:"DECLARED"`
	Former      sql.NullString `db:"FORMER_NAME"`
	run.OptionRow
}

func (j declaredJob) declaration() Declaration {
	d := Declaration{Name: j.Name, Class: j.Class, Description: j.Description.String, Options: j.Options()}
	if j.Data.Valid {
		d.Data = []byte(j.Data.String)
	}
	return d
}

func (s *Store) declare(ctx context.Context, tx *sqlx.Tx, now time.Time, d Declaration) (apart []Finding, err error) {
	if apart, err = s.rename(ctx, tx, d); err != nil {
		return nil, err
	}
	job, err := s.lockOrAdd(ctx, tx, now, d)
	if err != nil {
		return nil, err
	}
	former := job.Former.Valid && job.Former.String == d.Name // an earlier version of the program declares it
	if job.Name != d.Name && !former {                        // what the collation takes for one name, such as two that differ in case
		return nil, fmt.Errorf("its name is that of another job, %q, to the server (job %d): choose one of the two names", job.Name, job.ID)
	}
	stored, err := s.lockSchedules(ctx, tx, job.ID)
	if err != nil {
		return nil, err
	}
	base := readDeclared(job.Declared, namesOf(stored))
	m := merge(base.Job, d.columns(), job.declaration().columns(), d.Reset)
	if job.Former.Valid && !former && !slices.Contains(d.Was, job.Former.String) {
		m.write = append(m.write, column{"FORMER_NAME", nil}) // it may be another job's now
	}
	if len(m.write) > 0 {
		set, args := setColumns(m.write)
		if _, err := s.db.On(tx).Exec(ctx, fmt.Sprintf(changeJobSQL, set), slices.Concat([]any{now.UnixMilli()}, args, []any{job.ID})...); err != nil {
			return nil, err
		}
	}
	base.Job, base.JobRetired = fieldsOf(d.columns()), false
	changed, err := s.declareSchedules(ctx, tx, now, job.ID, d, stored, &base)
	if err != nil {
		return nil, err
	}
	apart = slices.Concat(apart, m.apart, changed)
	for i := range apart {
		apart[i].Job = d.Name
	}
	return apart, s.setDeclared(ctx, tx, job, base)
}

// lockOrAdd locks the row of a job, which it adds if there is none, under this name or formerly.
func (s *Store) lockOrAdd(ctx context.Context, tx *sqlx.Tx, now time.Time, d Declaration) (job declaredJob, err error) {
	var found bool
	if err := s.db.On(tx).Get(ctx, &found, jobExistsSQL, s.app, d.Name); err != nil {
		return job, err
	}
	if !found {
		id, err := s.jobFormerly(ctx, tx, d.Name)
		if err == nil {
			err = s.db.On(tx).Get(ctx, &job, lockByIDSQL, s.app, id)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return job, err
		}
	}
	if found {
		err := s.db.On(tx).Get(ctx, &job, lockNamedSQL, s.app, d.Name)
		if !errors.Is(err, sql.ErrNoRows) { // deleted since this transaction began
			return job, err
		}
	}
	names, args := "", []any{s.app, d.Name, now.UnixMilli()}
	columns := d.columns()
	for _, c := range columns {
		names += ", " + c.name
		args = append(args, c.value)
	}
	add := fmt.Sprintf(addJobSQL, names[len(", "):], strings.Repeat(", ?", len(columns)))
	if _, err := s.db.On(tx).Exec(ctx, add, args...); err != nil {
		return job, err
	}
	err = s.db.On(tx).Get(ctx, &job, lockNamedSQL, s.app, d.Name)
	return job, err
}

func (s *Store) setDeclared(ctx context.Context, tx *sqlx.Tx, job declaredJob, d declared) error {
	text, err := json.Marshal(d)
	if err != nil || job.Declared.Valid && job.Declared.String == string(text) {
		return err
	}
	_, err = s.db.On(tx).Exec(ctx, setDeclaredSQL, string(text), job.ID)
	return err
}

func setColumns(columns []column) (set string, args []any) {
	for _, c := range columns {
		set += ", " + c.name + " = ?"
		args = append(args, c.value)
	}
	return strings.TrimPrefix(set, ", "), args
}

const (
	lockSchedulesSQL = `
SELECT E.NAME, E.STATE_REASON, E.JOB_DATA, ` + rowColumns + `
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
	Data   sql.NullString `db:"JOB_DATA"`
}

func (r declaredRow) schedule() DeclaredSchedule {
	d := DeclaredSchedule{Name: r.Name, Spec: r.spec(), Misfire: r.Misfire, CatchUpLimit: r.CatchUpLimit}
	if r.Data.Valid {
		d.Data = []byte(r.Data.String)
	}
	return d
}

func (s *Store) lockSchedules(ctx context.Context, tx *sqlx.Tx, jobID int64) (stored []declaredRow, err error) {
	err = s.db.On(tx).Select(ctx, &stored, lockSchedulesSQL, jobID)
	return stored, err
}

func namesOf(rows []declaredRow) []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return names
}

// declareSchedules makes of base what is declared now.
func (s *Store) declareSchedules(ctx context.Context, tx *sqlx.Tx, now time.Time, jobID int64, d Declaration, stored []declaredRow, base *declared) (apart []Finding, err error) {
	rows := map[string]declaredRow{}
	for _, r := range stored {
		rows[r.Name] = r
	}
	ours := map[string]fields{}
	for _, schedule := range d.Schedules {
		was, known := base.Schedules[schedule.Name]
		if !known {
			was = base.Retired[schedule.Name]
		}
		ours[schedule.Name] = fieldsOf(schedule.columns())
		delete(base.Retired, schedule.Name)
		row, exists := rows[schedule.Name]
		var changed []Finding
		switch {
		case exists:
			changed, err = s.changeSchedule(ctx, tx, now, row, schedule, was, d.Reset)
		case known && ours[schedule.Name].unchanged(was) && !d.Reset:
			changed = []Finding{{}} // an operator has deleted it
		default:
			err = s.addSchedule(ctx, tx, now, jobID, schedule)
		}
		if err != nil {
			return nil, fmt.Errorf("schedule %q: %w", schedule.Name, err)
		}
		for i := range changed {
			changed[i].Schedule = schedule.Name
		}
		apart = append(apart, changed...)
	}
	if err := s.retireSchedules(ctx, tx, rows, ours, base); err != nil {
		return nil, err
	}
	base.Schedules = ours
	return apart, nil
}

// retireSchedules completes what was declared before and is not any more.
func (s *Store) retireSchedules(ctx context.Context, tx *sqlx.Tx, rows map[string]declaredRow, ours map[string]fields, base *declared) error {
	for _, name := range slices.Sorted(maps.Keys(base.Schedules)) {
		row, exists := rows[name]
		if _, declared := ours[name]; declared || !exists {
			continue
		}
		if _, err := s.db.On(tx).Exec(ctx, retireSQL, row.ID); err != nil {
			return fmt.Errorf("retire schedule %q: %w", name, err)
		}
		base.Retired[name] = base.Schedules[name]
	}
	maps.DeleteFunc(base.Retired, func(name string, _ fields) bool { _, exists := rows[name]; return !exists })
	return nil
}

const addScheduleSQL = `
INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, NAME, STATE, NEXT_FIRE_TIME, %s)
VALUES (?, ?, ?, ?, ?%s)`

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
	names, args := "", []any{jobID, s.app, d.Name, state, nextMillis(next)}
	columns := d.columns()
	for _, c := range columns {
		names += ", " + c.name
		args = append(args, c.value)
	}
	_, err = s.db.On(tx).Exec(ctx, fmt.Sprintf(addScheduleSQL, names[len(", "):], strings.Repeat(", ?", len(columns))), args...)
	if schema.Duplicate(err) {
		return errors.New("its name is that of another schedule of the job to the server: names that differ in case only, for example, are one to it")
	}
	return err
}

const changeScheduleSQL = `UPDATE QRTZ_EXECUTE SET %s WHERE ID = ?`

// changeSchedule changes a stored schedule. base is what was declared of it last. Only another rule, or another start, count or
// end, makes for another next fire.
func (s *Store) changeSchedule(ctx context.Context, tx *sqlx.Tx, now time.Time, old declaredRow, d DeclaredSchedule, base fields, reset bool) ([]Finding, error) {
	m, result := mergeSchedule(&s.schedules, base, d, old.schedule(), reset)
	columns, was := m.write, old.spec()
	retired := old.State == Complete && old.Reason.String == noLongerDeclared
	if !sameSpec(was, result.Spec) || retired {
		schedule, err := s.schedules.Parse(result.Spec)
		if err != nil {
			return nil, err
		}
		e := old.execute(&s.schedules)
		e.Schedule, e.Problem = schedule, nil
		if was.Kind != result.Spec.Kind || millis(was.Start, 0) != millis(result.Spec.Start, 0) {
			e.Fired = 0 // another series: its fires are counted from 0
		}
		state, next := old.State, e.changedNext(now)
		switch {
		case next.IsZero():
			state = Complete
		case state != Paused && state != Init:
			state = Executing
		}
		columns = append(columns, column{"STATE", state}, column{"STATE_REASON", nil}, column{"NEXT_FIRE_TIME", nextMillis(next)}, column{"TIME_TRIGGERED", e.Fired})
	}
	if len(columns) == 0 {
		return m.apart, nil
	}
	set, args := setColumns(columns)
	_, err := s.db.On(tx).Exec(ctx, fmt.Sprintf(changeScheduleSQL, set), append(args, old.ID)...)
	return m.apart, err
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
