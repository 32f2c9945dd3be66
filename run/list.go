package run

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

// Record is a row of QRTZ_RUN as it is listed.
type Record struct {
	ID          int64       `db:"ID" json:"id"`
	App         string      `db:"APPLICATION" json:"app"`
	JobID       int64       `db:"JOB_ID" json:"job_id"`
	JobName     *string     `db:"JOB_NAME" json:"job"`
	Class       *string     `db:"JOB_CLASS" json:"class"` // nil once the job has been deleted
	ExecuteID   *int64      `db:"EXECUTE_ID" json:"execute_id"`
	Schedule    *string     `db:"EXECUTE_NAME" json:"schedule"`
	Zone        *string     `db:"ZONE_ID" json:"-"` // of its schedule
	State       State       `db:"STATE" json:"state"`
	Why         string      `db:"-" json:"why,omitempty"` // it cannot run by itself
	Attempt     int         `db:"ATTEMPT" json:"attempt"`
	Origin      int64       `db:"ORIGIN" json:"origin"` // the first attempt; its own id if it is that
	Recovers    *int64      `db:"RECOVERS" json:"recovers"`
	Key         *string     `db:"RUN_KEY" json:"key"`
	Node        *string     `db:"HOST_IP" json:"node"`
	Fence       int64       `db:"FENCE" json:"fence"`
	Fire        schema.Time `db:"FIRE_TIME" json:"fire"`
	AvailableAt schema.Time `db:"AVAILABLE_AT" json:"available_at"`
	ClaimedAt   schema.Time `db:"CLAIMED_AT" json:"claimed_at"`
	StartedAt   schema.Time `db:"STARTED_AT" json:"started_at"`
	FinishedAt  schema.Time `db:"FINISHED_AT" json:"finished_at"`
	Cancelling  bool        `db:"CANCELLING" json:"cancelling"`
	LastFire    schema.Time `db:"LAST_FIRE_TIME" json:"last_fire"`
	Fires       int64       `db:"FIRE_COUNT" json:"fires"`
	Progress    *int        `db:"PROGRESS" json:"progress"`
	Data        *string     `db:"JOB_DATA" json:"data"` // in a list, nil if it is larger than 64 KiB
	Message     *string     `db:"MESSAGE" json:"message"`

	At       int64   `db:"AT_KEY" json:"-"`   // AVAILABLE_AT, whatever it says
	FireKey  int64   `db:"FIRE_KEY" json:"-"` // FIRE_TIME, likewise
	JobApp   *string `db:"JOB_APP" json:"-"`
	Instance *int64  `db:"INSTANCE" json:"-"`
	History  *string `db:"HISTORY" json:"-"` // of its job
}

// Job is the name of the run's job, or else its class.
func (r Record) Job() string {
	switch {
	case r.Class == nil:
		return "(deleted)"
	case r.JobName != nil && *r.JobName != "":
		return *r.JobName
	default:
		return *r.Class
	}
}

// listedZones are those of what is listed.
var listedZones zones

// Location is a time zone by its name; UTC for one that there is not.
func Location(name string) *time.Location {
	if name == "" {
		return time.UTC
	}
	return listedZones.named(name)
}

// Location is the zone of the run's fire time: that of its schedule, or UTC.
func (r Record) Location() *time.Location {
	if r.Zone == nil {
		return time.UTC
	}
	return Location(*r.Zone)
}

// Ended tells whether the run has come to an end.
func (r Record) Ended() bool { return r.State != Pending && r.State != Running }

const (
	recordColumns = `
SELECT R.ID, R.APPLICATION, R.JOB_ID, J.NAME AS JOB_NAME, J.JOB_CLASS, J.APPLICATION AS JOB_APP, J.HISTORY, R.EXECUTE_ID, E.NAME AS EXECUTE_NAME,
       IF(E.JOB_TYPE = 'CRON', E.ZONE_ID, NULL) AS ZONE_ID, R.STATE, R.ATTEMPT, COALESCE(R.ORIGIN, R.ID) AS ORIGIN, R.RECOVERS, R.RUN_KEY, R.INSTANCE, R.HOST_IP, R.FENCE,
       R.FIRE_TIME, R.FIRE_TIME AS FIRE_KEY, R.AVAILABLE_AT, R.AVAILABLE_AT AS AT_KEY, R.CLAIMED_AT, R.STARTED_AT, R.FINISHED_AT,
       R.CANCEL_AT IS NOT NULL AND R.STATE = 'RUNNING' AS CANCELLING,
       R.LAST_FIRE_TIME, R.FIRE_COUNT, R.PROGRESS, R.MESSAGE, `

	wholeData = `COALESCE(R.JOB_DATA, E.JOB_DATA, J.JOB_DATA) AS JOB_DATA`
	smallData = `IF(LENGTH(COALESCE(R.JOB_DATA, E.JOB_DATA, J.JOB_DATA)) <= 65536, COALESCE(R.JOB_DATA, E.JOB_DATA, J.JOB_DATA), NULL) AS JOB_DATA`

	recordJoins = ` LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID LEFT JOIN QRTZ_EXECUTE E ON E.ID = R.EXECUTE_ID`

	recordFromSQL = ` FROM QRTZ_RUN R` + recordJoins + ` WHERE R.ID = ?`
	recordSQL     = recordColumns + wholeData + recordFromSQL
	lookSQL       = recordColumns + smallData + recordFromSQL
	attemptsSQL   = listOpenSQL + `SELECT ID FROM QRTZ_RUN WHERE ID = ? UNION SELECT ID FROM QRTZ_RUN WHERE ORIGIN = ?` + listCloseSQL + `R.ATTEMPT, R.ID LIMIT ?`

	// The rows that a list consists of are found in an index, and only then read.
	listOpenSQL  = recordColumns + smallData + ` FROM (`
	listCloseSQL = `) P STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = P.ID` + recordJoins + ` ORDER BY `

	byIDSQL  = `SELECT ID FROM QRTZ_RUN WHERE ID < ?`
	ofJobSQL = `SELECT ID FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_JOB) WHERE JOB_ID = ? AND ID < ?`

	// Of a job with a key. A unique index is not walked in the order of ids: its entries for the key are sorted, if there are few.
	ofKeySQL = `SELECT ID FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_KEY) WHERE RUN_KEY = ? AND JOB_ID = ?`

	// Of a job in a state, or in a span of time: by the index in which fewer rows have to be looked at.
	inStateSQL = `SELECT ID FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE) WHERE APPLICATION = ? AND STATE IN (?)`

	byTimeSQL = `SELECT ID, AVAILABLE_AT FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE) WHERE APPLICATION = ? AND STATE = ? AND (AVAILABLE_AT < ? OR AVAILABLE_AT = ? AND ID < ?)`

	ofExecuteSQL = `
SELECT ID, FIRE_TIME, ATTEMPT FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_FIRE) WHERE EXECUTE_ID = ? AND (FIRE_TIME < ? OR FIRE_TIME = ? AND ATTEMPT < ?)`
)

// mostAttempts is how many attempts of a run are read.
const mostAttempts = 10_000

// States are the states of runs.
var States = []State{Pending, Running, Succeeded, Failed, Lost, Cancelled, Skipped}

// Filter says which runs to list; what is zero lets all pass. With a job or an execute, its app must be given, too.
type Filter struct {
	App       string
	State     State
	JobID     int64
	ExecuteID int64
	Key       string // with JobID

	// Since and Until are when the runs became available, the end excluded; of an execute's runs, when they were due.
	Since, Until time.Time

	After schema.Cursor
	Limit int
}

// byTime tells whether the list goes by AVAILABLE_AT, and byFire whether by FIRE_TIME and ATTEMPT. Else it goes by id.
func (f Filter) byTime() bool {
	return f.JobID == 0 && f.ExecuteID == 0 && (f.App != "" || f.State != "" || !f.Since.IsZero() || !f.Until.IsZero())
}
func (f Filter) byFire() bool { return f.ExecuteID != 0 }

func (f Filter) states() []State {
	if f.State != "" {
		return []State{f.State}
	}
	return States
}

// span is q with the bounds of the filter's time in a column.
func (f Filter) span(q schema.Query, column string) schema.Query {
	if !f.Since.IsZero() {
		q = q.And(column+" >= ?", ceilMillis(f.Since))
	}
	if !f.Until.IsZero() {
		q = q.And(column+" < ?", ceilMillis(f.Until))
	}
	return q
}

// ceilMillis is the first millisecond not before t.
func ceilMillis(t time.Time) int64 { return t.Add(time.Millisecond - time.Nanosecond).UnixMilli() }

// List lists runs, the newest first: of an execute by fire time, of an app or in a state by the time at which they were
// available, else by id. Each PENDING row says why it cannot run by itself, if handled says so.
func List(ctx context.Context, on schema.On, handled *node.Handled, f Filter) (schema.Part[Record], error) {
	if err := f.After.Check(f.byTime() || f.byFire()); err != nil {
		return schema.Part[Record]{}, err
	}
	read, key := f.readByID(on), func(r *Record) schema.Cursor { return schema.Cursor{ID: r.ID} }
	switch {
	case f.byFire():
		read, key = f.readByFire(on), func(r *Record) schema.Cursor {
			return schema.Cursor{ByTime: true, At: r.FireKey, ID: int64(r.Attempt)}
		}
	case f.byTime():
		read, key = f.readByTime(on), func(r *Record) schema.Cursor { return schema.Cursor{ByTime: true, At: r.At, ID: r.ID} }
	}
	all, err := schema.ReadPart("runs", f.Limit, f.After, func(after schema.Cursor, n int) ([]Record, error) { return read(ctx, after, n) }, key)
	if err != nil {
		return all, err
	}
	return all, explain(ctx, handled, all.Rows)
}

// pageReader reads a page of a list.
type pageReader func(ctx context.Context, after schema.Cursor, n int) ([]Record, error)

func (f Filter) readByID(on schema.On) pageReader {
	return func(ctx context.Context, after schema.Cursor, n int) ([]Record, error) {
		if after == (schema.Cursor{}) {
			after.ID = math.MaxInt64
		}
		few, err := f.few(ctx, on)
		if err != nil {
			return nil, err
		}
		return schema.RowsOf[Record](ctx, on, f.byIDQuery(few, after.ID, n))
	}
}

// few tells whether to look for a job's or an execute's runs among those with the key, or in the state and the span of time: there are
// few.
func (f Filter) few(ctx context.Context, on schema.On) (bool, error) {
	bounded := f.State != "" || f.JobID != 0 && (!f.Since.IsZero() || !f.Until.IsZero())
	switch {
	case f.Key != "":
		return schema.AtMost(ctx, on, schema.FewRows, f.ofKey())
	case f.JobID == 0 && f.ExecuteID == 0 || !bounded:
		return false, nil
	default:
		return schema.AtMost(ctx, on, schema.FewRows, f.inState())
	}
}

// ofKey are the ids of all runs of the job with the key.
func (f Filter) ofKey() schema.Query {
	return schema.Query{Text: ofKeySQL, Args: []any{f.Key, f.JobID}}
}

// inState are the ids of all runs in the state and the span of time.
func (f Filter) inState() schema.Query {
	q := schema.Query{Text: inStateSQL, Args: []any{f.App, f.states()}}
	if f.byFire() {
		return q
	}
	return f.span(q, "AVAILABLE_AT")
}

func (f Filter) byIDQuery(few bool, before int64, n int) schema.Query {
	const order = ` ORDER BY ID DESC LIMIT ?`
	narrowed := func(q schema.Query) schema.Query {
		if f.State != "" {
			q = q.And(`STATE = ?`, f.State)
		}
		return f.span(q, "AVAILABLE_AT")
	}
	var q schema.Query
	switch {
	case few && f.Key != "":
		q = narrowed(f.ofKey().And(`ID < ?`, before))
	case few:
		q = f.inState().And(`JOB_ID = ? AND ID < ?`, f.JobID, before)
	case f.JobID != 0:
		if q = narrowed(schema.Query{Text: ofJobSQL, Args: []any{f.JobID, before}}); f.Key != "" {
			q = q.And(`RUN_KEY = ?`, f.Key)
		}
	default:
		q = schema.Query{Text: byIDSQL, Args: []any{before}}
	}
	return schema.Query{Text: listOpenSQL + q.Text + order + listCloseSQL + `P.ID DESC`, Args: append(q.Args, n)}
}

func (f Filter) readByFire(on schema.On) pageReader {
	return func(ctx context.Context, after schema.Cursor, n int) ([]Record, error) {
		if after == (schema.Cursor{}) {
			after.At, after.ID = math.MaxInt64, math.MaxInt32
		}
		few, err := f.few(ctx, on)
		if err != nil {
			return nil, err
		}
		return schema.RowsOf[Record](ctx, on, f.byFireQuery(few, after, n))
	}
}

func (f Filter) byFireQuery(few bool, after schema.Cursor, n int) schema.Query {
	q := schema.Query{Text: ofExecuteSQL, Args: []any{f.ExecuteID, after.At, after.At, after.ID}}
	if few {
		q = f.inState().And(`EXECUTE_ID = ? AND (FIRE_TIME < ? OR FIRE_TIME = ? AND ATTEMPT < ?)`, q.Args...)
	} else if f.State != "" {
		q = q.And(`STATE = ?`, f.State)
	}
	q = f.span(q, "FIRE_TIME")
	return schema.Query{
		Text: listOpenSQL + q.Text + ` ORDER BY FIRE_TIME DESC, ATTEMPT DESC LIMIT ?` + listCloseSQL + `R.FIRE_TIME DESC, R.ATTEMPT DESC`, Args: append(q.Args, n),
	}
}

func (f Filter) readByTime(on schema.On) pageReader {
	var apps []sql.NullString
	return func(ctx context.Context, after schema.Cursor, n int) (rows []Record, err error) {
		if after == (schema.Cursor{}) {
			after.At, after.ID = math.MaxInt64, math.MaxInt64
		}
		if f.App != "" {
			apps = []sql.NullString{{String: f.App, Valid: true}}
		} else if apps == nil {
			if apps, err = schema.AppsIn(ctx, on, "QRTZ_RUN"); err != nil {
				return nil, err
			}
		}
		for some := range slices.Chunk(f.branches(apps, after, n), schema.ListBranches) {
			more, err := schema.RowsOf[Record](ctx, on, byTimeQuery(some, n))
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
		}
		slices.SortFunc(rows, func(a, b Record) int { return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.ID, a.ID)) })
		return rows[:min(n, len(rows))], nil
	}
}

// branches are walks along the index, one for each app and state.
func (f Filter) branches(apps []sql.NullString, after schema.Cursor, n int) (all []schema.Query) {
	for _, app := range apps {
		for _, state := range f.states() {
			q := f.span(schema.Query{Text: byTimeSQL, Args: []any{app, state, after.At, after.At, after.ID}}, "AVAILABLE_AT")
			all = append(all, schema.Query{Text: q.Text + ` ORDER BY AVAILABLE_AT DESC, ID DESC LIMIT ?`, Args: append(q.Args, n)})
		}
	}
	return all
}

func byTimeQuery(some []schema.Query, n int) schema.Query {
	q := schema.Merged(some, "AVAILABLE_AT DESC, ID DESC", n)
	return schema.Query{Text: listOpenSQL + q.Text + listCloseSQL + `P.AVAILABLE_AT DESC, P.ID DESC`, Args: q.Args}
}

// Find finds a run of any app.
func Find(ctx context.Context, on schema.On, handled *node.Handled, id int64) (Record, error) {
	return find(ctx, on, handled, recordSQL, id)
}

// Look is Find without data that is larger than 64 KiB.
func Look(ctx context.Context, on schema.On, handled *node.Handled, id int64) (Record, error) {
	return find(ctx, on, handled, lookSQL, id)
}

func find(ctx context.Context, on schema.On, handled *node.Handled, query string, id int64) (Record, error) {
	rows, err := schema.RowsOf[Record](ctx, on, schema.Query{Text: query, Args: []any{id}})
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("read run %d: %w", id, err)
	case len(rows) == 0:
		return Record{}, schema.NotFoundError{What: fmt.Sprintf("run %d", id)}
	}
	err = explain(ctx, handled, rows)
	return rows[0], err
}

// Attempts lists the attempts of what a run is an attempt of, itself among them, from the first on. Those that have been
// deleted are missing.
func Attempts(ctx context.Context, on schema.On, handled *node.Handled, r Record) ([]Record, error) {
	rows, err := schema.RowsOf[Record](ctx, on, schema.Query{Text: attemptsSQL, Args: []any{r.Origin, r.Origin, mostAttempts}})
	if err != nil {
		return nil, fmt.Errorf("read the attempts of run %d: %w", r.ID, err)
	}
	return rows, explain(ctx, handled, rows)
}

// explain says of rows that cannot run by themselves why not.
func explain(ctx context.Context, handled *node.Handled, rows []Record) (err error) {
	for i := range rows {
		r := &rows[i]
		switch {
		case r.State == Running && r.Instance == nil:
			r.Why, _, _ = strings.Cut(noInstance, ";")
		case r.State != Pending:
		case r.Class == nil:
			r.Why = JobGone
		case r.JobApp == nil || *r.JobApp != r.App:
			r.Why = JobElsewhere
		default:
			if r.Why, err = handled.WhyNot(ctx, r.App, *r.Class); err != nil {
				return err
			}
		}
	}
	return nil
}
