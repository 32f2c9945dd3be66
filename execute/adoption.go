package execute

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/qrtz-go/qrtz/schema"
)

// An execute that names no app belongs to the app of its job. Such rows are few: they are adopted within a second.
const (
	withoutAppSQL = `
SELECT E.ID FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID
 WHERE E.APPLICATION IS NULL AND J.APPLICATION = ? AND E.ID > ? ORDER BY E.ID LIMIT ?`
	adoptSQL = `UPDATE %s V STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = V.ID SET E.APPLICATION = ? WHERE E.APPLICATION IS NULL`

	newlyPausedSQL = `
SELECT ID FROM QRTZ_EXECUTE WHERE APPLICATION = ? AND STATE = 'PAUSED' AND PAUSED_AT IS NULL AND ID > ? ORDER BY ID LIMIT ?`
	markPausedSQL = `
UPDATE %s V STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = V.ID
   SET E.PAUSED_AT = CAST(UNIX_TIMESTAMP(E.CHANGED_AT) * 1000 AS SIGNED), E.CHANGED_AT = E.CHANGED_AT
 WHERE E.STATE = 'PAUSED' AND E.PAUSED_AT IS NULL`
)

// Adopt and MarkPaused look without locks first, and then write by primary key: an UPDATE by state would lock what
// claims are about to move.
const (
	tidyPage  = 500 // rows that they write at a time
	tidyPages = 20  // of one call: the next continues with the rest
)

// Adopt writes the app into executes that do not name it: a program of version 1.3 or a person added them.
func (s *Store) Adopt(ctx context.Context) error {
	write := func(ids []int64) error { return schema.ByKey(ctx, s.db, adoptSQL, ids, s.app) }
	if err := s.tidy(ctx, write, withoutAppSQL); err != nil {
		return fmt.Errorf("adopt executes: %w", err)
	}
	return nil
}

// MarkPaused writes PAUSED_AT on executes that were paused by SQL. When they are resumed by SQL, it says which fires belong
// to the pause.
func (s *Store) MarkPaused(ctx context.Context) error {
	write := func(ids []int64) error { return schema.ByKey(ctx, s.db, markPausedSQL, ids) }
	if err := s.tidy(ctx, write, newlyPausedSQL); err != nil {
		return fmt.Errorf("mark paused executes: %w", err)
	}
	return nil
}

// tidy writes what query finds, page by page in order of id. It continues behind a page that could not be written.
func (s *Store) tidy(ctx context.Context, write func(ids []int64) error, query string) error {
	var problems []error
	for after, pages := int64(math.MinInt64), 0; pages < tidyPages && ctx.Err() == nil; pages++ {
		var ids []int64
		if err := s.db.Select(ctx, &ids, query, s.app, after, tidyPage); err != nil || len(ids) == 0 {
			return errors.Join(append(problems, err)...)
		}
		_, err := s.db.WriteEach(ctx, `QRTZ_EXECUTE`, ids, write)
		problems = append(problems, err)
		if after = ids[len(ids)-1]; len(ids) < tidyPage {
			break
		}
	}
	return errors.Join(problems...)
}
