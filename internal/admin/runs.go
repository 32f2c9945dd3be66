package admin

import (
	"context"
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
}

// Job is the name of the run's job, or else its class.
func (r Run) Job() string {
	if r.Class == nil {
		return "(deleted)"
	}
	return title(r.JobName, *r.Class)
}

// Ended tells whether the run has come to an end.
func (r Run) Ended() bool { return r.State != "PENDING" && r.State != "RUNNING" }

const runsSQL = `
SELECT R.ID, R.APPLICATION, R.JOB_ID, J.NAME AS JOB_NAME, J.JOB_CLASS, R.EXECUTE_ID, R.STATE, R.ATTEMPT, R.RECOVERS, R.HOST_IP, R.FENCE,
       R.FIRE_TIME, R.AVAILABLE_AT, R.CLAIMED_AT, R.STARTED_AT, R.FINISHED_AT,
       R.CANCEL_AT IS NOT NULL AND R.STATE = 'RUNNING' AS CANCELLING,
       R.LAST_FIRE_TIME, R.FIRE_COUNT, R.PROGRESS, COALESCE(R.JOB_DATA, J.JOB_DATA) AS JOB_DATA, R.MESSAGE
  FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID`

// RunFilter says which runs to list; what is empty lets all pass.
type RunFilter struct {
	App, State string
	JobID      int64
	Limit      int
}

// Runs lists runs, the newest first.
func (s *Store) Runs(ctx context.Context, f RunFilter) ([]Run, error) {
	var w where
	w.and("R.APPLICATION = ?", f.App)
	w.and("R.JOB_ID = ?", f.JobID)
	w.and("R.STATE = ?", f.State)
	return list[Run](ctx, s, "runs", runsSQL, w, " ORDER BY R.ID DESC", f.Limit)
}

// Run finds a run.
func (s *Store) Run(ctx context.Context, id int64) (Run, error) {
	return one[Run](ctx, s, "run", runsSQL, "R.ID = ?", id)
}
