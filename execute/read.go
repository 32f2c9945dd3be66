package execute

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
)

const (
	dueSQL = `
SELECT ` + rowColumns + `
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID AND J.APPLICATION = E.APPLICATION
 WHERE E.APPLICATION = ? AND E.STATE = 'EXECUTING' AND E.NEXT_FIRE_TIME BETWEEN ? AND ?`

	dueIDsSQL = `
SELECT E.ID FROM QRTZ_EXECUTE E
 WHERE E.APPLICATION = ? AND E.STATE = 'EXECUTING' AND E.NEXT_FIRE_TIME BETWEEN ? AND ?`
)

// duePage is how many executes Due reads by their ids at a time.
const duePage = 1000

// Due reads the active executes with a fire between from and until, both included, that keep lets
// through. They stream: what keep refuses takes no memory.
//
// Where most of them are other nodes', mayBe tells by the id alone which are worth a look, so that the others cost
// no more than an entry of an index; nil looks at all.
func (s *Store) Due(ctx context.Context, from, until time.Time, mayBe func(id int64) bool, keep func(id int64, class string) bool) ([]*Execute, error) {
	due, err := s.due(ctx, from, until, mayBe, keep)
	if err != nil {
		return nil, fmt.Errorf("read due executes: %w", err)
	}
	return due, nil
}

func (s *Store) due(ctx context.Context, from, until time.Time, mayBe func(int64) bool, keep func(int64, string) bool) (due []*Execute, err error) {
	readRow := func(rows *sqlx.Rows) error {
		var r row
		if err := rows.StructScan(&r); err != nil {
			return err
		}
		if keep(r.ID, r.Class) {
			due = append(due, r.execute(&s.schedules))
		}
		return nil
	}
	args := []any{s.app, from.UnixMilli(), until.UnixMilli()}
	if mayBe == nil {
		err := s.stream(ctx, readRow, dueSQL, args...)
		return due, err
	}
	var id int64
	var ids []int64
	all := 0
	read := func(rows *sqlx.Rows) error {
		if err := rows.Scan(&id); err != nil {
			return err
		}
		if all++; mayBe(id) {
			ids = append(ids, id)
		}
		return nil
	}
	if s.manyDue.Load() {
		err = s.db.QueryDirty(ctx, read, dueIDsSQL, args...) // only ids, whose rows are read below
	} else {
		err = s.stream(ctx, read, dueIDsSQL, args...)
	}
	if err != nil {
		return nil, err
	}
	s.manyDue.Store(all > duePage)
	slices.Sort(ids)
	for some := range slices.Chunk(ids, duePage) {
		if err := s.stream(ctx, readRow, dueSQL+` AND E.ID IN (?)`, append(args[:3:3], some)...); err != nil {
			return nil, err
		}
	}
	return due, nil
}

// stream hands the rows of a query that may hold IN (?) to f one by one, as they arrive.
func (s *Store) stream(ctx context.Context, f func(*sqlx.Rows) error, query string, args ...any) error {
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

const overdueSQL = `
SELECT ` + rowColumns + `
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID AND J.APPLICATION = E.APPLICATION
 WHERE E.APPLICATION = ? AND E.STATE = ? AND E.NEXT_FIRE_TIME BETWEEN ? AND ? AND J.JOB_CLASS IN (?)
 ORDER BY E.NEXT_FIRE_TIME LIMIT ?`

// Overdue reads executes in state whose next fire lies between from and until, of the given classes,
// the oldest first, at most limit.
func (s *Store) Overdue(ctx context.Context, state State, classes []string, from, until time.Time, limit int) ([]*Execute, error) {
	if len(classes) == 0 {
		return nil, nil
	}
	return s.read(ctx, overdueSQL, s.app, state, from.UnixMilli(), until.UnixMilli(), classes, limit)
}

// Cursor is where a walk through executes in order of their next fire has come to.
type Cursor struct{ Next, ID int64 }

// Cursor is where a walk has come to that has read this execute.
func (e *Execute) Cursor() Cursor {
	if e.guard.next.Valid {
		return Cursor{e.guard.next.Int64, e.ID}
	}
	return Cursor{e.Next.UnixMilli(), e.ID}
}

// In the order of the index, executes first, whatever the optimizer makes of few jobs.
const (
	overdueOfAllSQL = `
SELECT ` + rowColumns + `
  FROM QRTZ_EXECUTE E STRAIGHT_JOIN QRTZ_JOB J ON J.ID = E.PID AND J.APPLICATION = E.APPLICATION
 WHERE E.APPLICATION = ? AND E.STATE = ? AND E.NEXT_FIRE_TIME BETWEEN ? AND ? AND (E.NEXT_FIRE_TIME > ? OR E.ID > ?)`
	inOrderSQL = ` ORDER BY E.NEXT_FIRE_TIME, E.ID LIMIT ?`

	overdueAfterSQL = overdueOfAllSQL + ` AND J.JOB_CLASS IN (?)` + inOrderSQL
	pausedAfterSQL  = overdueOfAllSQL + inOrderSQL
)

// OverdueAfter reads the next executes in state behind a cursor whose next fire is not after until, of the given classes.
func (s *Store) OverdueAfter(ctx context.Context, state State, classes []string, after Cursor, until time.Time, limit int) ([]*Execute, error) {
	if len(classes) == 0 {
		return nil, nil
	}
	return s.read(ctx, overdueAfterSQL, s.app, state, after.Next, until.UnixMilli(), after.Next, after.ID, classes, limit)
}

// PausedAfter does the same for paused executes, of whatever class.
func (s *Store) PausedAfter(ctx context.Context, after Cursor, until time.Time, limit int) ([]*Execute, error) {
	return s.read(ctx, pausedAfterSQL, s.app, Paused, after.Next, until.UnixMilli(), after.Next, after.ID, limit)
}

const newSQL = `
SELECT ` + rowColumns + `
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID AND J.APPLICATION = E.APPLICATION
 WHERE E.APPLICATION = ? AND E.STATE = 'EXECUTING' AND (E.NEXT_FIRE_TIME IS NULL OR E.NEXT_FIRE_TIME < 1) AND J.JOB_CLASS IN (?)
 LIMIT ?`

// New reads active executes of the given classes whose next fire has not been computed, at most limit.
func (s *Store) New(ctx context.Context, classes []string, limit int) ([]*Execute, error) {
	if len(classes) == 0 {
		return nil, nil
	}
	return s.read(ctx, newSQL, s.app, classes, limit)
}

const changedSQL = `
SELECT ` + rowColumns + `
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID AND J.APPLICATION = E.APPLICATION
 WHERE E.APPLICATION = ? AND E.CHANGED_AT >= FROM_UNIXTIME(? / 1000) AND E.STATE = 'EXECUTING' AND E.NEXT_FIRE_TIME BETWEEN ? AND ?
 LIMIT ?`

// Changed reads active executes that were added or changed by SQL since a time by the server's clock
// and fire between from and until, at most limit.
func (s *Store) Changed(ctx context.Context, since, from, until time.Time, limit int) ([]*Execute, error) {
	return s.read(ctx, changedSQL, s.app, since.UnixMilli(), from.UnixMilli(), until.UnixMilli(), limit)
}

const brokenSQL = `
SELECT ` + rowColumns + `
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID AND J.APPLICATION = E.APPLICATION
 WHERE E.APPLICATION = ? AND E.STATE = 'ERROR' AND E.STATE_REASON IS NOT NULL AND E.ID > ?
 ORDER BY E.ID LIMIT ?`

// Broken reads executes in ERROR for a reason of ours, with ids above after, at most limit.
func (s *Store) Broken(ctx context.Context, after int64, limit int) ([]*Execute, error) {
	return s.read(ctx, brokenSQL, s.app, after, limit)
}

func (s *Store) read(ctx context.Context, query string, args ...any) ([]*Execute, error) {
	var rows []row
	if err := s.db.Select(ctx, &rows, query, args...); err != nil {
		return nil, fmt.Errorf("read executes: %w", err)
	}
	all := make([]*Execute, len(rows))
	for i := range rows {
		all[i] = rows[i].execute(&s.schedules)
	}
	return all, nil
}

const nextDueSQL = `
SELECT MIN(X.DUE) FROM (
SELECT MIN(E.NEXT_FIRE_TIME) AS DUE FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID AND J.APPLICATION = E.APPLICATION
 WHERE E.APPLICATION = ? AND E.STATE = 'EXECUTING' AND E.NEXT_FIRE_TIME > ? AND J.JOB_CLASS IN (?)
UNION ALL
SELECT MIN(R.AVAILABLE_AT) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID AND J.APPLICATION = R.APPLICATION
 WHERE R.APPLICATION = ? AND R.STATE = 'PENDING' AND R.AVAILABLE_AT > ? AND J.JOB_CLASS IN (?)) X`

// NextDue is when, after now, the next fire or pending run of the given classes is due; zero if none is.
func (s *Store) NextDue(ctx context.Context, classes []string, now time.Time) (time.Time, error) {
	if len(classes) == 0 {
		return time.Time{}, nil
	}
	var due []sql.NullInt64
	err := s.db.Select(ctx, &due, nextDueSQL, s.app, now.UnixMilli(), classes, s.app, now.UnixMilli(), classes)
	if err != nil {
		return time.Time{}, fmt.Errorf("read what is due next: %w", err)
	}
	return fromMillis(due[0]), nil
}
