package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/schema"
)

const (
	boundsSQL = `SELECT ` + schema.NowMillisSQL + ` AS NOW_MS, COALESCE(MAX(ID), 0) AS LAST_ID FROM QRTZ_RUN`

	cleanableSQL = `
SELECT R.ID, R.STATE, R.APPLICATION = ? OR ? = '' AS OF_APP,
       COALESCE(R.FINISHED_AT, R.CLAIMED_AT, IF(R.FIRE_TIME < 1, NULL, R.FIRE_TIME), ?) < ? AS OLD
  FROM QRTZ_RUN R WHERE R.ID > ? AND R.ID <= ? ORDER BY R.ID LIMIT ?`
)

// Cleaning says which finished runs to delete.
type Cleaning struct {
	OlderThan time.Duration // since they finished, by the database's clock
	App       string        // empty: all
	State     State         // empty: all
	DryRun    bool          // delete nothing

	// Progress is told, after each page, how many were looked at and how many of them are to go.
	Progress func(looked, found int)
}

// Clean walks once through the runs of all apps, in pages by primary key, and deletes those that the cleaning describes,
// whatever their jobs say. It never deletes one that is PENDING or RUNNING. It returns how many there were of each state;
// with an error, how many so far.
func Clean(ctx context.Context, db schema.Tables, c Cleaning) (map[State]int, error) {
	found := map[State]int{}
	if err := c.walk(ctx, db, found); err != nil {
		return found, fmt.Errorf("clean history: %w", err)
	}
	return found, nil
}

func (c Cleaning) walk(ctx context.Context, db schema.Tables, found map[State]int) error {
	var bounds struct {
		Now  int64 `db:"NOW_MS"`
		Last int64 `db:"LAST_ID"`
	}
	if err := db.Get(ctx, &bounds, boundsSQL); err != nil {
		return err
	}
	before := bounds.Now - c.OlderThan.Milliseconds()
	for after, looked, all := int64(0), 0, 0; ; {
		var page []cleanable
		if err := db.Select(ctx, &page, cleanableSQL, c.App, c.App, before, before, after, bounds.Last, cleanPage); err != nil || len(page) == 0 {
			return err
		}
		after, looked = page[len(page)-1].ID, looked+len(page)
		gone := slices.DeleteFunc(page, func(r cleanable) bool { return !c.describes(r) })
		if err := c.delete(ctx, db, gone); err != nil {
			return err
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
	ID    int64 `db:"ID"`
	State State `db:"STATE"`
	OfApp bool  `db:"OF_APP"`
	Old   bool  `db:"OLD"`
}

func (c Cleaning) describes(r cleanable) bool {
	return slices.Contains(finalStates, r.State) && r.OfApp && r.Old && (c.State == "" || c.State == r.State)
}

func (c Cleaning) delete(ctx context.Context, db schema.Tables, runs []cleanable) error {
	if len(runs) == 0 || c.DryRun {
		return nil
	}
	ids := make([]any, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	table, args := schema.Values(ids, "ID")
	return db.Write(ctx, fmt.Sprintf(deleteRunsSQL, table), args...)
}
