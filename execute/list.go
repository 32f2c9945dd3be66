package execute

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// Record is a row of QRTZ_EXECUTE as it is listed.
type Record struct {
	ID       int64        `db:"ID" json:"id"`
	App      string       `db:"-" json:"app"` // its own, or else that of its job; empty if it has neither
	JobID    int64        `db:"JOB_ID" json:"job_id"`
	JobName  *string      `db:"JOB_NAME" json:"job"`
	Class    *string      `db:"JOB_CLASS" json:"class"` // nil if there is no such job
	Name     *string      `db:"NAME" json:"name"`
	Type     string       `db:"JOB_TYPE" json:"type"`
	Schedule string       `db:"SCHEDULE" json:"schedule"`
	Zone     *string      `db:"ZONE_ID" json:"zone"`
	Count    *int64       `db:"REPEAT_COUNT" json:"count"`
	Fired    int64        `db:"FIRED" json:"fired"`
	State    State        `db:"STATE" json:"state"`
	Reason   *string      `db:"STATE_REASON" json:"reason"`
	Why      string       `db:"-" json:"why,omitempty"` // it cannot run by itself
	Misfire  Misfire      `db:"MISFIRE" json:"misfire"`
	Prev     schema.Time  `db:"PREV_FIRE_TIME" json:"prev_fire"`
	Next     schema.Time  `db:"NEXT_FIRE_TIME" json:"next_fire"`
	Start    schema.Time  `db:"START_TIME" json:"start"`
	End      schema.Time  `db:"END_TIME" json:"end"`
	Data     *string      `db:"JOB_DATA" json:"data,omitempty"` // in place of the job's
	Differs  []Difference `db:"-" json:"differs,omitempty"`

	Cron    sql.NullString `db:"CRON" json:"-"`
	Every   sql.NullInt64  `db:"REPEAT_INTERVAL" json:"-"`
	Starts  int64          `db:"START_KEY" json:"-"`
	Ends    sql.NullInt64  `db:"END_KEY" json:"-"`
	CatchUp int            `db:"CATCH_UP_LIMIT" json:"-"`

	OwnApp sql.NullString `db:"APPLICATION" json:"-"`
	JobApp sql.NullString `db:"JOB_APPLICATION" json:"-"`
	At     sql.NullInt64  `db:"AT_KEY" json:"-"` // NEXT_FIRE_TIME, whatever it says
}

// Job is the name of the execute's job, or else its class.
func (e Record) Job() string { return title(e.JobName, e.Class) }

// at is the time that a list goes by.
func (e *Record) at() int64 {
	if e.At.Valid {
		return e.At.Int64
	}
	return schema.NoTime
}

// States are the states of executes and of jobs.
var States = []State{Init, Executing, Paused, Complete, Error}

const (
	// The texts of two tables may have different collations: which app it is, is for us to say.
	executeColumns = `
SELECT E.ID, E.APPLICATION, J.APPLICATION AS JOB_APPLICATION, E.PID AS JOB_ID, J.NAME AS JOB_NAME, J.JOB_CLASS, E.NAME, E.JOB_TYPE,
       CASE WHEN E.JOB_TYPE = 'CRON' THEN COALESCE(E.CRON, '') WHEN E.REPEAT_COUNT = 1 THEN 'once'
            ELSE CONCAT('every ', COALESCE(E.REPEAT_INTERVAL, 0), ' ms') END AS SCHEDULE,
       E.ZONE_ID, E.REPEAT_COUNT, GREATEST(COALESCE(E.TIME_TRIGGERED, 0), 0) AS FIRED, E.STATE, E.STATE_REASON, E.MISFIRE,
       E.PREV_FIRE_TIME, E.NEXT_FIRE_TIME, E.NEXT_FIRE_TIME AS AT_KEY, E.START_TIME, E.END_TIME,
       E.CRON, E.REPEAT_INTERVAL, E.START_TIME AS START_KEY, E.END_TIME AS END_KEY, E.CATCH_UP_LIMIT, E.JOB_DATA`

	executeSQL = executeColumns + ` FROM QRTZ_EXECUTE E LEFT JOIN QRTZ_JOB J ON J.ID = E.PID WHERE E.ID = ?`

	executesOpenSQL  = executeColumns + ` FROM (`
	executesCloseSQL = `) P STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = P.ID LEFT JOIN QRTZ_JOB J ON J.ID = E.PID ORDER BY `

	executesByIDSQL = `SELECT ID FROM QRTZ_EXECUTE WHERE ID > ? ORDER BY ID LIMIT ?`

	// In the order of the index on PID, whatever its name is in tables of version 1.3.
	byPID = `IGNORE INDEX (QRTZ_EXECUTE_NAME) IGNORE INDEX FOR ORDER BY (PRIMARY)`

	executesOfJobSQL        = `SELECT ID FROM QRTZ_EXECUTE ` + byPID + ` WHERE PID = ? AND ID > ? ORDER BY ID LIMIT ?`
	executesOfJobInStateSQL = `
SELECT ID FROM QRTZ_EXECUTE ` + byPID + ` WHERE PID = ? AND STATE = ? AND ID > ? ORDER BY ID LIMIT ?`
	executesInStateOfJobSQL = `
SELECT ID FROM QRTZ_EXECUTE FORCE INDEX (QRTZ_EXECUTE_DUE) WHERE APPLICATION = ? AND STATE = ? AND PID = ? AND ID > ? ORDER BY ID LIMIT ?`
	executeInStateSQL = `SELECT 1 FROM QRTZ_EXECUTE FORCE INDEX (QRTZ_EXECUTE_DUE) WHERE APPLICATION = ? AND STATE = ?`

	executesInStateSQL = `
SELECT E.ID, E.NEXT_FIRE_TIME FROM QRTZ_EXECUTE E FORCE INDEX (QRTZ_EXECUTE_DUE)`
	withJobSQL = ` STRAIGHT_JOIN QRTZ_JOB J ON J.ID = E.PID AND J.APPLICATION = ?`

	executesWithTimeSQL = ` WHERE E.APPLICATION <=> ? AND E.STATE = ?
   AND (E.NEXT_FIRE_TIME > ? OR E.NEXT_FIRE_TIME = ? AND E.ID > ?) ORDER BY E.NEXT_FIRE_TIME, E.ID LIMIT ?`
	executesWithoutTimeSQL = ` WHERE E.APPLICATION <=> ? AND E.STATE = ? AND E.NEXT_FIRE_TIME IS NULL AND E.ID > ? ORDER BY E.ID LIMIT ?`
)

// Filter says which executes to list; what is empty lets all pass. With a job, its app must be given, too.
type Filter struct {
	App   string
	State State
	JobID int64
	After schema.Cursor
	Limit int
}

// byTime tells whether the list goes by NEXT_FIRE_TIME.
func (f Filter) byTime() bool { return f.JobID == 0 && (f.App != "" || f.State != "") }

// List lists executes: of an app or in a state by their next fire, those without one last, else by id.
func List(ctx context.Context, on schema.On, handled *node.Handled, f Filter) (schema.Part[Record], error) {
	if err := f.After.Check(f.byTime()); err != nil {
		return schema.Part[Record]{}, err
	}
	read, key := executesByID(on, f), func(e *Record) schema.Cursor { return schema.Cursor{ID: e.ID} }
	if f.byTime() {
		read, key = executesByTime(on, f), func(e *Record) schema.Cursor { return schema.Cursor{ByTime: true, At: e.at(), ID: e.ID} }
	}
	all, err := schema.ReadPart("schedules", f.Limit, f.After, func(after schema.Cursor, n int) ([]Record, error) { return read(ctx, after, n) }, key)
	if err != nil {
		return all, err
	}
	if err := explain(ctx, handled, all.Rows); err != nil {
		return all, err
	}
	return all, compare(ctx, on, all.Rows)
}

// recordReader reads a page of a list.
type recordReader func(ctx context.Context, after schema.Cursor, n int) ([]Record, error)

func (e *Record) nameApp() {
	if e.App = e.OwnApp.String; !e.OwnApp.Valid {
		e.App = e.JobApp.String
	}
}

func executesByID(on schema.On, f Filter) recordReader {
	return func(ctx context.Context, after schema.Cursor, n int) ([]Record, error) {
		if after == (schema.Cursor{}) {
			after.ID = math.MinInt64
		}
		rareState := false
		if f.JobID != 0 && f.State != "" {
			var err error
			if rareState, err = schema.AtMost(ctx, on, schema.FewRows, schema.Query{Text: executeInStateSQL, Args: []any{f.App, f.State}}); err != nil {
				return nil, err
			}
		}
		return schema.RowsOf[Record](ctx, on, executesByIDQuery(f, rareState, after.ID, n))
	}
}

func executesByIDQuery(f Filter, rareState bool, after int64, n int) schema.Query {
	q := schema.Query{Text: executesByIDSQL, Args: []any{after, n}}
	switch {
	case rareState:
		q = schema.Query{Text: executesInStateOfJobSQL, Args: []any{f.App, f.State, f.JobID, after, n}}
	case f.JobID != 0 && f.State != "":
		q = schema.Query{Text: executesOfJobInStateSQL, Args: []any{f.JobID, f.State, after, n}}
	case f.JobID != 0:
		q = schema.Query{Text: executesOfJobSQL, Args: []any{f.JobID, after, n}}
	}
	return schema.Query{Text: executesOpenSQL + q.Text + executesCloseSQL + `P.ID`, Args: q.Args}
}

func executesByTime(on schema.On, f Filter) recordReader {
	var apps []sql.NullString
	return func(ctx context.Context, after schema.Cursor, n int) (rows []Record, err error) {
		if after == (schema.Cursor{}) {
			after.At = math.MinInt64
		}
		if apps == nil {
			if apps, err = appsOfExecutes(ctx, on, f.App); err != nil {
				return nil, err
			}
		}
		if after.At != schema.NoTime {
			if rows, err = mergedExecutes(ctx, on, executeBranches(apps, f, after, n), n); err != nil || len(rows) == n {
				return rows, err
			}
			after = schema.Cursor{At: schema.NoTime, ID: math.MinInt64}
		}
		last, err := mergedExecutes(ctx, on, executeBranches(apps, f, after, n-len(rows)), n-len(rows))
		return append(rows, last...), err
	}
}

// appsOfExecutes are the apps to look for: those there are, or the one asked for, and NULL for what no node has adopted yet.
func appsOfExecutes(ctx context.Context, on schema.On, app string) ([]sql.NullString, error) {
	if app == "" {
		return schema.AppsIn(ctx, on, "QRTZ_EXECUTE")
	}
	return []sql.NullString{{}, {String: app, Valid: true}}, nil
}

func mergedExecutes(ctx context.Context, on schema.On, all []schema.Query, n int) (rows []Record, err error) {
	for some := range slices.Chunk(all, schema.ListBranches) {
		more, err := schema.RowsOf[Record](ctx, on, executesByTimeQuery(some, n))
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	slices.SortFunc(rows, func(a, b Record) int { return cmp.Or(cmp.Compare(a.at(), b.at()), cmp.Compare(a.ID, b.ID)) })
	return rows[:min(n, len(rows))], nil
}

// executeBranches are walks along the index, one for each app and state. What has not been adopted belongs to the app of
// its job.
func executeBranches(apps []sql.NullString, f Filter, after schema.Cursor, n int) (all []schema.Query) {
	states := States
	if f.State != "" {
		states = []State{f.State}
	}
	for _, app := range apps {
		for _, state := range states {
			q := schema.Query{Text: executesInStateSQL}
			if !app.Valid && f.App != "" {
				q = schema.Query{Text: executesInStateSQL + withJobSQL, Args: []any{f.App}}
			}
			if q.Args = append(q.Args, app, state); after.At == schema.NoTime {
				q = schema.Query{Text: q.Text + executesWithoutTimeSQL, Args: append(q.Args, after.ID, n)}
			} else {
				q = schema.Query{Text: q.Text + executesWithTimeSQL, Args: append(q.Args, after.At, after.At, after.ID, n)}
			}
			all = append(all, q)
		}
	}
	return all
}

func executesByTimeQuery(some []schema.Query, n int) schema.Query {
	q := schema.Merged(some, "NEXT_FIRE_TIME, ID", n)
	return schema.Query{Text: executesOpenSQL + q.Text + executesCloseSQL + `P.NEXT_FIRE_TIME, P.ID`, Args: q.Args}
}

// Find finds an execute of any app.
func Find(ctx context.Context, on schema.On, handled *node.Handled, id int64) (Record, error) {
	rows, err := schema.RowsOf[Record](ctx, on, schema.Query{Text: executeSQL, Args: []any{id}})
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("read schedule %d: %w", id, err)
	case len(rows) == 0:
		return Record{}, schema.NotFoundError{What: fmt.Sprintf("schedule %d", id)}
	}
	if err = explain(ctx, handled, rows); err == nil {
		err = compare(ctx, on, rows)
	}
	return rows[0], err
}

// explain names the apps of rows, and says of those that cannot run by themselves why not.
func explain(ctx context.Context, handled *node.Handled, rows []Record) (err error) {
	for i := range rows {
		r := &rows[i]
		r.nameApp()
		switch {
		case r.State == Complete || r.State == Error:
		case r.Class == nil:
			r.Why = run.JobGone
		case r.OwnApp.Valid && r.OwnApp.String != r.JobApp.String:
			r.Why = run.JobElsewhere
		default:
			if r.Why, err = handled.WhyNot(ctx, r.App, *r.Class); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e Record) spec() Spec {
	r := row{Kind: Kind(e.Type), Cron: e.Cron, Every: e.Every, Start: e.Starts, End: e.Ends}
	if e.Zone != nil {
		r.Zone = sql.NullString{String: *e.Zone, Valid: true}
	}
	if e.Count != nil {
		r.Repeat = sql.NullInt64{Int64: *e.Count, Valid: true}
	}
	return r.spec()
}

// Location is the zone of the schedule's times: UTC for a fixed rate, and for a zone that there is not.
func (e Record) Location() *time.Location {
	if e.Type != string(Cron) || e.Zone == nil {
		return time.UTC
	}
	return run.Location(*e.Zone)
}

// Fires are the next n fires of an execute that is EXECUTING, from the one in its row on.
func (e Record) Fires(n int) (fires []time.Time) {
	var schedules Schedules
	if e.State != Executing || e.Next.IsZero() {
		return nil
	}
	schedule, err := schedules.Parse(e.spec())
	if err != nil {
		return nil
	}
	zone := e.Location()
	for next, fired := e.Next.Time, e.Fired; !next.IsZero() && len(fires) < n; next = schedule.After(next, fired) {
		fires = append(fires, next.In(zone))
		fired++
	}
	return fires
}
