package execute

import (
	"database/sql"
	"time"
)

// Run is one attempt to carry out a fire, claimed by us and ours to finish.
type Run struct {
	ID        int64
	JobID     int64
	ExecuteID int64 // 0 for a run that belongs to no schedule
	Class     string
	Data      []byte // JOB_DATA
	FireTime  time.Time
	Attempt   int
	Fence     int64 // grows with every claim of the same execute
	Instance  int64 // that claimed it
}

// Result is how a run ended.
type Result struct {
	RunID             int64
	Instance          int64 // that claimed it; only while the run is still its does the result count
	State             RunState
	Started, Finished time.Time
	Message           string // the error of a failed run
}

// runRow is a run as columns.
type runRow struct {
	ID        int64          `db:"ID"`
	JobID     int64          `db:"JOB_ID"`
	ExecuteID sql.NullInt64  `db:"EXECUTE_ID"`
	Class     sql.NullString `db:"JOB_CLASS"`
	Data      []byte         `db:"JOB_DATA"`
	FireTime  int64          `db:"FIRE_TIME"`
	Attempt   int            `db:"ATTEMPT"`
	Fence     int64          `db:"FENCE"`
	Instance  int64          `db:"INSTANCE"`
}

func (r runRow) run() Run {
	return Run{
		ID: r.ID, JobID: r.JobID, ExecuteID: r.ExecuteID.Int64, Class: r.Class.String, Data: r.Data,
		FireTime: time.UnixMilli(r.FireTime), Attempt: r.Attempt, Fence: r.Fence, Instance: r.Instance,
	}
}
