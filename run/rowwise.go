package run

import (
	"context"

	"github.com/qrtz-go/qrtz/schema"
)

// maxLockWaits is how often one call waits for locks. A wait takes as long as the session allows, a second for the engine's own.
const maxLockWaits = 3

// rowwise carries out a step for many rows of QRTZ_RUN at once, so that no row costs the others anything: if the server
// refuses the step for reasons of a row, or if a row is locked, the others are done without it.
type rowwise[T any] struct {
	store *Store
	id    func(T) int64
	// write does the step for some rows, all or none. After a deadlock it tries again by itself.
	write func(context.Context, []T) error
	// refused deals with the one row that the server refuses.
	refused func(context.Context, T, error) error
	// locked is given the rows that another transaction holds.
	locked func(...T)

	waits int // for locks, so far
}

// batch does the step for a batch of rows. Once there has been a lock to wait for it looks first, rather than wait again.
func (w *rowwise[T]) batch(ctx context.Context, rows []T) (left []T, err error) {
	if w.waits > 0 {
		if free, held, err := w.unlocked(ctx, rows); err == nil {
			w.locked(held...)
			rows = free
		}
	}
	return w.do(ctx, rows)
}

// do does the step for rows. What an error other than a row's own kept it from doing is left.
func (w *rowwise[T]) do(ctx context.Context, rows []T) (left []T, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	err = w.write(ctx, rows)
	if schema.RowFault(err) && len(rows) == 1 {
		err = w.refused(ctx, rows[0], err)
	}
	switch {
	case err == nil:
		return nil, nil
	case schema.Locked(err):
		return w.around(ctx, rows)
	case schema.RowFault(err) && len(rows) > 1:
		return w.halves(ctx, rows)
	default:
		return rows, err
	}
}

func (w *rowwise[T]) halves(ctx context.Context, rows []T) (left []T, err error) {
	half := len(rows) / 2
	if left, err = w.do(ctx, rows[:half:half]); err != nil {
		return append(left, rows[half:]...), err
	}
	return w.do(ctx, rows[half:])
}

// around does the step for those rows that no other transaction holds. If the lock is not on the rows themselves (but on an entry of an
// index, as that of OVERLAP_KEY), halving finds whom it concerns.
func (w *rowwise[T]) around(ctx context.Context, rows []T) (left []T, err error) {
	if w.waits++; len(rows) == 1 || w.waits >= maxLockWaits {
		w.locked(rows...)
		return nil, nil
	}
	free, held, err := w.unlocked(ctx, rows)
	if err != nil || len(held) == 0 { // an old server may not know SKIP LOCKED
		return w.halves(ctx, rows)
	}
	w.locked(held...)
	return w.do(ctx, free)
}

// UnlockedSQL reads which of some runs no other transaction has locked.
const UnlockedSQL = `SELECT ID FROM QRTZ_RUN FORCE INDEX (PRIMARY) WHERE ID IN (?) ORDER BY ID FOR UPDATE SKIP LOCKED`

// unlocked parts rows into those that no other transaction holds, and the others. Rows that are gone count as held.
func (w *rowwise[T]) unlocked(ctx context.Context, rows []T) (free, held []T, err error) {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = w.id(row)
	}
	var unlocked []int64
	if err := w.store.db.Select(ctx, &unlocked, UnlockedSQL, ids); err != nil {
		return nil, nil, err
	}
	is := make(map[int64]bool, len(unlocked))
	for _, id := range unlocked {
		is[id] = true
	}
	for _, row := range rows {
		if is[w.id(row)] {
			free = append(free, row)
		} else {
			held = append(held, row)
		}
	}
	return free, held, nil
}
