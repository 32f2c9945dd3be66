package admin

import (
	"context"
	"fmt"
	"strconv"

	"github.com/qrtz-go/qrtz/schema"
)

const nowSQL = schema.NowMillisSQL

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
	Executes    int     `db:"EXECUTES" json:"executes"`
	Next        Time    `db:"NEXT" json:"next_fire"` // of its active executes
}

// Title is the job's name, or else its class.
func (j Job) Title() string { return title(j.Name, j.Class) }

func title(name *string, class string) string {
	if name != nil && *name != "" {
		return *name
	}
	return class
}

const jobsSQL = `
SELECT J.ID, J.APPLICATION, J.NAME, J.JOB_CLASS, J.STATE, J.JOB_DATA, J.JOB_DESCRIPTION, J.RECOVERY, J.OVERLAP, J.QUEUE_LIMIT,
       J.RUN_TIMEOUT, J.ATTEMPTS, J.BACKOFF, J.MAX_BACKOFF, J.HISTORY, J.KEEP_FOR, J.KEEP_RUNS,
       (SELECT COUNT(*) FROM QRTZ_EXECUTE E WHERE E.PID = J.ID) AS EXECUTES,
       (SELECT MIN(E.NEXT_FIRE_TIME) FROM QRTZ_EXECUTE E WHERE E.PID = J.ID AND E.STATE = 'EXECUTING') AS ` + "`NEXT`" + `
  FROM QRTZ_JOB J`

// Jobs lists jobs by app and id; an empty filter lets all pass.
func (s *Store) Jobs(ctx context.Context, app, state string, limit int) ([]Job, error) {
	var w where
	w.and("J.APPLICATION = ?", app)
	w.and("J.STATE = ?", state)
	return list[Job](ctx, s, "jobs", jobsSQL, w, " ORDER BY J.APPLICATION, J.ID", limit)
}

// Job finds a job by its id or its name. If several apps have one of that name, app must say which.
func (s *Store) Job(ctx context.Context, app, nameOrID string) (Job, error) {
	var w where
	w.and("J.APPLICATION = ?", app)
	if id, err := strconv.ParseInt(nameOrID, 10, 64); err == nil && id > 0 {
		w.and("J.ID = ?", id)
	} else {
		w.and("J.NAME = ?", nameOrID)
	}
	jobs, err := list[Job](ctx, s, "jobs", jobsSQL, w, "", 2)
	if err != nil {
		return Job{}, err
	}
	switch {
	case len(jobs) == 0 || nameOrID == "":
		return Job{}, NotFoundError{fmt.Sprintf("job %q", nameOrID) + inApp(app)}
	case len(jobs) == 1:
		return jobs[0], nil
	}
	return Job{}, fmt.Errorf("the apps %q and %q both have a job %q: say which with --app, or give its id", jobs[0].App, jobs[1].App, nameOrID)
}

func inApp(app string) string {
	if app == "" {
		return ""
	}
	return fmt.Sprintf(" in app %q", app)
}

// Execute is a row of QRTZ_EXECUTE.
type Execute struct {
	ID       int64   `db:"ID" json:"id"`
	App      string  `db:"APPLICATION" json:"app"`
	JobID    int64   `db:"JOB_ID" json:"job_id"`
	JobName  *string `db:"JOB_NAME" json:"job"`
	Class    string  `db:"JOB_CLASS" json:"class"`
	Name     *string `db:"NAME" json:"name"`
	Type     string  `db:"JOB_TYPE" json:"type"`
	Schedule string  `db:"SCHEDULE" json:"schedule"`
	Zone     *string `db:"ZONE_ID" json:"zone"`
	Count    *int64  `db:"REPEAT_COUNT" json:"count"`
	Fired    int64   `db:"FIRED" json:"fired"`
	State    string  `db:"STATE" json:"state"`
	Reason   *string `db:"STATE_REASON" json:"reason"`
	Misfire  string  `db:"MISFIRE" json:"misfire"`
	Prev     Time    `db:"PREV_FIRE_TIME" json:"prev_fire"`
	Next     Time    `db:"NEXT_FIRE_TIME" json:"next_fire"`
	Start    Time    `db:"START_TIME" json:"start"`
	End      Time    `db:"END_TIME" json:"end"`
}

// Job is the name of the execute's job, or else its class.
func (e Execute) Job() string { return title(e.JobName, e.Class) }

const executesSQL = `
SELECT E.ID, J.APPLICATION, J.ID AS JOB_ID, J.NAME AS JOB_NAME, J.JOB_CLASS, E.NAME, E.JOB_TYPE,
       CASE WHEN E.JOB_TYPE = 'CRON' THEN COALESCE(E.CRON, '') WHEN E.REPEAT_COUNT = 1 THEN 'once'
            ELSE CONCAT('every ', COALESCE(E.REPEAT_INTERVAL, 0), ' ms') END AS SCHEDULE,
       E.ZONE_ID, E.REPEAT_COUNT, GREATEST(COALESCE(E.TIME_TRIGGERED, 0), 0) AS FIRED, E.STATE, E.STATE_REASON, E.MISFIRE,
       E.PREV_FIRE_TIME, E.NEXT_FIRE_TIME, E.START_TIME, E.END_TIME
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID`

// Executes lists executes by app and id; an empty filter lets all pass.
func (s *Store) Executes(ctx context.Context, app string, job int64, state string, limit int) ([]Execute, error) {
	var w where
	w.and("J.APPLICATION = ?", app)
	w.and("E.PID = ?", job)
	w.and("E.STATE = ?", state)
	return list[Execute](ctx, s, "executes", executesSQL, w, " ORDER BY J.APPLICATION, E.ID", limit)
}

// Execute finds an execute.
func (s *Store) Execute(ctx context.Context, id int64) (Execute, error) {
	return one[Execute](ctx, s, "execute", executesSQL, "E.ID = ?", id)
}

// one finds a row by its id.
func one[T any](ctx context.Context, s *Store, what, query, condition string, id int64) (T, error) {
	w := where{[]string{condition}, []any{id}}
	rows, err := list[T](ctx, s, what, query, w, "", 1)
	if err == nil && len(rows) == 0 {
		err = NotFoundError{fmt.Sprintf("%s %d", what, id)}
	}
	if err != nil {
		var none T
		return none, err
	}
	return rows[0], nil
}
