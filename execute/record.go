package execute

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

const (
	insertRunsSQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, AVAILABLE_AT, HOST_IP, INSTANCE, FENCE,
       CLAIMED_AT, FINISHED_AT, LAST_FIRE_TIME, FIRE_COUNT, MESSAGE)
VALUES `
	insertRunSQL = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ` + schema.NowMillisSQL + `, IF(? = 'SKIPPED', ` + schema.NowMillisSQL + `, NULL), ?, ?, ?)`

	// A fire that has a run already keeps it: somebody turned the execute back by hand.
	keepOldRunSQL = ` ON DUPLICATE KEY UPDATE ID = ID`

	newRunsSQL = `
SELECT R.ID, R.EXECUTE_ID, R.FIRE_TIME
  FROM %s V JOIN QRTZ_RUN R ON R.EXECUTE_ID = V.EXECUTE_ID AND R.FIRE_TIME = V.FIRE_TIME AND R.ATTEMPT = 1
 WHERE R.STATE IN ('RUNNING', 'PENDING') AND R.FENCE = V.FENCE`
)

// runBatch is how many runs one statement inserts: CATCH_UP may leave half a million in one transaction.
const runBatch = 1000

// SkippedFire is a row that says SKIPPED.
type SkippedFire struct {
	JobID, ExecuteID int64
	Class            string
	NewRun
}

// record leaves the rows of won moves in QRTZ_RUN. It returns the runs that are ours to start, in order of fire time.
func (s *Store) record(ctx context.Context, tx *sqlx.Tx, who Instance, won []wonMove) (ours []Run, skipped []SkippedFire, err error) {
	ours = slices.Grow(ours, len(won))
	var rows []newRow
	for i := range won {
		m := &won[i]
		for _, r := range m.Runs {
			switch {
			case r.State == Skipped:
				skipped = append(skipped, SkippedFire{m.Execute.JobID, m.Execute.ID, m.class, r})
			case r.State == Running && !m.options.writesRow():
				ours = append(ours, m.run(r, who))
				continue
			}
			rows = append(rows, newRow{NewRun: r, won: m})
		}
	}
	for some := range slices.Chunk(rows, runBatch) {
		if err := s.insertRows(ctx, tx, who, some); err != nil {
			return nil, nil, fmt.Errorf("insert runs: %w", err)
		}
		inserted, err := s.readBackRows(ctx, tx, who, some)
		if err != nil {
			return nil, nil, fmt.Errorf("read back runs: %w", err)
		}
		ours = append(ours, inserted...)
	}
	ours, overlapping, err := s.startExclusive(ctx, tx, who, ours)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(ours, byFireTime)
	return ours, append(skipped, overlapping...), nil
}

// newRow is a row of QRTZ_RUN to be inserted.
type newRow struct {
	NewRun
	won *wonMove
}

// state is what the row is inserted as. A run that must be the only one of its job begins as PENDING, and is
// started within the same transaction if there is room.
func (r newRow) state() RunState {
	if r.State == Running && r.won.options.exclusive() {
		return Pending
	}
	return r.State
}

func (m *wonMove) run(r NewRun, who Instance) Run {
	return Run{
		JobID: m.Execute.JobID, ExecuteID: m.Execute.ID, Class: m.class, Data: m.data, DataSize: m.size, Options: m.options,
		FireTime: r.FireTime, Attempt: 1, Fence: m.fence, Instance: who.ID,
	}
}

func (s *Store) insertRows(ctx context.Context, tx sqlx.ExecerContext, who Instance, some []newRow) error {
	args := make([]any, 0, 13*len(some))
	for _, r := range some {
		fire, state := r.FireTime.UnixMilli(), r.state()
		holder, instance := sql.NullString{}, sql.NullInt64{}
		if state == Running {
			holder, instance = sql.NullString{String: who.HostIP, Valid: true}, sql.NullInt64{Int64: who.ID, Valid: true}
		}
		args = append(args, s.app, r.won.Execute.JobID, r.won.Execute.ID, fire, state, fire, holder, instance, r.won.fence, state,
			nextMillis(r.LastFire), r.Count, sql.NullString{String: r.Message, Valid: r.Message != ""})
	}
	query := insertRunsSQL + insertRunSQL + strings.Repeat(", "+insertRunSQL, len(some)-1) + keepOldRunSQL
	_, err := tx.ExecContext(ctx, s.prefix.SQL(query), args...)
	return err
}

// readBackRows finds the ids of the rows that are there for us to run. The fence tells them from older rows.
func (s *Store) readBackRows(ctx context.Context, tx *sqlx.Tx, who Instance, some []newRow) ([]Run, error) {
	type fireKey struct{ execute, fire int64 }
	wanted := make(map[fireKey]Run, len(some))
	keys := make([]any, 0, 3*len(some))
	for _, r := range some {
		if r.State == Running {
			key := fireKey{r.won.Execute.ID, r.FireTime.UnixMilli()}
			keys = append(keys, key.execute, key.fire, r.won.fence)
			wanted[key] = r.won.run(r.NewRun, who)
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	var ids []struct {
		ID        int64 `db:"ID"`
		ExecuteID int64 `db:"EXECUTE_ID"`
		FireTime  int64 `db:"FIRE_TIME"`
	}
	table, args := values(keys, "EXECUTE_ID", "FIRE_TIME", "FENCE")
	if err := tx.SelectContext(ctx, &ids, s.prefix.SQL(fmt.Sprintf(newRunsSQL, table)), args...); err != nil {
		return nil, err
	}
	runs := make([]Run, 0, len(ids))
	for _, id := range ids {
		run := wanted[fireKey{id.ExecuteID, id.FireTime}]
		run.ID = id.ID
		runs = append(runs, run)
	}
	return runs, nil
}

func byFireTime(a, b Run) int {
	return cmp.Or(a.FireTime.Compare(b.FireTime), cmp.Compare(a.ID, b.ID))
}
