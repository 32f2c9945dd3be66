package admin

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
)

// Execute is a row of QRTZ_EXECUTE.
type Execute struct {
	ID       int64   `db:"ID" json:"id"`
	App      string  `db:"-" json:"app"` // its own, or else that of its job; empty if it has neither
	JobID    int64   `db:"JOB_ID" json:"job_id"`
	JobName  *string `db:"JOB_NAME" json:"job"`
	Class    *string `db:"JOB_CLASS" json:"class"` // nil if there is no such job
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

	OwnApp sql.NullString `db:"APPLICATION" json:"-"`
	JobApp sql.NullString `db:"JOB_APPLICATION" json:"-"`
	At     sql.NullInt64  `db:"AT_KEY" json:"-"` // NEXT_FIRE_TIME, whatever it says
}

// Job is the name of the execute's job, or else its class.
func (e Execute) Job() string { return title(e.JobName, e.Class) }

// at is the time that a list goes by.
func (e *Execute) at() int64 {
	if e.At.Valid {
		return e.At.Int64
	}
	return noTime
}

// ScheduleStates are the states of executes and of jobs.
var ScheduleStates = []string{"INIT", "EXECUTING", "PAUSED", "COMPLETE", "ERROR"}

const (
	// The texts of two tables may have different collations: which app it is, is for us to say.
	executeColumns = `
SELECT E.ID, E.APPLICATION, J.APPLICATION AS JOB_APPLICATION, E.PID AS JOB_ID, J.NAME AS JOB_NAME, J.JOB_CLASS, E.NAME, E.JOB_TYPE,
       CASE WHEN E.JOB_TYPE = 'CRON' THEN COALESCE(E.CRON, '') WHEN E.REPEAT_COUNT = 1 THEN 'once'
            ELSE CONCAT('every ', COALESCE(E.REPEAT_INTERVAL, 0), ' ms') END AS SCHEDULE,
       E.ZONE_ID, E.REPEAT_COUNT, GREATEST(COALESCE(E.TIME_TRIGGERED, 0), 0) AS FIRED, E.STATE, E.STATE_REASON, E.MISFIRE,
       E.PREV_FIRE_TIME, E.NEXT_FIRE_TIME, E.NEXT_FIRE_TIME AS AT_KEY, E.START_TIME, E.END_TIME`

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

// ExecuteFilter says which executes to list; what is empty lets all pass. With a job, its app must be given, too.
type ExecuteFilter struct {
	App, State string
	JobID      int64
	After      Cursor
	Limit      int
}

// byTime tells whether the list goes by NEXT_FIRE_TIME.
func (f ExecuteFilter) byTime() bool { return f.JobID == 0 && (f.App != "" || f.State != "") }

// Executes lists executes: of an app or in a state by their next fire, those without one last, else by id.
func (s *Store) Executes(ctx context.Context, f ExecuteFilter) (List[Execute], error) {
	if err := f.After.check(f.byTime()); err != nil {
		return List[Execute]{}, err
	}
	read, key := s.executesByID(f), func(e *Execute) Cursor { return Cursor{id: e.ID} }
	if f.byTime() {
		read, key = s.executesByTime(f), func(e *Execute) Cursor { return Cursor{byTime: true, at: e.at(), id: e.ID} }
	}
	all, err := readPages("schedules", f.Limit, f.After, func(after Cursor, n int) ([]Execute, error) { return read(ctx, after, n) }, key)
	for i := range all.Rows {
		all.Rows[i].nameApp()
	}
	return all, err
}

func (e *Execute) nameApp() {
	if e.App = e.OwnApp.String; !e.OwnApp.Valid {
		e.App = e.JobApp.String
	}
}

func (s *Store) executesByID(f ExecuteFilter) reader[Execute] {
	return func(ctx context.Context, after Cursor, n int) ([]Execute, error) {
		if after == (Cursor{}) {
			after.id = math.MinInt64
		}
		rareState := false
		if f.JobID != 0 && f.State != "" {
			var err error
			if rareState, err = s.atMost(ctx, fewRows, query{executeInStateSQL, []any{f.App, f.State}}); err != nil {
				return nil, err
			}
		}
		return rowsOf[Execute](ctx, s, executesByIDQuery(f, rareState, after.id, n))
	}
}

func executesByIDQuery(f ExecuteFilter, rareState bool, after int64, n int) query {
	q := query{executesByIDSQL, []any{after, n}}
	switch {
	case rareState:
		q = query{executesInStateOfJobSQL, []any{f.App, f.State, f.JobID, after, n}}
	case f.JobID != 0 && f.State != "":
		q = query{executesOfJobInStateSQL, []any{f.JobID, f.State, after, n}}
	case f.JobID != 0:
		q = query{executesOfJobSQL, []any{f.JobID, after, n}}
	}
	return query{executesOpenSQL + q.text + executesCloseSQL + `P.ID`, q.args}
}

func (s *Store) executesByTime(f ExecuteFilter) reader[Execute] {
	var apps []sql.NullString
	return func(ctx context.Context, after Cursor, n int) (rows []Execute, err error) {
		if after == (Cursor{}) {
			after.at = math.MinInt64
		}
		if apps == nil {
			if apps, err = s.appsOfExecutes(ctx, f.App); err != nil {
				return nil, err
			}
		}
		if after.at != noTime {
			if rows, err = s.mergedExecutes(ctx, executeBranches(apps, f, after, n), n); err != nil || len(rows) == n {
				return rows, err
			}
			after = Cursor{at: noTime, id: math.MinInt64}
		}
		last, err := s.mergedExecutes(ctx, executeBranches(apps, f, after, n-len(rows)), n-len(rows))
		return append(rows, last...), err
	}
}

// appsOfExecutes are the apps to look for: those there are, or the one asked for, and NULL for what no node has adopted yet.
func (s *Store) appsOfExecutes(ctx context.Context, app string) ([]sql.NullString, error) {
	if app == "" {
		return s.appsIn(ctx, "QRTZ_EXECUTE")
	}
	return []sql.NullString{{}, {String: app, Valid: true}}, nil
}

func (s *Store) mergedExecutes(ctx context.Context, all []query, n int) (rows []Execute, err error) {
	for some := range slices.Chunk(all, branches) {
		more, err := rowsOf[Execute](ctx, s, executesByTimeQuery(some, n))
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	slices.SortFunc(rows, func(a, b Execute) int { return cmp.Or(cmp.Compare(a.at(), b.at()), cmp.Compare(a.ID, b.ID)) })
	return rows[:min(n, len(rows))], nil
}

// executeBranches are walks along the index, one for each app and state. What has not been adopted belongs to the app of
// its job.
func executeBranches(apps []sql.NullString, f ExecuteFilter, after Cursor, n int) (all []query) {
	states := ScheduleStates
	if f.State != "" {
		states = []string{f.State}
	}
	for _, app := range apps {
		for _, state := range states {
			q := query{text: executesInStateSQL}
			if !app.Valid && f.App != "" {
				q = query{executesInStateSQL + withJobSQL, []any{f.App}}
			}
			if q.args = append(q.args, app, state); after.at == noTime {
				q = query{q.text + executesWithoutTimeSQL, append(q.args, after.id, n)}
			} else {
				q = query{q.text + executesWithTimeSQL, append(q.args, after.at, after.at, after.id, n)}
			}
			all = append(all, q)
		}
	}
	return all
}

func executesByTimeQuery(some []query, n int) query {
	q := merged(some, "NEXT_FIRE_TIME, ID", n)
	return query{executesOpenSQL + q.text + executesCloseSQL + `P.NEXT_FIRE_TIME, P.ID`, q.args}
}

// Execute finds an execute.
func (s *Store) Execute(ctx context.Context, id int64) (Execute, error) {
	e, err := byID[Execute](ctx, s, "schedule", executeSQL, id)
	e.nameApp()
	return e, err
}
