package admin

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Job is a row of QRTZ_JOB, and what is known of its schedules.
type Job struct {
	ID          int64   `db:"ID" json:"id"`
	App         string  `db:"APPLICATION" json:"app"`
	Name        *string `db:"NAME" json:"name"`
	Class       string  `db:"JOB_CLASS" json:"class"`
	State       string  `db:"STATE" json:"state"`
	Data        *string `db:"JOB_DATA" json:"data"`
	Description *string `db:"JOB_DESCRIPTION" json:"description"`
	Recovery    bool    `db:"RECOVERY" json:"recovery"`
	Overlap     string  `db:"OVERLAP" json:"overlap"`
	QueueLimit  int     `db:"QUEUE_LIMIT" json:"queue_limit"`
	Timeout     int64   `db:"RUN_TIMEOUT" json:"timeout_ms"`
	Attempts    int     `db:"ATTEMPTS" json:"attempts"`
	Backoff     int64   `db:"BACKOFF" json:"backoff_ms"`
	MaxBackoff  int64   `db:"MAX_BACKOFF" json:"max_backoff_ms"`
	History     string  `db:"HISTORY" json:"history"`
	KeepFor     int64   `db:"KEEP_FOR" json:"keep_for_ms"`
	KeepRuns    int     `db:"KEEP_RUNS" json:"keep_runs"`
	Executes    int     `db:"EXECUTES" json:"executes"` // counted up to MaxCount
	Next        Time    `db:"NEXT" json:"next_fire"`    // of its active executes; none if there are more than MaxCount
}

// MaxCount is how far the executes of a job, and the jobs of an app, are counted. One more stands for any number.
const MaxCount = 1000

// Title is the job's name, or else its class.
func (j Job) Title() string { return title(j.Name, &j.Class) }

var (
	// A job may have a million executes: whether it has more than MaxCount is asked first.
	manySQL = fmt.Sprintf(`(SELECT 1 FROM QRTZ_EXECUTE E FORCE INDEX (QRTZ_EXECUTE_NAME) WHERE E.PID = J.ID LIMIT 1 OFFSET %d) IS NOT NULL`, MaxCount)

	jobColumns = `
SELECT J.ID, J.APPLICATION, J.NAME, J.JOB_CLASS, J.STATE, J.JOB_DATA, J.JOB_DESCRIPTION, J.RECOVERY, J.OVERLAP, J.QUEUE_LIMIT,
       J.RUN_TIMEOUT, J.ATTEMPTS, J.BACKOFF, J.MAX_BACKOFF, J.HISTORY, J.KEEP_FOR, J.KEEP_RUNS,
       IF(` + manySQL + `, ` + strconv.Itoa(MaxCount+1) + `, (SELECT COUNT(*) FROM QRTZ_EXECUTE E FORCE INDEX (QRTZ_EXECUTE_NAME) WHERE E.PID = J.ID)) AS EXECUTES,
       IF(` + manySQL + `, NULL, (SELECT MIN(E.NEXT_FIRE_TIME) FROM QRTZ_EXECUTE E FORCE INDEX (QRTZ_EXECUTE_NAME) WHERE E.PID = J.ID AND E.STATE = 'EXECUTING')) AS ` + "`NEXT`"

	jobSQL = jobColumns + ` FROM QRTZ_JOB J WHERE J.ID = ?`

	jobsOpenSQL  = jobColumns + ` FROM (`
	jobsCloseSQL = `) P STRAIGHT_JOIN QRTZ_JOB J FORCE INDEX (PRIMARY) ON J.ID = P.ID ORDER BY P.ID`
)

const (
	jobsByIDSQL = `SELECT ID FROM QRTZ_JOB WHERE ID > ?`
	jobsOfSQL   = `SELECT ID FROM QRTZ_JOB FORCE INDEX (QRTZ_JOB_NAME) WHERE APPLICATION = ? AND ID > ?`
	jobNamedSQL = `SELECT ID FROM QRTZ_JOB FORCE INDEX (QRTZ_JOB_NAME) WHERE APPLICATION = ? AND NAME = ?`
)

// JobFilter says which jobs to list; what is empty lets all pass.
type JobFilter struct {
	App, State string
	After      Cursor
	Limit      int
}

// Jobs lists jobs by id. There is no index of their states: in a state it looks at all jobs, or all of the app's.
func (s *Store) Jobs(ctx context.Context, f JobFilter) (List[Job], error) {
	if err := f.After.check(false); err != nil {
		return List[Job]{}, err
	}
	return readPages("jobs", f.Limit, f.After, func(after Cursor, n int) ([]Job, error) {
		if after == (Cursor{}) {
			after.id = math.MinInt64
		}
		return rowsOf[Job](ctx, s, jobsQuery(f, after.id, n))
	}, func(j *Job) Cursor { return Cursor{id: j.ID} })
}

func jobsQuery(f JobFilter, after int64, n int) query {
	q := query{jobsByIDSQL, []any{after}}
	if f.App != "" {
		q = query{jobsOfSQL, []any{f.App, after}}
	}
	if f.State != "" {
		q = query{q.text + ` AND STATE = ?`, append(q.args, f.State)}
	}
	return query{jobsOpenSQL + q.text + ` ORDER BY ID LIMIT ?` + jobsCloseSQL, append(q.args, n)}
}

// Job finds a job by its id or its name. If several apps have one of that name, app must say which.
func (s *Store) Job(ctx context.Context, app, nameOrID string) (Job, error) {
	if id, err := strconv.ParseInt(nameOrID, 10, 64); err == nil && id > 0 {
		return s.jobOf(ctx, app, id)
	}
	jobs, err := s.jobsNamed(ctx, app, nameOrID)
	switch {
	case err != nil:
		return Job{}, fmt.Errorf("find job %q: %w", nameOrID, err)
	case len(jobs) == 0:
		return Job{}, NotFoundError{fmt.Sprintf("job %q", nameOrID) + inApp(app)}
	case len(jobs) > 1:
		return Job{}, fmt.Errorf("the apps %q and %q both have a job %q: say which with --app, or give its id", jobs[0].App, jobs[1].App, nameOrID)
	}
	return jobs[0], nil
}

func (s *Store) jobOf(ctx context.Context, app string, id int64) (Job, error) {
	jobs, err := rowsOf[Job](ctx, s, jobOfQuery(app, id))
	switch {
	case err != nil:
		return Job{}, fmt.Errorf("read job %d: %w", id, err)
	case len(jobs) == 0:
		return Job{}, NotFoundError{fmt.Sprintf(`job "%d"`, id) + inApp(app)}
	}
	return jobs[0], nil
}

func jobOfQuery(app string, id int64) query {
	q := query{jobSQL, []any{id}}
	if app != "" {
		q = query{q.text + ` AND J.APPLICATION = ?`, append(q.args, app)}
	}
	return q
}

// jobsNamed finds two jobs of a name at most.
func (s *Store) jobsNamed(ctx context.Context, app, name string) (jobs []Job, err error) {
	apps := []string{app}
	if app == "" {
		if apps, err = s.appNames(ctx); err != nil {
			return nil, err
		}
	}
	for some := range slices.Chunk(apps, branches) {
		more, err := rowsOf[Job](ctx, s, jobsNamedQuery(some, name))
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, more...)
	}
	return jobs, nil
}

func (s *Store) appNames(ctx context.Context) ([]string, error) {
	apps, err := s.appsIn(ctx, "QRTZ_JOB")
	names := make([]string, len(apps))
	for i, a := range apps {
		names[i] = a.String
	}
	return names, err
}

func jobsNamedQuery(apps []string, name string) query {
	all := make([]query, len(apps))
	for i, app := range apps {
		all[i] = query{jobNamedSQL, []any{app, name}}
	}
	q := merged(all, "ID", 2)
	return query{jobsOpenSQL + q.text + jobsCloseSQL, q.args}
}

func inApp(app string) string {
	if app == "" {
		return ""
	}
	return fmt.Sprintf(" in app %q", app)
}
