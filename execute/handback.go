package execute

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// A claim in doubt may still be on its way to the server. What it would have to find is therefore changed, whether or not
// it has arrived: the token of an execute, the fence of a run. It then finds nothing. (On a Galera cluster it may have been
// committed through another server: as both write the row, the later of the two is refused.)
const (
	lockExecutesSQL = `SELECT ID FROM QRTZ_EXECUTE FORCE INDEX (PRIMARY) WHERE ID IN (?) ORDER BY ID FOR UPDATE`

	insertRowlessSQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, AVAILABLE_AT)
SELECT ?, E.PID, E.ID, F.FIRE, 'PENDING', F.FIRE
  FROM %s F STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = F.ID
 WHERE E.CLAIM_TOKEN = F.TOKEN` + run.KeepOldRunSQL

	handBackFiresSQL = `
UPDATE %s F STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (QRTZ_RUN_FIRE) ON R.EXECUTE_ID = F.ID AND R.FIRE_TIME = F.FIRE AND R.ATTEMPT = 1
   SET R.STATE = 'PENDING', R.INSTANCE = NULL, R.HOST_IP = NULL, R.CLAIMED_AT = NULL, R.OVERLAP_KEY = NULL, R.CLAIM_TOKEN = NULL,
       R.FENCE = LEAST(R.FENCE, 8999999999999999999) + 1
 WHERE R.STATE = 'RUNNING' AND R.CLAIM_TOKEN = F.TOKEN AND R.INSTANCE = ?`

	// What others have claimed since carries their token, so that the claim in doubt can no longer be won: it stays as they expect it.
	forestallSQL = `
UPDATE %s V STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = V.ID
   SET E.CLAIM_TOKEN = ?, E.FENCE = ` + nextFenceSQL + `, E.CHANGED_AT = E.CHANGED_AT
 WHERE E.CLAIM_TOKEN <=> V.TOKEN0 OR E.CLAIM_TOKEN = V.TOKEN`
)

// HandBackFires gives up claims in doubt. Those that were won: their fires become PENDING. Those that were not can no longer
// be won. Whether a fire without a row was won, only the token of its execute says: if the execute has been claimed again
// since, the fire does not run. It returns what has to be tried again: claims of executes that another transaction has locked.
func (s *Store) HandBackFires(ctx context.Context, who node.Instance, claims []Move) (again []Move, err error) {
	claims = slices.Clone(claims)
	slices.SortFunc(claims, func(a, b Move) int { return cmp.Compare(a.Execute.ID, b.Execute.ID) })
	free, err := s.unlocked(ctx, claims)
	if err == nil && len(free) > 0 {
		err = s.handBackFires(ctx, who, free)
	}
	if err != nil {
		return claims, fmt.Errorf("hand back fires: %w", err)
	}
	return slices.DeleteFunc(claims, func(m Move) bool {
		return slices.ContainsFunc(free, func(f Move) bool { return f.Execute == m.Execute })
	}), nil
}

const (
	unlockedExecutesSQL = `SELECT ID FROM QRTZ_EXECUTE FORCE INDEX (PRIMARY) WHERE ID IN (?) FOR UPDATE SKIP LOCKED`

	runsOfFiresSQL = `
SELECT R.ID, R.EXECUTE_ID FROM %s F
  STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (QRTZ_RUN_FIRE) ON R.EXECUTE_ID = F.ID AND R.FIRE_TIME = F.FIRE AND R.ATTEMPT = 1`
)

// unlocked are those of some claims of which no other transaction has locked the execute, or a run.
func (s *Store) unlocked(ctx context.Context, claims []Move) (free []Move, err error) {
	var ids []int64
	if err := s.db.Select(ctx, &ids, unlockedExecutesSQL, executeIDs(claims)); err != nil {
		return nil, err
	}
	held, err := s.withLockedRuns(ctx, claims)
	if err != nil {
		return nil, err
	}
	for _, m := range claims {
		if slices.Contains(ids, m.Execute.ID) && !slices.Contains(held, m.Execute.ID) {
			free = append(free, m)
		}
	}
	return free, nil
}

// withLockedRuns are the executes of which another transaction has locked a run that is claimed.
func (s *Store) withLockedRuns(ctx context.Context, claims []Move) (executes []int64, err error) {
	table, args := firesOf(claims)
	var runs []struct {
		ID        int64 `db:"ID"`
		ExecuteID int64 `db:"EXECUTE_ID"`
	}
	if err := s.db.Select(ctx, &runs, fmt.Sprintf(runsOfFiresSQL, table), args...); err != nil || len(runs) == 0 {
		return nil, err
	}
	ids := make([]int64, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	var free []int64
	if err := s.db.Select(ctx, &free, run.UnlockedSQL, ids); err != nil {
		return nil, err
	}
	for _, r := range runs {
		if _, found := slices.BinarySearch(free, r.ID); !found {
			executes = append(executes, r.ExecuteID)
		}
	}
	return executes, nil
}

// firesOf is a table of the fires of claims.
func firesOf(claims []Move) (table string, args []any) {
	var fires []any
	for _, m := range claims {
		for _, r := range m.Runs {
			fires = append(fires, m.Execute.ID, m.token, r.FireTime.UnixMilli())
		}
	}
	return schema.Values(fires, "ID", "TOKEN", "FIRE")
}

// tokensOf is a table of the executes of claims: the token that was read before the claim, and that of the claim.
func tokensOf(claims []Move) (table string, args []any) {
	rows := make([]any, 0, 3*len(claims))
	for _, m := range claims {
		rows = append(rows, m.Execute.ID, m.Execute.guard.token, m.token)
	}
	return schema.Values(rows, "ID", "TOKEN0", "TOKEN")
}

func executeIDs(moves []Move) []int64 {
	ids := make([]int64, len(moves))
	for i, m := range moves {
		ids[i] = m.Execute.ID
	}
	return ids
}

func (s *Store) handBackFires(ctx context.Context, who node.Instance, claims []Move) error {
	ids := executeIDs(claims)
	table, args := firesOf(claims)
	tokens, tokenArgs := tokensOf(claims)
	return s.db.InPacket(ctx, func(p *schema.Packet) error {
		p.Select(func(*sqlx.Rows) error { return nil }, lockExecutesSQL, ids)
		p.Exec(fmt.Sprintf(insertRowlessSQL, table), slices.Concat([]any{s.app}, args)...)
		p.Exec(fmt.Sprintf(handBackFiresSQL, table), append(slices.Clone(args), who.ID)...)
		p.Exec(fmt.Sprintf(forestallSQL, tokens), append(slices.Clone(tokenArgs), rand.Int64())...)
		return nil
	})
}
