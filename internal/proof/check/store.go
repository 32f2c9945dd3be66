package check

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// States as they are stored; see package execute for their meaning.
const (
	stateExecuting = "EXECUTING"
	statePaused    = "PAUSED"
	stateComplete  = "COMPLETE"
	stateInit      = "INIT"

	statePending   = "PENDING"
	stateRunning   = "RUNNING"
	stateSucceeded = "SUCCEEDED"
	stateFailed    = "FAILED"
	stateLost      = "LOST"
	stateSkipped   = "SKIPPED"
	stateCancelled = "CANCELLED"

	historyAll  = "ALL"
	historyNone = "NONE"
	allow       = "ALLOW"
	kindSimple  = "SIMPLE"
)

// chunk is how many executes' runs are held in memory at a time.
const chunk = 200

var tableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)

// read reads one snapshot and judges it execute by execute.
func (a *audit) read(ctx context.Context, db *sqlx.DB) error {
	// Before the snapshot, so that it holds all that had been committed by then: on a Galera cluster with wsrep_sync_wait
	// it is BEGIN that waits for that.
	now, err := schema.Now(ctx, db)
	if err != nil {
		return err
	}
	a.now = now
	tx, err := db.BeginTxx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // it has only read
	if err := a.readNodes(ctx, tx); err != nil {
		return err
	}
	if a.taken, err = schema.Now(ctx, tx); err != nil {
		return err
	}
	starts, err := a.readStarts(ctx, tx)
	if err != nil {
		return err
	}
	a.onRecord(starts)
	var executes []executeRow
	if err := tx.SelectContext(ctx, &executes, a.prefix.SQL(executesSQL), a.opts.App, a.opts.Except, a.opts.Except); err != nil {
		return fmt.Errorf("read executes: %w", err)
	}
	if err := a.readSpans(ctx, tx, executes, starts); err != nil {
		return err
	}
	for some := range slices.Chunk(executes, chunk) {
		if err := a.readRuns(ctx, tx, some); err != nil {
			return err
		}
	}
	return nil
}

const nodesSQL = `SELECT HOST_IP, INSTANCE FROM QRTZ_NODE WHERE APPLICATION = ?`

func (a *audit) readNodes(ctx context.Context, tx *sqlx.Tx) error {
	var nodes []struct {
		NodeID   string        `db:"HOST_IP"`
		Instance sql.NullInt64 `db:"INSTANCE"`
	}
	if err := tx.SelectContext(ctx, &nodes, a.prefix.SQL(nodesSQL), a.opts.App); err != nil {
		return fmt.Errorf("read nodes: %w", err)
	}
	a.nodes = make(map[string]sql.NullInt64, len(nodes))
	for _, n := range nodes {
		a.nodes[n.NodeID] = n.Instance
	}
	return nil
}

const (
	startsSQL = `
SELECT COALESCE(EXECUTE_ID, 0) AS EXECUTE_ID, FIRE_TIME, ATTEMPT, NODE, STARTED_AT, %s AS FINISHED_AT
  FROM %s WHERE FIRE_TIME BETWEEN ? AND ?`

	hasEndSQL = `
SELECT COUNT(*) FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND COLUMN_NAME = 'FINISHED_AT'`
)

// readStarts is the handlers' account, from both places.
func (a *audit) readStarts(ctx context.Context, tx *sqlx.Tx) ([]Start, error) {
	var starts []Start
	if a.opts.Record != nil {
		some, err := a.opts.Record()
		if err != nil {
			return nil, fmt.Errorf("read the handlers' account: %w", err)
		}
		starts = slices.Clone(some)
	}
	if a.opts.RecordTable == "" {
		return starts, nil
	}
	var rows []struct {
		ExecuteID  int64         `db:"EXECUTE_ID"`
		FireTime   int64         `db:"FIRE_TIME"`
		Attempt    int           `db:"ATTEMPT"`
		Node       string        `db:"NODE"`
		StartedAt  int64         `db:"STARTED_AT"`
		FinishedAt sql.NullInt64 `db:"FINISHED_AT"`
	}
	var hasEnd bool
	if err := tx.GetContext(ctx, &hasEnd, hasEndSQL, a.opts.RecordTable); err != nil {
		return nil, fmt.Errorf("look at %s: %w", a.opts.RecordTable, err)
	}
	end := "NULL"
	if hasEnd {
		end = "FINISHED_AT"
	}
	query := fmt.Sprintf(startsSQL, end, a.opts.RecordTable) // validated
	if err := tx.SelectContext(ctx, &rows, query, a.opts.From.UnixMilli(), a.opts.Until.UnixMilli()); err != nil {
		return nil, fmt.Errorf("read the handlers' account in %s: %w", a.opts.RecordTable, err)
	}
	for _, r := range rows {
		s := Start{
			ExecuteID: r.ExecuteID, FireTime: time.UnixMilli(r.FireTime), StartedAt: time.UnixMilli(r.StartedAt), Attempt: r.Attempt, Node: r.Node,
		}
		if r.FinishedAt.Valid {
			s.FinishedAt = time.UnixMilli(r.FinishedAt.Int64)
		}
		starts = append(starts, s)
	}
	return starts, nil
}

const executesSQL = `
SELECT E.ID, E.STATE, E.STATE_REASON, E.JOB_TYPE, E.CRON, E.ZONE_ID, E.REPEAT_COUNT, E.REPEAT_INTERVAL,
       E.NEXT_FIRE_TIME, E.START_TIME, E.END_TIME, E.PAUSED_AT,
       CAST(UNIX_TIMESTAMP(E.CHANGED_AT) * 1000 AS SIGNED) AS CHANGED_MS,
       E.PID, J.RECOVERY, J.OVERLAP, J.MAX_RUNNING, J.ATTEMPTS, J.HISTORY, J.KEEP_FOR, J.KEEP_RUNS
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID
 WHERE J.APPLICATION = ? AND (? = '' OR J.NAME IS NULL OR J.NAME NOT LIKE CONCAT(?, '%')) ORDER BY E.ID`

// executeRow is an execute as it is stored.
type executeRow struct {
	ID       int64          `db:"ID"`
	State    string         `db:"STATE"`
	Reason   sql.NullString `db:"STATE_REASON"`
	Kind     string         `db:"JOB_TYPE"`
	Cron     sql.NullString `db:"CRON"`
	Zone     sql.NullString `db:"ZONE_ID"`
	Repeat   sql.NullInt64  `db:"REPEAT_COUNT"`
	Every    sql.NullInt64  `db:"REPEAT_INTERVAL"`
	Next     sql.NullInt64  `db:"NEXT_FIRE_TIME"`
	Start    int64          `db:"START_TIME"`
	End      sql.NullInt64  `db:"END_TIME"`
	PausedAt sql.NullInt64  `db:"PAUSED_AT"`
	Changed  sql.NullInt64  `db:"CHANGED_MS"`

	// of its job
	JobID      int64  `db:"PID"`
	Recovery   bool   `db:"RECOVERY"`
	Overlap    string `db:"OVERLAP"`
	MaxRunning int    `db:"MAX_RUNNING"`
	Attempts   int    `db:"ATTEMPTS"`
	History    string `db:"HISTORY"`
	KeepFor    int64  `db:"KEEP_FOR"`
	KeepRuns   int    `db:"KEEP_RUNS"`
}

// keepsAll tells whether every run leaves a row when it ends.
func (e *executeRow) keepsAll() bool { return e.History == historyAll }

// writesRow tells whether a run has a row at least while it goes, so that it cannot vanish with its node.
func (e *executeRow) writesRow() bool {
	return e.History != historyNone || e.limited() || e.Recovery || e.Attempts > 1
}

// limited tells whether only some runs of its job may go at a time.
func (e *executeRow) limited() bool { return e.Overlap != allow || e.MaxRunning > 0 }

// cleaned tells whether the row of a fire may have been deleted by the job's retention rules. Which rows KEEP_RUNS deleted
// cannot be told afterwards: they go in the order of their ids, but not before their results are written.
func (e *executeRow) cleaned(fire, now time.Time) bool {
	return e.KeepRuns > 0 || e.KeepFor > 0 && now.Sub(fire) > time.Duration(e.KeepFor)*time.Millisecond
}

// Of a limited number of fires all runs are read, whatever their time: they are counted from the beginning.
const runsSQL = `
SELECT R.ID, R.EXECUTE_ID, R.FIRE_TIME, R.ATTEMPT, R.STATE, R.HOST_IP, R.INSTANCE, R.CLAIMED_AT, R.STARTED_AT,
       R.LAST_FIRE_TIME, R.FIRE_COUNT
  FROM QRTZ_RUN R JOIN QRTZ_EXECUTE E ON E.ID = R.EXECUTE_ID
 WHERE R.EXECUTE_ID IN (?) AND R.FIRE_TIME <= ? AND (COALESCE(R.LAST_FIRE_TIME, R.FIRE_TIME) >= ? OR E.REPEAT_COUNT >= 0)
 ORDER BY R.EXECUTE_ID, R.FIRE_TIME, R.ATTEMPT, R.ID`

// runRow is a run as it is stored.
type runRow struct {
	ID        int64          `db:"ID"`
	ExecuteID int64          `db:"EXECUTE_ID"`
	FireTime  int64          `db:"FIRE_TIME"`
	Attempt   int            `db:"ATTEMPT"`
	State     string         `db:"STATE"`
	Node      sql.NullString `db:"HOST_IP"`
	Instance  sql.NullInt64  `db:"INSTANCE"`
	ClaimedAt sql.NullInt64  `db:"CLAIMED_AT"`
	StartedAt sql.NullInt64  `db:"STARTED_AT"`
	LastFire  sql.NullInt64  `db:"LAST_FIRE_TIME"`
	Count     int64          `db:"FIRE_COUNT"`
}

func (r runRow) at() time.Time { return time.UnixMilli(r.FireTime) }

// until is the last fire that the row stands for.
func (r runRow) until() time.Time {
	if r.LastFire.Valid {
		return time.UnixMilli(r.LastFire.Int64)
	}
	return r.at()
}

// readRuns judges some executes by their runs.
func (a *audit) readRuns(ctx context.Context, tx *sqlx.Tx, executes []executeRow) error {
	ids := make([]int64, len(executes))
	for i, e := range executes {
		ids[i] = e.ID
	}
	query, args, err := sqlx.In(a.prefix.SQL(runsSQL), ids, a.opts.Until.UnixMilli(), a.opts.From.UnixMilli())
	if err != nil {
		return err
	}
	var runs []runRow
	if err := tx.SelectContext(ctx, &runs, query, args...); err != nil {
		return fmt.Errorf("read runs: %w", err)
	}
	of := map[int64][]runRow{}
	for _, r := range runs {
		of[r.ExecuteID] = append(of[r.ExecuteID], r)
	}
	for i := range executes {
		a.judge(&executes[i], of[executes[i].ID])
	}
	return nil
}
