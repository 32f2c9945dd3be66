package run

import (
	"cmp"
	"database/sql"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz/node"
)

// Run is one attempt to carry out a fire, claimed by us and ours to finish.
type Run struct {
	ID        int64 // 0 if it has no row, as HistoryNone has it
	JobID     int64
	ExecuteID int64 // 0 for a run that belongs to no schedule
	Class     string
	Job       string // its job's name; empty if it has none
	Schedule  string // the name of its schedule; empty if it has none
	Data      []byte // its own, or else its schedule's, or else its job's JOB_DATA; nil if it is larger than inlineData: Store.Data reads it
	DataSize  int64  // of its data, in bytes, whether or not it has been read
	Options   Options
	FireTime  time.Time // in the zone of its schedule; in UTC if it belongs to none
	Attempt   int
	Recovers  int64 // the run, LOST, that this one is a recovery of; 0 if it is none
	Origin    int64 // the first attempt of what this run is a further attempt of; 0 if it is the first, or has no row
	Saved     int64 // bytes of its checkpoint; 0 if it has none
	Recovered int   // how many of the attempts before it were LOST, and recovered
	Fence     int64 // grows with every claim of the same execute
	Instance  int64 // that claimed it
	Token     int64 // CLAIM_TOKEN of the claim that won it

	ownData int64 // bytes of data in its own row
}

// Key is the same for all attempts of one fire, or of one run that was asked for, and no other run of the database has it.
func (r Run) Key() string {
	if r.ExecuteID != 0 {
		return fmt.Sprintf("%d@%d", r.ExecuteID, r.FireTime.UnixMilli())
	}
	return fmt.Sprintf("r%d", cmp.Or(r.Origin, r.ID))
}

// Result is how a run ended.
type Result struct {
	Run               Run
	State             State
	Started, Finished time.Time
	Message           string    // the error of a failed run, or what its handler left
	Progress          int       // in percent; below 0 if the handler never said
	RetryAt           time.Time // when to try again; zero for never
	Recovery          bool      // the further attempt is a recovery of this one (Interrupt)
	Completing        bool      // its handler has called CompleteIn, which may have taken effect: this result then does not count

	tried bool // it was in a statement that failed: it may have been written all the same
	held  bool // another transaction held its row when it was last tried
}

// row is a run as columns.
type row struct {
	ID        int64          `db:"ID"`
	JobID     int64          `db:"JOB_ID"`
	ExecuteID sql.NullInt64  `db:"EXECUTE_ID"`
	Class     sql.NullString `db:"JOB_CLASS"`
	Job       sql.NullString `db:"JOB_NAME"`
	Schedule  sql.NullString `db:"EXECUTE_NAME"`
	Zone      sql.NullString `db:"ZONE_ID"`
	Data      []byte         `db:"DATA"`
	DataSize  int64          `db:"DATA_SIZE"`
	OwnData   int64          `db:"OWN_DATA"`
	FireTime  int64          `db:"FIRE_TIME"`
	Attempt   int            `db:"ATTEMPT"`
	Recovers  sql.NullInt64  `db:"RECOVERS"`
	Origin    sql.NullInt64  `db:"ORIGIN"`
	Recovered int            `db:"RECOVERIES"`
	Saved     int64          `db:"SAVED"`
	Fence     int64          `db:"FENCE"`
	OptionRow
}

// runColumns need the run R, its job J and its schedule E.
const runColumns = `R.ID, R.JOB_ID, R.EXECUTE_ID, J.JOB_CLASS, J.NAME AS JOB_NAME, E.NAME AS EXECUTE_NAME, ` + zoneColumn + `, R.FIRE_TIME, R.ATTEMPT, R.RECOVERS, R.ORIGIN, R.RECOVERIES, R.FENCE, ` + runDataColumns + `,
       COALESCE(LENGTH(R.JOB_DATA), 0) AS OWN_DATA, COALESCE(LENGTH(R.CHECKPOINT), 0) AS SAVED,
       ` + runOptionColumns

func (r row) run(who node.Instance, zones *zones) Run {
	return Run{
		ID: r.ID, JobID: r.JobID, ExecuteID: r.ExecuteID.Int64, Class: r.Class.String, Job: r.Job.String, Schedule: r.Schedule.String,
		Data: r.Data, DataSize: r.DataSize, Options: r.Options(),
		FireTime: zones.fireTime(r.FireTime, r.Zone), Attempt: r.Attempt, Recovers: r.Recovers.Int64, Origin: r.Origin.Int64, Recovered: r.Recovered, Saved: r.Saved, Fence: r.Fence, Instance: who.ID, ownData: r.OwnData,
	}
}
