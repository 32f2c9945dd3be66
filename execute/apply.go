package execute

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// Applied is what became of a batch of moves.
type Applied struct {
	Moved []*Execute // the executes that were ours to move, as they are now, in order of id
	Runs  []Run      // the runs among their rows that are RUNNING: ours to start
}

// Claim carries out claims: it wins the fires it can and returns them; what another node won, what has
// been changed since it was read, and everything if this instance, its node or its app is off, is
// missing from the result and no error. After schema.ErrCommitUnknown the claims may have been won
// all the same: HandBackFires gives them up.
func (s *Store) Claim(ctx context.Context, who Instance, moves []Move) (Applied, error) {
	a, err := s.apply(ctx, who, Executing, mustBeOn, moves)
	if err != nil {
		return a, fmt.Errorf("claim fires: %w", err)
	}
	return a, nil
}

// Repair carries out moves of executes in state from that start nothing here. It needs a live instance but
// not one that is on. Like Claim it leaves out what somebody else moved meanwhile.
func (s *Store) Repair(ctx context.Context, who Instance, from State, moves []Move) (Applied, error) {
	a, err := s.apply(ctx, who, from, mayBeOff, moves)
	if err != nil {
		return a, fmt.Errorf("repair executes: %w", err)
	}
	return a, nil
}

// The switches are read by the UPDATE itself, which locks their rows: a switch thrown waits for the
// claim in flight, and no claim after it sees the old one. (Seen on MariaDB 10.11 and MySQL 9.7.)
const (
	mustBeOn = `AND N.STATE = 'Y' AND A.STATE = 'Y'`
	mayBeOff = ``
)

func (s *Store) apply(ctx context.Context, who Instance, from State, switches string, moves []Move) (Applied, error) {
	if len(moves) == 0 {
		return Applied{}, nil
	}
	slices.SortFunc(moves, func(a, b Move) int { return cmp.Compare(a.Execute.ID, b.Execute.ID) })
	var applied Applied
	err := schema.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		token := rand.Int64()
		if err := s.updateGuarded(ctx, tx, who, token, from, switches, moves); err != nil {
			return err
		}
		won, fences, jobs, err := s.readBack(ctx, tx, token, moves)
		if err != nil || len(won) == 0 {
			applied = Applied{}
			return err
		}
		runs, err := s.insertRuns(ctx, tx, who, won, fences, jobs)
		if err != nil {
			return err
		}
		applied = Applied{Runs: runs}
		for _, m := range won {
			applied.Moved = append(applied.Moved, m.moved())
		}
		return nil
	})
	if err != nil {
		return Applied{}, err
	}
	return applied, nil
}

const guardedUpdateSQL = `
UPDATE QRTZ_EXECUTE E
  JOIN %s V ON V.ID = E.ID
  JOIN QRTZ_NODE N ON N.APPLICATION = ? AND N.HOST_IP = ?
  JOIN QRTZ_APP A ON A.APPLICATION = ?
   SET E.STATE = V.STATE1, E.STATE_REASON = V.REASON, E.PREV_FIRE_TIME = V.PREV1, E.NEXT_FIRE_TIME = V.NEXT1,
       E.TIME_TRIGGERED = GREATEST(COALESCE(E.TIME_TRIGGERED, 0), 0) + V.FIRES,
       E.PAUSED_AT = IF(? = 'PAUSED', E.PAUSED_AT, NULL),
       E.HOST_IP = ?, E.HOST_NAME = ?, E.CLAIM_TOKEN = ?, E.FENCE = E.FENCE + 1,
       E.CHANGED_AT = IF(V.SAME_STATE, E.CHANGED_AT, CURRENT_TIMESTAMP(3))
 WHERE E.STATE = ? AND E.PREV_FIRE_TIME <=> V.PREV0 AND E.NEXT_FIRE_TIME <=> V.NEXT0 AND ` + specSQL + ` = V.SPEC0
   AND N.INSTANCE = ? %s`

func (s *Store) updateGuarded(ctx context.Context, tx *sqlx.Tx, who Instance, token int64, from State, switches string, moves []Move) error {
	rows := values(len(moves), "ID", "PREV0", "NEXT0", "SPEC0", "STATE1", "REASON", "PREV1", "NEXT1", "FIRES", "SAME_STATE")
	args := make([]any, 0, 10*len(moves)+10)
	for _, m := range moves {
		g := m.Execute.guard
		args = append(args, m.Execute.ID, g.prev, g.next, g.spec,
			m.State, sql.NullString{String: clip(m.Reason, 500), Valid: m.Reason != ""},
			millis(m.Prev, -1), nextMillis(m.Next), m.Fires, m.State == from)
	}
	args = append(args, s.app, who.HostIP, s.app, from, who.HostIP, who.HostName, token, from, who.ID)
	_, err := tx.ExecContext(ctx, s.prefix.SQL(fmt.Sprintf(guardedUpdateSQL, rows, switches)), args...)
	return err
}

const readBackSQL = `
SELECT E.ID, E.FENCE, J.JOB_CLASS, J.JOB_DATA
  FROM QRTZ_EXECUTE E LEFT JOIN QRTZ_JOB J ON J.ID = E.PID
 WHERE E.ID IN (?) AND E.CLAIM_TOKEN = ?`

type jobOf struct {
	class string
	data  []byte
}

// readBack finds the moves whose rows carry our token. The count of affected rows does not tell: a
// loser on a Galera cluster was seen to report one.
func (s *Store) readBack(ctx context.Context, tx *sqlx.Tx, token int64, moves []Move) (won []Move, fences map[int64]int64, jobs map[int64]jobOf, err error) {
	ids := make([]int64, len(moves))
	for i, m := range moves {
		ids[i] = m.Execute.ID
	}
	var rows []struct {
		ID    int64          `db:"ID"`
		Fence int64          `db:"FENCE"`
		Class sql.NullString `db:"JOB_CLASS"`
		Data  []byte         `db:"JOB_DATA"`
	}
	if err := s.selectRows(ctx, tx, &rows, readBackSQL, ids, token); err != nil {
		return nil, nil, nil, err
	}
	fences, jobs = make(map[int64]int64, len(rows)), make(map[int64]jobOf, len(rows))
	for _, r := range rows {
		fences[r.ID], jobs[r.ID] = r.Fence, jobOf{r.Class.String, r.Data}
	}
	for _, m := range moves {
		if _, ok := fences[m.Execute.ID]; ok {
			won = append(won, m)
		}
	}
	return won, fences, jobs, nil
}

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
 WHERE R.STATE = 'RUNNING' AND R.INSTANCE = ? AND R.FENCE = V.FENCE`
)

// runBatch is how many runs one statement inserts: CATCH_UP may leave half a million in one transaction.
const runBatch = 1000

// insertRuns inserts the runs of the won moves and returns those that are RUNNING, with their ids, in order of fire time.
func (s *Store) insertRuns(ctx context.Context, tx *sqlx.Tx, who Instance, won []Move, fences map[int64]int64, jobs map[int64]jobOf) ([]Run, error) {
	var all []newRun
	for _, m := range won {
		for _, r := range m.Runs {
			all = append(all, newRun{NewRun: r, execute: m.Execute, fence: fences[m.Execute.ID], job: jobs[m.Execute.ID]})
		}
	}
	var runs []Run
	for some := range slices.Chunk(all, runBatch) {
		if err := s.insertSomeRuns(ctx, tx, who, some); err != nil {
			return nil, fmt.Errorf("insert runs: %w", err)
		}
		ours, err := s.readBackRuns(ctx, tx, who, some)
		if err != nil {
			return nil, fmt.Errorf("read back runs: %w", err)
		}
		runs = append(runs, ours...)
	}
	slices.SortFunc(runs, byFireTime)
	return runs, nil
}

// newRun is a run to be inserted, with what its execute and its job give it.
type newRun struct {
	NewRun
	execute *Execute
	fence   int64
	job     jobOf
}

func (s *Store) insertSomeRuns(ctx context.Context, tx *sqlx.Tx, who Instance, some []newRun) error {
	args := make([]any, 0, 13*len(some))
	for _, r := range some {
		fire := r.FireTime.UnixMilli()
		holder, instance := sql.NullString{}, sql.NullInt64{}
		if r.State == Running {
			holder, instance = sql.NullString{String: who.HostIP, Valid: true}, sql.NullInt64{Int64: who.ID, Valid: true}
		}
		args = append(args, s.app, r.execute.JobID, r.execute.ID, fire, r.State, fire, holder, instance, r.fence, r.State,
			nextMillis(r.LastFire), r.Count, sql.NullString{String: r.Message, Valid: r.Message != ""})
	}
	query := insertRunsSQL + insertRunSQL + strings.Repeat(", "+insertRunSQL, len(some)-1) + keepOldRunSQL
	_, err := tx.ExecContext(ctx, s.prefix.SQL(query), args...)
	return err
}

func (s *Store) readBackRuns(ctx context.Context, tx *sqlx.Tx, who Instance, some []newRun) ([]Run, error) {
	type fireKey struct{ execute, fire int64 }
	running := map[fireKey]Run{}
	var keys []any
	for _, r := range some {
		if e, fire := r.execute, r.FireTime.UnixMilli(); r.State == Running {
			keys = append(keys, e.ID, fire, r.fence)
			running[fireKey{e.ID, fire}] = Run{
				JobID: e.JobID, ExecuteID: e.ID, Class: r.job.class, Data: r.job.data, FireTime: r.FireTime, Attempt: 1, Fence: r.fence, Instance: who.ID,
			}
		}
	}
	if len(running) == 0 {
		return nil, nil
	}
	var ids []struct {
		ID        int64 `db:"ID"`
		ExecuteID int64 `db:"EXECUTE_ID"`
		FireTime  int64 `db:"FIRE_TIME"`
	}
	query := fmt.Sprintf(newRunsSQL, values(len(running), "EXECUTE_ID", "FIRE_TIME", "FENCE"))
	if err := tx.SelectContext(ctx, &ids, s.prefix.SQL(query), append(keys, who.ID)...); err != nil {
		return nil, err
	}
	runs := make([]Run, 0, len(ids))
	for _, id := range ids {
		run := running[fireKey{id.ExecuteID, id.FireTime}]
		run.ID = id.ID
		runs = append(runs, run)
	}
	return runs, nil
}

func byFireTime(a, b Run) int {
	return cmp.Or(a.FireTime.Compare(b.FireTime), cmp.Compare(a.ID, b.ID))
}

// clip shortens text to at most n bytes of whole, valid UTF-8, as a column takes it.
func clip(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
