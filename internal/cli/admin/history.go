package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// cleanPage is how many rows one statement looks at, and so deletes at most.
const cleanPage = 500

const (
	boundsSQL = `SELECT ` + schema.NowMillisSQL + ` AS NOW_MS, COALESCE(MAX(ID), 0) AS LAST_ID FROM QRTZ_RUN`

	cleanableSQL = `
SELECT R.ID, R.STATE, R.APPLICATION = ? OR ? = '' AS OF_APP,
       COALESCE(R.FINISHED_AT, R.CLAIMED_AT, NULLIF(R.FIRE_TIME, 0), ?) < ? AS OLD
  FROM QRTZ_RUN R WHERE R.ID > ? AND R.ID <= ? ORDER BY R.ID LIMIT ?`

	cleanSQL = `DELETE FROM QRTZ_RUN WHERE ID IN (?) AND STATE NOT IN ('PENDING', 'RUNNING')`
)

// Cleaning says which finished runs to delete.
type Cleaning struct {
	OlderThan  time.Duration // since they finished, by the database's clock
	App, State string        // empty: all
	DryRun     bool          // delete nothing

	// Progress is told, after each page, how many were looked at and how many of them are to go.
	Progress func(looked, found int)
}

// Clean walks once through all runs, in pages by primary key, and deletes those that the cleaning describes, never a
// PENDING or RUNNING one. It returns how many there were of each state; with an error, how many so far.
func (s *Store) Clean(ctx context.Context, c Cleaning) (map[string]int, error) {
	found := map[string]int{}
	var bounds struct {
		Now  int64 `db:"NOW_MS"`
		Last int64 `db:"LAST_ID"`
	}
	if err := s.db.GetContext(ctx, &bounds, s.prefix.SQL(boundsSQL)); err != nil {
		return found, fmt.Errorf("clean history: %w", err)
	}
	before := bounds.Now - c.OlderThan.Milliseconds()
	for after, looked, all := int64(0), 0, 0; ; {
		var page []cleanable
		if err := s.db.SelectContext(ctx, &page, s.prefix.SQL(cleanableSQL), c.App, c.App, before, before, after, bounds.Last, cleanPage); err != nil {
			return found, fmt.Errorf("clean history: %w", err)
		}
		if len(page) == 0 {
			return found, nil
		}
		after, looked = page[len(page)-1].ID, looked+len(page)
		gone := slices.DeleteFunc(page, func(r cleanable) bool { return !r.goes(c.State) })
		if err := s.deleteRuns(ctx, gone, c.DryRun); err != nil {
			return found, fmt.Errorf("clean history: %w", err)
		}
		for _, r := range gone {
			found[r.State]++
		}
		if all += len(gone); c.Progress != nil {
			c.Progress(looked, all)
		}
	}
}

type cleanable struct {
	ID    int64  `db:"ID"`
	State string `db:"STATE"`
	OfApp bool   `db:"OF_APP"`
	Old   bool   `db:"OLD"`
}

func (r cleanable) goes(state string) bool {
	ended := r.State != "PENDING" && r.State != "RUNNING"
	return ended && r.OfApp && r.Old && (state == "" || state == r.State)
}

func (s *Store) deleteRuns(ctx context.Context, runs []cleanable, dryRun bool) error {
	if len(runs) == 0 || dryRun {
		return nil
	}
	ids := make([]int64, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	query, args, err := sqlx.In(s.prefix.SQL(cleanSQL), ids)
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, query, args...)
	return err
}
