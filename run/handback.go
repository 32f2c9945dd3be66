package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

// What takes a claim back. Each statement matches what that very claim did, by its token, and nothing that was done before
// or after it: a hand-back may be made again when its answer was lost, and may arrive late.

// handBackSQL also writes runs that are still PENDING, as before their claim: on a Galera cluster the claim may have been
// committed through another server and be about to arrive. Since both write the row, this statement is refused, and made again.
const handBackSQL = `
UPDATE %s V STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID
   SET R.STATE = 'PENDING', R.INSTANCE = NULL, R.HOST_IP = NULL, R.CLAIMED_AT = NULL, R.OVERLAP_KEY = NULL, R.CLAIM_TOKEN = NULL,
       R.FENCE = LEAST(R.FENCE, 8999999999999999999) + 1
 WHERE R.STATE = 'RUNNING' AND R.CLAIM_TOKEN = V.TOKEN AND R.INSTANCE = V.HOLDER OR R.STATE = 'PENDING' AND R.FENCE <= V.FENCE0`

const handBackBatch = 500 // runs that one statement hands back

// HandBack makes runs PENDING again, for any node to take, that were claimed and never started. It returns those that have to
// be tried again, since another transaction has locked their rows; after an error, also those that it did not come to.
func (s *Store) HandBack(ctx context.Context, runs []Run) (again []Run, err error) {
	free, again, err := heldApart(ctx, s, runs, func(r Run) int64 { return r.ID })
	if err != nil {
		return runs, fmt.Errorf("hand back runs: %w", err)
	}
	done := 0
	for some := range light(free, handBackBatch, Run.weight) {
		rows := make([]any, 0, 4*len(some))
		for _, r := range some {
			rows = append(rows, r.ID, r.Token, r.Instance, r.Fence)
		}
		table, args := schema.Values(rows, "ID", "TOKEN", "HOLDER", "FENCE0")
		if _, err := s.db.Exec(ctx, fmt.Sprintf(handBackSQL, table), args...); err != nil {
			return append(again, free[done:]...), fmt.Errorf("hand back runs: %w", err)
		}
		done += len(some)
	}
	return again, nil
}

const presentSQL = `SELECT ID FROM QRTZ_RUN FORCE INDEX (PRIMARY) WHERE ID IN (?)`

// heldApart parts runs, in order of id, into those whose rows are free, or gone, and those whose rows are locked.
func heldApart[T any](ctx context.Context, s *Store, runs []T, id func(T) int64) (free, held []T, err error) {
	if len(runs) == 0 {
		return nil, nil, nil
	}
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b T) int { return cmp.Compare(id(a), id(b)) })
	ids := make([]int64, len(runs))
	for i, r := range runs {
		ids[i] = id(r)
	}
	var present, unlocked []int64
	if err := s.db.Select(ctx, &present, presentSQL, ids); err != nil {
		return nil, nil, err
	}
	if err := s.db.Select(ctx, &unlocked, UnlockedSQL, ids); err != nil {
		return nil, nil, err
	}
	for _, r := range runs {
		if slices.Contains(present, id(r)) && !slices.Contains(unlocked, id(r)) {
			held = append(held, r)
		} else {
			free = append(free, r)
		}
	}
	return free, held, nil
}

// LeaveForOthers gives runs that have no row (HistoryNone) and were never started one, PENDING, for any node to take. It
// must not be called twice for the same runs: others may have carried them out meanwhile, and deleted their rows.
func (s *Store) LeaveForOthers(ctx context.Context, runs []Run) error {
	return s.insertPending(ctx, runs)
}

const handBackPendingSQL = `
UPDATE %s V STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID
   SET R.STATE = 'PENDING', R.INSTANCE = NULL, R.HOST_IP = NULL, R.CLAIMED_AT = NULL, R.OVERLAP_KEY = NULL, R.CLAIM_TOKEN = NULL,
       R.FENCE = LEAST(R.FENCE, 8999999999999999999) + 1
 WHERE R.STATE = 'PENDING' AND R.FENCE = V.FENCE0 OR R.STATE = 'RUNNING' AND R.INSTANCE = ? AND R.CLAIM_TOKEN = V.TOKEN`

// HandBackPending gives up claims of pending runs that are in doubt, as execute.Store.HandBackFires does those of fires. It
// returns what has to be tried again.
func (s *Store) HandBackPending(ctx context.Context, who node.Instance, runs []PendingRun) (again []PendingRun, err error) {
	free, again, err := heldApart(ctx, s, runs, func(r PendingRun) int64 { return r.ID })
	if err != nil {
		return runs, fmt.Errorf("hand back pending runs: %w", err)
	}
	done := 0
	for some := range light(free, handBackBatch, func(r PendingRun) int64 { return r.ownData }) {
		rows := make([]any, 0, 3*len(some))
		for _, r := range some {
			rows = append(rows, r.ID, r.token, r.fence)
		}
		table, args := schema.Values(rows, "ID", "TOKEN", "FENCE0")
		if _, err := s.db.Exec(ctx, fmt.Sprintf(handBackPendingSQL, table), append(args, who.ID)...); err != nil {
			return append(again, free[done:]...), fmt.Errorf("hand back pending runs: %w", err)
		}
		done += len(some)
	}
	return again, nil
}
