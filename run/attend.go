package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	attendSQL = `
UPDATE %s V STRAIGHT_JOIN ` + runByID + `
   SET R.STARTED_AT = V.STARTED, R.PROGRESS = V.PERCENT, R.MESSAGE = V.MESSAGE1
 WHERE ` + heldSQL

	toCancelSQL = `SELECT ID FROM QRTZ_RUN WHERE ID IN (?) AND CANCEL_AT IS NOT NULL`
)

// Underway is what a run that continues has to say.
type Underway struct {
	Run      Run
	Started  time.Time
	Progress int // in percent; below 0 if the handler never said
	Message  string
}

// Attended is what came of attending to runs.
type Attended struct {
	Cancel  []int64 // runs that are to be cancelled (CANCEL_AT)
	Unsaid  []int64 // runs whose news were not written: another transaction holds the row, or the database is away
	Refused int     // news that the server did not take as they were
}

// Attend writes when runs have started and how far they are, and tells which of those asked for are to be cancelled. News
// that the server refuses, or of a row that another transaction has locked, cost the others nothing.
func (s *Store) Attend(ctx context.Context, news []Underway, asked []int64) (a Attended, err error) {
	slices.SortFunc(news, func(a, b Underway) int { return cmp.Compare(a.Run.ID, b.Run.ID) })
	unsaid := func(some ...Underway) {
		for _, u := range some {
			a.Unsaid = append(a.Unsaid, u.Run.ID)
		}
	}
	w := &rowwise[Underway]{store: s, id: func(u Underway) int64 { return u.Run.ID }, write: s.writeNews, locked: unsaid}
	w.refused = func(ctx context.Context, u Underway, _ error) error {
		a.Refused++
		return s.mendNews(ctx, u)
	}
	for batch := range slices.Chunk(news, 50) { // with messages of 8 KiB
		left := batch
		if err == nil {
			left, err = w.batch(ctx, batch)
		}
		unsaid(left...)
	}
	if len(asked) > 0 {
		err = errors.Join(err, s.db.Select(ctx, &a.Cancel, toCancelSQL, asked))
	}
	if err != nil {
		return a, fmt.Errorf("attend to runs: %w", err)
	}
	return a, nil
}

func (s *Store) writeNews(ctx context.Context, news []Underway) error {
	rows := make([]any, 0, 6*len(news))
	for _, u := range news {
		rows = append(rows, u.Run.ID, u.Run.Instance, u.Run.Fence, u.Started.UnixMilli(), percent(u.Progress), message(u.Message))
	}
	table, args := schema.Values(rows, "ID", "HOLDER", "CLAIM", "STARTED", "PERCENT", "MESSAGE1")
	return s.db.Write(ctx, fmt.Sprintf(attendSQL, table), args...)
}

// mendNews writes news that the server refused in ASCII, or else without a message, or else not at all.
func (s *Store) mendNews(ctx context.Context, u Underway) error {
	for _, m := range []string{text.ASCII(u.Message), ""} {
		u.Message = m
		if err := s.writeNews(ctx, []Underway{u}); !schema.RowFault(err) {
			return err
		}
	}
	return nil
}
