package run

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qrtz-go/qrtz/schema"
)

// NewRun is a row of QRTZ_RUN that a move leaves.
type NewRun struct {
	State    State // Running: ours to start; Pending: anybody's; Skipped: recorded only
	FireTime time.Time
	LastFire time.Time // Skipped only: the row stands for Count fires from FireTime to LastFire
	Count    int64
	Message  string
}

// KeepOldRunSQL has a fire that has a run already keep it: somebody turned the execute back by SQL. If it is another row that is
// in the way, the one with the greatest ID there is, behind which no other has room, the statement fails
// (schema.ExplainNoID): a fire that was passed over would leave no trace.
const KeepOldRunSQL = `
    ON DUPLICATE KEY UPDATE QRTZ_RUN.ID = IF(QRTZ_RUN.EXECUTE_ID = VALUES(EXECUTE_ID) AND QRTZ_RUN.FIRE_TIME = VALUES(FIRE_TIME), QRTZ_RUN.ID,
                                            (SELECT 1 UNION SELECT 2))`

// SkippedFire is a row that says SKIPPED.
type SkippedFire struct {
	JobID, ExecuteID int64
	Class            string
	NewRun
}

// NewPending is a fire that is to have a run, for any node to take.
type NewPending struct {
	JobID, ExecuteID int64
	FireTime         time.Time
}

func (r Run) pending() NewPending { return NewPending{r.JobID, r.ExecuteID, r.FireTime} }

const (
	insertPendingSQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, AVAILABLE_AT)
VALUES `
	pendingRowSQL = `(?, ?, ?, ?, 'PENDING', ?)`
)

// runBatch is how many runs one statement inserts.
const runBatch = 1000

// insertPending gives fires a run that is PENDING, unless they have one.
func (s *Store) insertPending(ctx context.Context, fires []NewPending) error {
	for some := range slices.Chunk(fires, runBatch) {
		args := make([]any, 0, 5*len(some))
		for _, f := range some {
			at := f.FireTime.UnixMilli()
			args = append(args, s.app, f.JobID, f.ExecuteID, at, at)
		}
		query := insertPendingSQL + pendingRowSQL + strings.Repeat(", "+pendingRowSQL, len(some)-1) + KeepOldRunSQL
		if _, err := s.db.Exec(ctx, query, args...); err != nil {
			return fmt.Errorf("insert pending runs: %w", schema.ExplainNoID(err, s.db.Prefix, "QRTZ_RUN"))
		}
	}
	return nil
}

// OrNull is text for a column, NULL if it is empty.
func OrNull(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// ByFireTime puts runs in the order in which they start.
func ByFireTime(a, b Run) int {
	return cmp.Or(a.FireTime.Compare(b.FireTime), cmp.Compare(a.ID, b.ID))
}
