package run

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

// NewRun is a row of QRTZ_RUN that a move leaves.
type NewRun struct {
	State    State // Running: ours to start; Pending: for any node; Skipped: recorded only
	FireTime time.Time
	LastFire time.Time // Skipped only: the row stands for Count fires from FireTime to LastFire
	Count    int64
	Message  string
}

// KeepOldRunSQL has a fire keep the run that it has already: a person turned the execute back by SQL. If another row is in the
// way, one with the greatest ID there is, behind which no other has room, the statement fails (schema.ExplainNoID): else
// the fire would leave no trace.
const KeepOldRunSQL = `
    ON DUPLICATE KEY UPDATE QRTZ_RUN.ID = IF(QRTZ_RUN.EXECUTE_ID = VALUES(EXECUTE_ID) AND QRTZ_RUN.FIRE_TIME = VALUES(FIRE_TIME), QRTZ_RUN.ID,
                                            (SELECT 1 UNION SELECT 2))`

// Fires are the rows that the move of one execute leaves.
type Fires struct {
	ExecuteID int64
	Rows      []NewRun
	One       bool // the move is a claim of one fire, which the execute has just passed, as most are
}

// writesRowSQL tells whether a run of a job has a row while it goes, as its options say; without a job it has.
const writesRowSQL = `(J.ID IS NULL OR J.HISTORY <> 'NONE' OR ` + LimitedSQL + ` OR J.RECOVERY <> 0 OR J.ATTEMPTS > 1)`

// exclusiveSQL tells whether only some runs of a job may go at a time. Such a run begins as PENDING, also for the node that claims it.
const exclusiveSQL = `COALESCE(` + LimitedSQL + `, 0)`

// insertMovedSQL inserts the rows of the executes that carry our token. Its placeholders: the app, the node's id, its
// instance, the token, then those of the rows.
const insertMovedSQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, AVAILABLE_AT, HOST_IP, INSTANCE, FENCE, CLAIM_TOKEN,
       CLAIMED_AT, FINISHED_AT, LAST_FIRE_TIME, FIRE_COUNT, MESSAGE)
SELECT ?, X.PID, X.ID, X.FIRE, X.STATE1, X.FIRE, IF(X.STATE1 = 'RUNNING', ?, NULL), IF(X.STATE1 = 'RUNNING', ?, NULL), X.FENCE, ?,
       IF(X.STATE1 = 'PENDING', NULL, ` + schema.NowMillisSQL + `), IF(X.STATE1 = 'SKIPPED', ` + schema.NowMillisSQL + `, NULL),
       X.LAST_FIRE, X.FIRES, X.MESSAGE1
  FROM (%s) X` + KeepOldRunSQL

const (
	// oneFireSQL are the rows of claims of one fire each: it stands in the execute now.
	oneFireSQL = `
SELECT E.PID, E.ID, E.PREV_FIRE_TIME AS FIRE, IF(` + exclusiveSQL + `, 'PENDING', 'RUNNING') AS STATE1, E.FENCE,
       NULL AS LAST_FIRE, 1 AS FIRES, NULL AS MESSAGE1
  FROM QRTZ_EXECUTE E FORCE INDEX (PRIMARY) LEFT JOIN QRTZ_JOB J ON J.ID = E.PID
 WHERE E.ID IN (?) AND E.CLAIM_TOKEN = ? AND ` + writesRowSQL

	// manyFiresSQL are the rows of other moves.
	manyFiresSQL = `
SELECT E.PID, E.ID, F.FIRE, IF(F.STATE0 = 'RUNNING' AND ` + exclusiveSQL + `, 'PENDING', F.STATE0) AS STATE1, E.FENCE,
       F.LAST_FIRE, F.FIRES, F.MESSAGE0 AS MESSAGE1
  FROM %s F STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = F.ID LEFT JOIN QRTZ_JOB J ON J.ID = E.PID
 WHERE E.CLAIM_TOKEN = ? AND (F.STATE0 <> 'RUNNING' OR ` + writesRowSQL + `)`
)

// InsertMoved adds to the packet of a batch of moves, given in order of execute, the rows that they leave. The executes
// carry the moves' token by then; one that does not was not moved, and leaves nothing.
func (s *Store) InsertMoved(p *schema.Packet, who node.Instance, token int64, fires []Fires) {
	if !slices.ContainsFunc(fires, func(f Fires) bool { return !f.One }) {
		ids := make([]int64, len(fires))
		for i, f := range fires {
			ids[i] = f.ExecuteID
		}
		p.Exec(fmt.Sprintf(insertMovedSQL, oneFireSQL), s.app, who.NodeID, who.ID, token, ids, token)
		return
	}
	var rows []any
	for _, f := range fires {
		for _, r := range f.Rows {
			last := sql.NullInt64{Int64: r.LastFire.UnixMilli(), Valid: !r.LastFire.IsZero()}
			rows = append(rows, f.ExecuteID, r.FireTime.UnixMilli(), r.State, last, r.Count, schema.OrNull(r.Message))
		}
	}
	if len(rows) == 0 {
		return
	}
	table, args := schema.Values(rows, "ID", "FIRE", "STATE0", "LAST_FIRE", "FIRES", "MESSAGE0")
	args = append(append([]any{s.app, who.NodeID, who.ID, token}, args...), token)
	p.Exec(fmt.Sprintf(insertMovedSQL, fmt.Sprintf(manyFiresSQL, table)), args...)
}

// SkippedFire is a row that says SKIPPED.
type SkippedFire struct {
	RunID, JobID, ExecuteID int64
	Class                   string
	Job, Schedule           string // their names; empty if they have none
	NewRun
}

const (
	insertPendingSQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, AVAILABLE_AT)
VALUES `
	pendingRowSQL = `(?, ?, ?, ?, 'PENDING', ?)`
)

// runBatch is how many runs one statement inserts.
const runBatch = 1000

// insertPending gives the fires of runs a run that is PENDING, for any node to take, unless they have one.
func (s *Store) insertPending(ctx context.Context, runs []Run) error {
	for some := range slices.Chunk(runs, runBatch) {
		args := make([]any, 0, 5*len(some))
		for _, r := range some {
			at := r.FireTime.UnixMilli()
			args = append(args, s.app, r.JobID, r.ExecuteID, at, at)
		}
		query := insertPendingSQL + pendingRowSQL + strings.Repeat(", "+pendingRowSQL, len(some)-1) + KeepOldRunSQL
		if _, err := s.db.Exec(ctx, query, args...); err != nil {
			return fmt.Errorf("insert pending runs: %w", schema.ExplainNoID(err, s.db.Prefix, "QRTZ_RUN"))
		}
	}
	return nil
}

// ByFireTime puts runs in the order in which they start.
func ByFireTime(a, b Run) int {
	return cmp.Or(a.FireTime.Compare(b.FireTime), cmp.Compare(a.ID, b.ID))
}
