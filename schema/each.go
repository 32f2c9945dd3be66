package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// WriteEach writes rows of a table by primary key, in one statement if it can. Rows that another transaction has locked are
// left as they are and returned; rows whose own values the server refuses are named in the error, and the others are
// written all the same. After a deadlock write tries again by itself, as Tables.Exec does.
func (t Tables) WriteEach(ctx context.Context, table string, ids []int64, write func(ids []int64) error) (locked []int64, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	err = write(ids)
	switch {
	case Locked(err):
		return t.writeUnlocked(ctx, table, ids, write)
	case RowFault(err) && len(ids) == 1:
		return nil, fmt.Errorf("row %d of %s: %w", ids[0], t.Prefix.SQL(table), err)
	case RowFault(err):
		return t.writeHalves(ctx, table, ids, write)
	}
	return nil, err
}

func (t Tables) writeHalves(ctx context.Context, table string, ids []int64, write func(ids []int64) error) (locked []int64, err error) {
	half := len(ids) / 2
	some, err := t.WriteEach(ctx, table, ids[:half], write)
	more, err2 := t.WriteEach(ctx, table, ids[half:], write)
	return append(some, more...), errors.Join(err, err2)
}

// writeUnlocked writes those of the rows that no other transaction has locked. A server that cannot tell which they are is asked to
// write fewer and fewer of them.
func (t Tables) writeUnlocked(ctx context.Context, table string, ids []int64, write func(ids []int64) error) (locked []int64, err error) {
	if len(ids) == 1 {
		return ids, nil
	}
	var free []int64
	rows, args := Values(Anys(ids), "ID")
	query := `SELECT R.ID FROM ` + rows + ` V STRAIGHT_JOIN ` + table + ` R FORCE INDEX (PRIMARY) ON R.ID = V.ID FOR UPDATE SKIP LOCKED`
	if err := t.Select(ctx, &free, query, args...); err != nil {
		return t.writeHalves(ctx, table, ids, write)
	}
	slices.Sort(free)
	if len(free) == len(ids) {
		return ids, nil // locked a moment ago, perhaps by way of another index: next time
	}
	locked = slices.DeleteFunc(slices.Clone(ids), func(id int64) bool {
		_, found := slices.BinarySearch(free, id)
		return found
	})
	more, err := t.WriteEach(ctx, table, free, write)
	return append(locked, more...), err
}

// ByKey runs a statement whose %s is a table of ids, joined first, so that the rows are looked up by their primary keys:
// of a small table WHERE ID IN (…) reads, and so waits for, other rows, too.
func ByKey(ctx context.Context, e Execer, query string, ids []int64, args ...any) error {
	rows, keys := Values(Anys(ids), "ID")
	_, err := e.Exec(ctx, fmt.Sprintf(query, rows), append(keys, args...)...)
	return err
}

// Anys are ids as the rows of a table of one column.
func Anys(ids []int64) []any {
	all := make([]any, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}
