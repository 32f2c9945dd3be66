package execute

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// Applied is what became of a batch of moves.
type Applied struct {
	Moved []*Execute // the executes that were ours to move, as they are now, in order of id
	Runs  []Run      // the runs among their rows that are RUNNING: ours to start, in order of fire time

	// Skipped are fires put on record as SKIPPED: misfires, and fires for which an overlap rule left no room.
	Skipped []SkippedFire
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
		for i := range moves {
			moves[i].token = token
		}
		if err := s.updateGuarded(ctx, tx, who, token, from, switches, moves); err != nil {
			return err
		}
		won, err := s.readBack(ctx, tx, token, moves)
		if err != nil {
			return err
		}
		applied = Applied{}
		for _, m := range won {
			applied.Moved = append(applied.Moved, m.moved())
		}
		applied.Runs, applied.Skipped, err = s.record(ctx, tx, who, won)
		return err
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
	rows := make([]any, 0, 10*len(moves))
	for _, m := range moves {
		g := m.Execute.guard
		rows = append(rows, m.Execute.ID, g.prev, g.next, g.spec,
			m.State, sql.NullString{String: clip(m.Reason, 500), Valid: m.Reason != ""},
			millis(m.Prev, -1), nextMillis(m.Next), m.Fires, m.State == from)
	}
	table, args := values(rows, "ID", "PREV0", "NEXT0", "SPEC0", "STATE1", "REASON", "PREV1", "NEXT1", "FIRES", "SAME_STATE")
	args = append(args, s.app, who.HostIP, s.app, from, who.HostIP, who.HostName, token, from, who.ID)
	_, err := tx.ExecContext(ctx, s.prefix.SQL(fmt.Sprintf(guardedUpdateSQL, table, switches)), args...)
	return err
}

const readBackSQL = `
SELECT E.ID, E.FENCE, J.JOB_CLASS, ` + jobDataColumns + `, ` + optionColumns + `
  FROM QRTZ_EXECUTE E LEFT JOIN QRTZ_JOB J ON J.ID = E.PID
 WHERE E.ID IN (?) AND E.CLAIM_TOKEN = ?`

// wonMove is a move that was ours to make, and what its rows in QRTZ_RUN need to know.
type wonMove struct {
	Move
	fence   int64
	class   string
	data    []byte
	size    int64 // of the data, which is nil if it is too large to come with a claim
	options Options
}

// readBack finds the moves whose rows carry our token. The count of affected rows does not tell: a
// loser on a Galera cluster was seen to report one.
func (s *Store) readBack(ctx context.Context, tx *sqlx.Tx, token int64, moves []Move) ([]wonMove, error) {
	ids := make([]int64, len(moves))
	for i, m := range moves {
		ids[i] = m.Execute.ID
	}
	var rows []struct {
		ID    int64          `db:"ID"`
		Fence int64          `db:"FENCE"`
		Class sql.NullString `db:"JOB_CLASS"`
		Data  []byte         `db:"DATA"`
		Size  int64          `db:"DATA_SIZE"`
		optionRow
	}
	if err := s.selectRows(ctx, tx, &rows, readBackSQL, ids, token); err != nil {
		return nil, err
	}
	ours := make(map[int64]int, len(rows))
	for i, r := range rows {
		ours[r.ID] = i
	}
	won := make([]wonMove, 0, len(rows))
	for _, m := range moves {
		if i, ok := ours[m.Execute.ID]; ok {
			r := rows[i]
			won = append(won, wonMove{Move: m, fence: r.Fence, class: r.Class.String, data: r.Data, size: r.Size, options: r.options()})
		}
	}
	return won, nil
}
