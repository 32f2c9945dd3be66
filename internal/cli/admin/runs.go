package admin

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
)

// Run is a row of QRTZ_RUN.
type Run struct {
	ID          int64   `db:"ID" json:"id"`
	App         string  `db:"APPLICATION" json:"app"`
	JobID       int64   `db:"JOB_ID" json:"job_id"`
	JobName     *string `db:"JOB_NAME" json:"job"`
	Class       *string `db:"JOB_CLASS" json:"class"` // nil once the job has been deleted
	ExecuteID   *int64  `db:"EXECUTE_ID" json:"execute_id"`
	State       string  `db:"STATE" json:"state"`
	Attempt     int     `db:"ATTEMPT" json:"attempt"`
	Recovers    *int64  `db:"RECOVERS" json:"recovers"`
	Node        *string `db:"HOST_IP" json:"node"`
	Fence       int64   `db:"FENCE" json:"fence"`
	Fire        Time    `db:"FIRE_TIME" json:"fire"`
	AvailableAt Time    `db:"AVAILABLE_AT" json:"available_at"`
	ClaimedAt   Time    `db:"CLAIMED_AT" json:"claimed_at"`
	StartedAt   Time    `db:"STARTED_AT" json:"started_at"`
	FinishedAt  Time    `db:"FINISHED_AT" json:"finished_at"`
	Cancelling  bool    `db:"CANCELLING" json:"cancelling"`
	LastFire    Time    `db:"LAST_FIRE_TIME" json:"last_fire"`
	Fires       int64   `db:"FIRE_COUNT" json:"fires"`
	Progress    *int    `db:"PROGRESS" json:"progress"`
	Data        *string `db:"JOB_DATA" json:"data"`
	Message     *string `db:"MESSAGE" json:"message"`

	At int64 `db:"AT_KEY" json:"-"` // AVAILABLE_AT, whatever it says
}

// Job is the name of the run's job, or else its class.
func (r Run) Job() string { return title(r.JobName, r.Class) }

// Ended tells whether the run has come to an end.
func (r Run) Ended() bool { return r.State != "PENDING" && r.State != "RUNNING" }

const (
	runColumns = `
SELECT R.ID, R.APPLICATION, R.JOB_ID, J.NAME AS JOB_NAME, J.JOB_CLASS, R.EXECUTE_ID, R.STATE, R.ATTEMPT, R.RECOVERS, R.HOST_IP, R.FENCE,
       R.FIRE_TIME, R.AVAILABLE_AT, R.AVAILABLE_AT AS AT_KEY, R.CLAIMED_AT, R.STARTED_AT, R.FINISHED_AT,
       R.CANCEL_AT IS NOT NULL AND R.STATE = 'RUNNING' AS CANCELLING,
       R.LAST_FIRE_TIME, R.FIRE_COUNT, R.PROGRESS, COALESCE(R.JOB_DATA, J.JOB_DATA) AS JOB_DATA, R.MESSAGE`

	runSQL = runColumns + ` FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE R.ID = ?`

	// The rows that a list consists of are found in an index, and only then read.
	runsOpenSQL  = runColumns + ` FROM (`
	runsCloseSQL = `) P STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = P.ID LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID ORDER BY `

	runsByIDSQL  = `SELECT ID FROM QRTZ_RUN WHERE ID < ? ORDER BY ID DESC LIMIT ?`
	runsOfJobSQL = `SELECT ID FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_JOB) WHERE JOB_ID = ? AND ID < ? ORDER BY ID DESC LIMIT ?`

	// Of a job and in a state: by the index in which fewer rows have to be looked at.
	runsOfJobInStateSQL = `SELECT ID FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_JOB) WHERE JOB_ID = ? AND STATE = ? AND ID < ? ORDER BY ID DESC LIMIT ?`
	runsInStateOfJobSQL = `
SELECT ID FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE) WHERE APPLICATION = ? AND STATE = ? AND JOB_ID = ? AND ID < ? ORDER BY ID DESC LIMIT ?`
	inStateSQL = `SELECT 1 FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE) WHERE APPLICATION = ? AND STATE = ?`

	runsInStateSQL = `
SELECT ID, AVAILABLE_AT FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE)
 WHERE APPLICATION = ? AND STATE = ? AND (AVAILABLE_AT < ? OR AVAILABLE_AT = ? AND ID < ?) ORDER BY AVAILABLE_AT DESC, ID DESC LIMIT ?`
)

// fewRows is how many rows of a state are looked at to find those of a job.
const fewRows = 10_000

// RunStates are the states of runs.
var RunStates = []string{"PENDING", "RUNNING", "SUCCEEDED", "FAILED", "LOST", "CANCELLED", "SKIPPED"}

// RunFilter says which runs to list; what is empty lets all pass. With a job, its app must be given, too.
type RunFilter struct {
	App, State string
	JobID      int64
	After      Cursor
	Limit      int
}

// byTime tells whether the list goes by AVAILABLE_AT.
func (f RunFilter) byTime() bool { return f.JobID == 0 && (f.App != "" || f.State != "") }

// Runs lists runs, the newest first: of an app or in a state by the time at which they were available, else by id.
func (s *Store) Runs(ctx context.Context, f RunFilter) (List[Run], error) {
	if err := f.After.check(f.byTime()); err != nil {
		return List[Run]{}, err
	}
	read, key := s.runsByID(f), func(r *Run) Cursor { return Cursor{id: r.ID} }
	if f.byTime() {
		read, key = s.runsByTime(f), func(r *Run) Cursor { return Cursor{byTime: true, at: r.At, id: r.ID} }
	}
	return readPages("runs", f.Limit, f.After, func(after Cursor, n int) ([]Run, error) { return read(ctx, after, n) }, key)
}

// reader reads a page of a list.
type reader[T any] func(ctx context.Context, after Cursor, n int) ([]T, error)

func (s *Store) runsByID(f RunFilter) reader[Run] {
	return func(ctx context.Context, after Cursor, n int) ([]Run, error) {
		if after == (Cursor{}) {
			after.id = math.MaxInt64
		}
		rareState := false
		if f.JobID != 0 && f.State != "" {
			var err error
			if rareState, err = s.atMost(ctx, fewRows, query{inStateSQL, []any{f.App, f.State}}); err != nil {
				return nil, err
			}
		}
		return rowsOf[Run](ctx, s, runsByIDQuery(f, rareState, after.id, n))
	}
}

func runsByIDQuery(f RunFilter, rareState bool, before int64, n int) query {
	q := query{runsByIDSQL, []any{before, n}}
	switch {
	case rareState:
		q = query{runsInStateOfJobSQL, []any{f.App, f.State, f.JobID, before, n}}
	case f.JobID != 0 && f.State != "":
		q = query{runsOfJobInStateSQL, []any{f.JobID, f.State, before, n}}
	case f.JobID != 0:
		q = query{runsOfJobSQL, []any{f.JobID, before, n}}
	}
	return query{runsOpenSQL + q.text + runsCloseSQL + `P.ID DESC`, q.args}
}

func (s *Store) runsByTime(f RunFilter) reader[Run] {
	var apps []sql.NullString
	return func(ctx context.Context, after Cursor, n int) (rows []Run, err error) {
		if after == (Cursor{}) {
			after.at, after.id = math.MaxInt64, math.MaxInt64
		}
		if f.App != "" {
			apps = []sql.NullString{{String: f.App, Valid: true}}
		} else if apps == nil {
			if apps, err = s.appsIn(ctx, "QRTZ_RUN"); err != nil {
				return nil, err
			}
		}
		for some := range slices.Chunk(runBranches(apps, f.State, after, n), branches) {
			more, err := rowsOf[Run](ctx, s, runsByTimeQuery(some, n))
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
		}
		slices.SortFunc(rows, func(a, b Run) int { return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.ID, a.ID)) })
		return rows[:min(n, len(rows))], nil
	}
}

// runBranches are walks along the index, one for each app and state.
func runBranches(apps []sql.NullString, state string, after Cursor, n int) (all []query) {
	states := RunStates
	if state != "" {
		states = []string{state}
	}
	for _, app := range apps {
		for _, state := range states {
			all = append(all, query{runsInStateSQL, []any{app, state, after.at, after.at, after.id, n}})
		}
	}
	return all
}

func runsByTimeQuery(some []query, n int) query {
	q := merged(some, "AVAILABLE_AT DESC, ID DESC", n)
	return query{runsOpenSQL + q.text + runsCloseSQL + `P.AVAILABLE_AT DESC, P.ID DESC`, q.args}
}

// Run finds a run.
func (s *Store) Run(ctx context.Context, id int64) (Run, error) {
	return byID[Run](ctx, s, "run", runSQL, id)
}
