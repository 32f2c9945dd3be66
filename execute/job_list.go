package execute

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// JobRecord is a row of QRTZ_JOB as it is listed, and what is known of its schedules.
type JobRecord struct {
	ID          int64        `db:"ID" json:"id"`
	App         string       `db:"APPLICATION" json:"app"`
	Name        *string      `db:"NAME" json:"name"`
	Class       string       `db:"JOB_CLASS" json:"class"`
	State       State        `db:"STATE" json:"state"`
	Why         string       `db:"-" json:"why,omitempty"` // its runs cannot run by themselves
	Data        *string      `db:"JOB_DATA" json:"data"`   // nil if it is larger than 64 KiB
	Description *string      `db:"JOB_DESCRIPTION" json:"description"`
	Recovery    bool         `db:"RECOVERY" json:"recovery"`
	Overlap     string       `db:"OVERLAP" json:"overlap"`
	QueueLimit  int          `db:"QUEUE_LIMIT" json:"queue_limit"`
	Timeout     int64        `db:"RUN_TIMEOUT" json:"timeout_ms"`
	Attempts    int          `db:"ATTEMPTS" json:"attempts"`
	Backoff     int64        `db:"BACKOFF" json:"backoff_ms"`
	MaxBackoff  int64        `db:"MAX_BACKOFF" json:"max_backoff_ms"`
	History     string       `db:"HISTORY" json:"history"`
	KeepFor     int64        `db:"KEEP_FOR" json:"keep_for_ms"`
	KeepRuns    int          `db:"KEEP_RUNS" json:"keep_runs"`
	MaxRunning  int          `db:"MAX_RUNNING" json:"max_running"`
	Priority    int          `db:"PRIORITY" json:"priority"`
	Executes    int          `db:"EXECUTES" json:"executes"` // counted up to MaxCount
	Next        schema.Time  `db:"NEXT" json:"next_fire"`    // of its active executes; none if there are more than MaxCount
	Differs     []Difference `db:"-" json:"differs,omitempty"`

	DataText     sql.NullString `db:"DATA_TEXT" json:"-"` // as DECLARED has it
	DeclaredText sql.NullString `db:"DECLARED_JOB" json:"-"`
}

// MaxCount is how far the executes of a job, and the jobs of an app, are counted. One more stands for any number.
const MaxCount = 1000

// Title is the job's name, or else its class.
func (j JobRecord) Title() string { return title(j.Name, &j.Class) }

var (
	// A job may have a million executes: whether it has more than MaxCount is asked first.
	manySQL = fmt.Sprintf(`(SELECT 1 FROM QRTZ_EXECUTE E FORCE INDEX (QRTZ_EXECUTE_NAME) WHERE E.PID = J.ID LIMIT 1 OFFSET %d) IS NOT NULL`, MaxCount)

	jobColumns = `
SELECT J.ID, J.APPLICATION, J.NAME, J.JOB_CLASS, J.STATE, IF(LENGTH(J.JOB_DATA) <= 65536, J.JOB_DATA, NULL) AS JOB_DATA, J.JOB_DESCRIPTION, J.RECOVERY, J.OVERLAP, J.QUEUE_LIMIT,
       J.RUN_TIMEOUT, J.ATTEMPTS, J.BACKOFF, J.MAX_BACKOFF, J.HISTORY, J.KEEP_FOR, J.KEEP_RUNS, J.MAX_RUNNING, J.PRIORITY,
       ` + fmt.Sprintf(hashedSQL, "J.JOB_DATA") + ` AS DATA_TEXT, ` + declaredJobSQL + ` AS DECLARED_JOB,
       IF(` + manySQL + `, ` + strconv.Itoa(MaxCount+1) + `, (SELECT COUNT(*) FROM QRTZ_EXECUTE E FORCE INDEX (QRTZ_EXECUTE_NAME) WHERE E.PID = J.ID)) AS EXECUTES,
       IF(` + manySQL + `, NULL, (SELECT MIN(E.NEXT_FIRE_TIME) FROM QRTZ_EXECUTE E FORCE INDEX (QRTZ_EXECUTE_NAME) WHERE E.PID = J.ID AND E.STATE = 'EXECUTING')) AS ` + "`NEXT`"

	jobSQL = jobColumns + ` FROM QRTZ_JOB J WHERE J.ID = ?`

	jobsOpenSQL  = jobColumns + ` FROM (`
	jobsCloseSQL = `) P STRAIGHT_JOIN QRTZ_JOB J FORCE INDEX (PRIMARY) ON J.ID = P.ID ORDER BY P.ID`
)

const (
	jobsByIDSQL       = `SELECT ID FROM QRTZ_JOB WHERE ID > ?`
	jobsOfSQL         = `SELECT ID FROM QRTZ_JOB FORCE INDEX (QRTZ_JOB_NAME) WHERE APPLICATION = ? AND ID > ?`
	jobNamedRecordSQL = `SELECT ID FROM QRTZ_JOB FORCE INDEX (QRTZ_JOB_NAME) WHERE APPLICATION = ? AND NAME = ?`
)

// JobFilter says which jobs to list; what is empty lets all pass.
type JobFilter struct {
	App   string
	State State
	After schema.Cursor
	Limit int
}

// ListJobs lists jobs by id. There is no index of their states: in a state it looks at all jobs, or all of the app's.
func ListJobs(ctx context.Context, on schema.On, handled *node.Handled, f JobFilter) (schema.Part[JobRecord], error) {
	if err := f.After.Check(false); err != nil {
		return schema.Part[JobRecord]{}, err
	}
	all, err := schema.ReadPart("jobs", f.Limit, f.After, func(after schema.Cursor, n int) ([]JobRecord, error) {
		if after == (schema.Cursor{}) {
			after.ID = math.MinInt64
		}
		return schema.RowsOf[JobRecord](ctx, on, jobsQuery(f, after.ID, n))
	}, func(j *JobRecord) schema.Cursor { return schema.Cursor{ID: j.ID} })
	if err != nil {
		return all, err
	}
	return all, explainJobs(ctx, handled, all.Rows)
}

// explainJobs says of jobs whose runs cannot run by themselves why not, and what of them is not as declared.
func explainJobs(ctx context.Context, handled *node.Handled, jobs []JobRecord) (err error) {
	for i := range jobs {
		jobs[i].compare()
		if j := &jobs[i]; j.State != Complete {
			if j.Why, err = handled.WhyNot(ctx, j.App, j.Class); err != nil {
				return err
			}
		}
	}
	return nil
}

func jobsQuery(f JobFilter, after int64, n int) schema.Query {
	q := schema.Query{Text: jobsByIDSQL, Args: []any{after}}
	if f.App != "" {
		q = schema.Query{Text: jobsOfSQL, Args: []any{f.App, after}}
	}
	if f.State != "" {
		q = schema.Query{Text: q.Text + ` AND STATE = ?`, Args: append(q.Args, f.State)}
	}
	return schema.Query{Text: jobsOpenSQL + q.Text + ` ORDER BY ID LIMIT ?` + jobsCloseSQL, Args: append(q.Args, n)}
}

// FindJob finds a job by its id, of an app or, if that is empty, of any.
func FindJob(ctx context.Context, on schema.On, handled *node.Handled, app string, id int64) (JobRecord, error) {
	jobs, err := schema.RowsOf[JobRecord](ctx, on, jobOfQuery(app, id))
	switch {
	case err != nil:
		return JobRecord{}, fmt.Errorf("read job %d: %w", id, err)
	case len(jobs) == 0:
		return JobRecord{}, schema.NotFoundError{What: fmt.Sprintf(`job "%d"`, id) + inApp(app)}
	}
	if err = explainJobs(ctx, handled, jobs); err == nil {
		err = addDeleted(ctx, on, jobs)
	}
	return jobs[0], err
}

func jobOfQuery(app string, id int64) schema.Query {
	q := schema.Query{Text: jobSQL, Args: []any{id}}
	if app != "" {
		q = q.And(`J.APPLICATION = ?`, app)
	}
	return q
}

// FindJobID is the id of a job of an app, by its name.
func FindJobID(ctx context.Context, on schema.On, app, name string) (id int64, err error) {
	err = on.Get(ctx, &id, jobNamedSQL, app, name)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	var names []string
	if err := on.Select(ctx, &names, jobNamesSQL, app); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%w: app %q has no job named %q%s", run.ErrNotFound, app, name, suggest(name, names))
}

const classOfSQL = `SELECT JOB_CLASS FROM QRTZ_JOB WHERE APPLICATION = ? AND NAME = ?`

// ClassOf is the class of a job of an app, by its name.
func ClassOf(ctx context.Context, on schema.On, app, name string) (class string, err error) {
	err = on.Get(ctx, &class, classOfSQL, app, name)
	return class, err
}

// FindJobsNamed finds two jobs of a name at most, of an app or, if that is empty, of any.
func FindJobsNamed(ctx context.Context, on schema.On, handled *node.Handled, app, name string) (jobs []JobRecord, err error) {
	apps := []sql.NullString{{String: app, Valid: true}}
	if app == "" {
		if apps, err = schema.AppsIn(ctx, on, "QRTZ_JOB"); err != nil {
			return nil, err
		}
	}
	for some := range slices.Chunk(apps, schema.ListBranches) {
		more, err := schema.RowsOf[JobRecord](ctx, on, jobsNamedQuery(some, name))
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, more...)
	}
	if err := explainJobs(ctx, handled, jobs); err != nil {
		return jobs, err
	}
	return jobs, addDeleted(ctx, on, jobs)
}

func jobsNamedQuery(apps []sql.NullString, name string) schema.Query {
	all := make([]schema.Query, len(apps))
	for i, app := range apps {
		all[i] = schema.Query{Text: jobNamedRecordSQL, Args: []any{app, name}}
	}
	q := schema.Merged(all, "ID", 2)
	return schema.Query{Text: jobsOpenSQL + q.Text + jobsCloseSQL, Args: q.Args}
}

func inApp(app string) string {
	if app == "" {
		return ""
	}
	return fmt.Sprintf(" in app %q", app)
}

// title is the name of a job, or else its class.
func title(name, class *string) string {
	switch {
	case class == nil:
		return "(deleted)"
	case name != nil && *name != "":
		return *name
	default:
		return *class
	}
}
