package execute

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// A run that is still PENDING is written, too, always something new: on a Galera cluster its claim may have been committed
// through another node of the cluster and be about to arrive at this one. As both have written the row the later one fails.
const handBackSQL = `
UPDATE QRTZ_RUN SET STATE = 'PENDING', INSTANCE = NULL, HOST_IP = NULL, CLAIMED_AT = NULL, OVERLAP_KEY = NULL, FENCE = FENCE + 1
 WHERE ID IN (?) AND (STATE = 'PENDING' OR STATE = 'RUNNING' AND INSTANCE = ?)`

// HandBack makes runs that this instance claimed and never started PENDING again, for any node to take.
func (s *Store) HandBack(ctx context.Context, who Instance, runIDs []int64) error {
	for ids := range slices.Chunk(runIDs, 1000) {
		err := schema.InTx(ctx, s.db, func(tx *sqlx.Tx) error { return s.execIn(ctx, tx, handBackSQL, ids, who.ID) })
		if err != nil {
			return fmt.Errorf("hand back runs: %w", err)
		}
	}
	return nil
}

// LeaveForOthers gives runs that have no row (HistoryNone) and were never started one, PENDING, for any node to take. It
// must not be called twice for the same runs: others may have carried them out meanwhile, and deleted their rows.
func (s *Store) LeaveForOthers(ctx context.Context, runs []Run) error {
	rows := make([]newRow, len(runs))
	for i, r := range runs {
		rows[i] = pendingRow(&Execute{ID: r.ExecuteID, JobID: r.JobID}, NewRun{FireTime: r.FireTime, Count: 1})
	}
	for some := range slices.Chunk(rows, runBatch) {
		if err := s.insertRows(ctx, s.db, Instance{}, some); err != nil {
			return fmt.Errorf("hand back runs without a row: %w", err)
		}
	}
	return nil
}

func pendingRow(e *Execute, r NewRun) newRow {
	r.State = Pending
	return newRow{NewRun: r, won: &wonMove{Move: Move{Execute: e}}}
}

const (
	handBackFiresSQL = `
UPDATE QRTZ_RUN R JOIN %s V ON R.EXECUTE_ID = V.EXECUTE_ID AND R.FIRE_TIME = V.FIRE_TIME AND R.ATTEMPT = 1
   SET R.STATE = 'PENDING', R.INSTANCE = NULL, R.HOST_IP = NULL, R.CLAIMED_AT = NULL, R.OVERLAP_KEY = NULL
 WHERE R.STATE = 'RUNNING' AND R.INSTANCE = ?`

	// Executes are written whether or not the claim is to be seen, as in handBackSQL.
	touchExecutesSQL = `UPDATE QRTZ_EXECUTE SET FENCE = FENCE + 1, CHANGED_AT = CHANGED_AT WHERE ID IN (?)`

	stillOursSQL = `SELECT E.ID FROM QRTZ_EXECUTE E JOIN %s V ON V.ID = E.ID WHERE E.CLAIM_TOKEN = V.TOKEN FOR UPDATE`

	giveUpTokenSQL = `UPDATE QRTZ_EXECUTE SET CLAIM_TOKEN = NULL, CHANGED_AT = CHANGED_AT WHERE ID IN (?)`
)

// HandBackFires does the same for the fires of claims whose COMMIT got no answer: if it did commit, they are on record
// as ours, and we have not started them. Fires that leave no row are told by the token of their claim, and only once,
// since it is then deleted. Those whose execute has been claimed anew by then do not run.
func (s *Store) HandBackFires(ctx context.Context, who Instance, claims []Move) error {
	err := schema.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		if err := s.insertRowless(ctx, tx, claims); err != nil {
			return err
		}
		var fires []any
		for _, m := range claims {
			for _, r := range m.Runs {
				fires = append(fires, m.Execute.ID, r.FireTime.UnixMilli())
			}
		}
		table, args := values(fires, "EXECUTE_ID", "FIRE_TIME")
		_, err := tx.ExecContext(ctx, s.prefix.SQL(fmt.Sprintf(handBackFiresSQL, table)), append(args, who.ID)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("hand back fires: %w", err)
	}
	return nil
}

// insertRowless gives the fires of claims that did commit a row, PENDING, if they have none.
func (s *Store) insertRowless(ctx context.Context, tx *sqlx.Tx, claims []Move) error {
	tokens := make([]any, 0, 2*len(claims))
	ids := make([]int64, len(claims))
	for i, m := range claims {
		tokens = append(tokens, m.Execute.ID, m.token)
		ids[i] = m.Execute.ID
	}
	if err := s.execIn(ctx, tx, touchExecutesSQL, ids); err != nil {
		return err
	}
	var ours []int64
	table, args := values(tokens, "ID", "TOKEN")
	if err := tx.SelectContext(ctx, &ours, s.prefix.SQL(fmt.Sprintf(stillOursSQL, table)), args...); err != nil || len(ours) == 0 {
		return err
	}
	var rows []newRow
	for _, m := range claims {
		if slices.Contains(ours, m.Execute.ID) {
			for _, r := range m.Runs {
				rows = append(rows, pendingRow(m.Execute, r))
			}
		}
	}
	if err := s.insertRows(ctx, tx, Instance{}, rows); err != nil {
		return err
	}
	return s.execIn(ctx, tx, giveUpTokenSQL, ours)
}
