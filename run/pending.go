package run

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"
)

// A run names its app, and so does its job. Where the two contradict each other it runs nowhere. The placeholders: the app,
// the classes, the app, from and until which AVAILABLE_AT, until which FIRE_TIME, how many. The two branches are two ranges of
// one index: where many rows have the same AVAILABLE_AT, the first continues behind an ID.
const (
	pendingColumns = `
SELECT R.ID, R.JOB_ID, R.EXECUTE_ID, R.FIRE_TIME, R.AVAILABLE_AT, R.FENCE, J.JOB_CLASS, ` + slotsSQL + ` AS SLOTS, R.CANCEL_AT IS NOT NULL AS CANCELLED,
       R.STATE = 'PENDING' AS PENDING, %s AS DATA_SIZE`

	pendingSQL = pendingColumns + `
  FROM QRTZ_RUN R FORCE INDEX (QRTZ_RUN_STATE) STRAIGHT_JOIN QRTZ_JOB J ON J.ID = R.JOB_ID AND J.APPLICATION = ? AND J.JOB_CLASS IN (?)
 WHERE R.APPLICATION = ? AND R.STATE = 'PENDING' AND (R.AVAILABLE_AT = ? AND R.ID > ? OR R.AVAILABLE_AT > ? AND R.AVAILABLE_AT <= ?) AND R.FIRE_TIME <= ?
 ORDER BY R.AVAILABLE_AT, R.ID LIMIT ?`

	pendingByIDSQL = pendingColumns + `
  FROM QRTZ_RUN R FORCE INDEX (PRIMARY) STRAIGHT_JOIN QRTZ_JOB J ON J.ID = R.JOB_ID AND J.APPLICATION = R.APPLICATION
 WHERE R.ID IN (?) AND R.APPLICATION = ? ORDER BY R.ID`

	unweighed  = `-1`
	weighedSQL = `COALESCE(LENGTH(R.JOB_DATA), 0)`
)

const (
	pendingPage  = 1000 // rows that one look reads at a time
	pendingPages = 20   // that it reads at the most, to find some that can be claimed
)

// PendingRun is a run that may be claimed.
type PendingRun struct {
	ID          int64
	JobID       int64
	Class       string
	AvailableAt time.Time // never before it is due

	slots     int  // how many runs of its job may go at a time; 0 for any number
	slot      int  // that it is to have, if only some may
	cancelled bool // it is to be ended, not started
	execute   sql.NullInt64
	fence     int64 // as it was read
	token     int64 // the CLAIM_TOKEN of the latest attempt to claim it
	ownData   int64 // bytes of data in its own row, as they were read; -1: not read
}

// Limited tells whether only some runs of its job may go at a time: others may be in line before it.
func (r PendingRun) Limited() bool { return r.slots > 0 }

// ByID puts pending runs in the order in which a claim locks them.
func ByID(a, b PendingRun) int { return cmp.Compare(a.ID, b.ID) }

type pendingRow struct {
	ID          int64         `db:"ID"`
	JobID       int64         `db:"JOB_ID"`
	ExecuteID   sql.NullInt64 `db:"EXECUTE_ID"`
	FireTime    int64         `db:"FIRE_TIME"`
	AvailableAt int64         `db:"AVAILABLE_AT"`
	Fence       int64         `db:"FENCE"`
	Class       string        `db:"JOB_CLASS"`
	Slots       int           `db:"SLOTS"`
	Cancelled   bool          `db:"CANCELLED"`
	Pending     bool          `db:"PENDING"`
	DataSize    int64         `db:"DATA_SIZE"`
}

func (r pendingRow) run() PendingRun {
	return PendingRun{
		ID: r.ID, JobID: r.JobID, Class: r.Class, AvailableAt: time.UnixMilli(max(r.AvailableAt, r.FireTime)).UTC(),
		slots: r.Slots, cancelled: r.Cancelled, execute: r.ExecuteID, fence: r.Fence, ownData: r.DataSize,
	}
}

// Place is how far one has come in reading the PENDING runs, the oldest first. The zero Place is before all of them.
type Place struct {
	at, id int64
	behind bool    // something: not before all of them
	open   *places // for runs of limited jobs
}

// IsFront tells whether it is the zero Place.
func (p Place) IsFront() bool { return !p.behind }

// PendingPage is a page of PENDING runs, those that cannot be claimed left out.
type PendingPage struct {
	Runs []PendingRun
	Next Place
	More bool // behind Next
}

// PendingPage reads the next of the PENDING runs of the given classes that are available and due by a time, the oldest first. Of a
// job of which only some runs may go at a time it reads as many as may start beside those that go, the first in line. With them it measures their data, if that
// was quick so far.
func (s *Store) PendingPage(ctx context.Context, classes []string, until time.Time, from Place) (page PendingPage, err error) {
	if len(classes) == 0 {
		return page, nil
	}
	if from.open == nil {
		from.open = &places{store: s, limit: pendingPage}
	}
	if !from.behind {
		from.at, from.id, from.behind = math.MinInt64, math.MaxInt64, true
	}
	size, limit := unweighed, pendingPage
	weighs := s.weighAtOnce() >= carefulBatch
	if weighs {
		size, limit = weighedSQL, s.weighAtOnce()
	}
	var rows []pendingRow
	begin := time.Now()
	err = s.db.Select(ctx, &rows, fmt.Sprintf(pendingSQL, size), s.app, classes, s.app, from.at, from.id, from.at, until.UnixMilli(), until.UnixMilli(), limit)
	if weighs {
		s.noteWeighing(limit, len(rows), time.Since(begin), err)
	}
	if err != nil {
		return page, fmt.Errorf("read pending runs: %w", err)
	}
	for _, r := range rows {
		if slices.Contains(classes, r.Class) { // not a class whose name differs in case
			page.Runs = append(page.Runs, r.run())
		}
	}
	if page.Runs, err = from.open.give(ctx, page.Runs); err != nil {
		return page, fmt.Errorf("read pending runs: %w", err)
	}
	if page.More = len(rows) == limit; page.More {
		from.at, from.id = rows[limit-1].AvailableAt, rows[limit-1].ID
	}
	page.Next = from
	return page, nil
}

// Pending reads the PENDING runs of the given classes that are available and due at now, the oldest first, at most
// limit. However long the queue of a job is of which only some may go at a time, it hides no other job's runs.
func (s *Store) Pending(ctx context.Context, classes []string, now time.Time, limit int) (found []PendingRun, err error) {
	var from Place
	for range pendingPages {
		page, err := s.PendingPage(ctx, classes, now, from)
		if err != nil {
			return nil, err
		}
		if found = append(found, page.Runs...); len(found) >= limit || !page.More {
			break
		}
		from = page.Next
	}
	return found[:min(len(found), limit)], nil
}

// PendingByID reads those of some runs that are PENDING, of the given classes, whenever they are available; and which of them can
// be seen at all.
func (s *Store) PendingByID(ctx context.Context, classes []string, ids []int64) (found []PendingRun, seen []int64, err error) {
	size := unweighed
	if len(ids) <= s.weighAtOnce() {
		size = weighedSQL
	}
	var rows []pendingRow
	if err := s.db.Select(ctx, &rows, fmt.Sprintf(pendingByIDSQL, size), ids, s.app); err != nil {
		return nil, nil, fmt.Errorf("read pending runs: %w", err)
	}
	for _, r := range rows {
		seen = append(seen, r.ID)
		if r.Pending && slices.Contains(classes, r.Class) {
			found = append(found, r.run())
		}
	}
	return found, seen, nil
}
