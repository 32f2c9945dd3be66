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
// the classes, the app, from and until which AVAILABLE_AT, until which FIRE_TIME, jobs to leave out, how many. The two branches are
// two ranges of one index: where many rows have the same AVAILABLE_AT, the first continues behind an ID. The server is told how to
// find the jobs: where they are few, it would else read them all, and for that sort all that is pending.
const (
	pendingColumns = `
SELECT R.ID, R.JOB_ID, R.EXECUTE_ID, R.FIRE_TIME, R.AVAILABLE_AT, R.FENCE, J.JOB_CLASS, ` + slotsSQL + ` AS SLOTS, R.CANCEL_AT IS NOT NULL AS CANCELLED,
       R.STATE = 'PENDING' AS PENDING, COALESCE(R.PRIORITY, J.PRIORITY) AS PRIORITY, %s AS DATA_SIZE`

	pendingSQL = pendingColumns + `
  FROM QRTZ_RUN R FORCE INDEX (QRTZ_RUN_STATE)
  STRAIGHT_JOIN QRTZ_JOB J FORCE INDEX (PRIMARY) ON J.ID = R.JOB_ID AND J.APPLICATION = ? AND J.JOB_CLASS IN (?)
 WHERE R.APPLICATION = ? AND R.STATE = 'PENDING' AND (R.AVAILABLE_AT = ? AND R.ID > ? OR R.AVAILABLE_AT > ? AND R.AVAILABLE_AT <= ?) AND R.FIRE_TIME <= ?
   AND (R.JOB_ID NOT IN (?) OR R.CANCEL_AT IS NOT NULL)
 ORDER BY R.AVAILABLE_AT, R.ID LIMIT ?`

	pendingByIDSQL = pendingColumns + `
  FROM QRTZ_RUN R FORCE INDEX (PRIMARY)
  STRAIGHT_JOIN QRTZ_JOB J FORCE INDEX (PRIMARY) ON J.ID = R.JOB_ID AND J.APPLICATION = R.APPLICATION
 WHERE R.ID IN (?) AND R.APPLICATION = ? ORDER BY R.ID`

	// urgentSQL looks only at some rows, by the index, and reads those of them that are urgent.
	urgentSQL = pendingColumns + `
  FROM (SELECT ID FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE)
         WHERE APPLICATION = ? AND STATE = 'PENDING' AND (AVAILABLE_AT = ? AND ID > ? OR AVAILABLE_AT > ? AND AVAILABLE_AT <= ?)
         ORDER BY AVAILABLE_AT, ID LIMIT ?) S
  STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = S.ID
  STRAIGHT_JOIN QRTZ_JOB J FORCE INDEX (PRIMARY) ON J.ID = R.JOB_ID AND J.APPLICATION = ? AND J.JOB_CLASS IN (?)
 WHERE R.STATE = 'PENDING' AND R.FIRE_TIME <= ? AND COALESCE(R.PRIORITY, J.PRIORITY) > ?
 ORDER BY PRIORITY DESC, R.AVAILABLE_AT, R.ID LIMIT ?`

	urgentEndSQL = `
SELECT AVAILABLE_AT, ID FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE)
 WHERE APPLICATION = ? AND STATE = 'PENDING' AND (AVAILABLE_AT = ? AND ID > ? OR AVAILABLE_AT > ? AND AVAILABLE_AT <= ?)
 ORDER BY AVAILABLE_AT, ID LIMIT 1 OFFSET ?`

	unweighed  = `-1`
	weighedSQL = `COALESCE(LENGTH(R.JOB_DATA), 0)`
)

const (
	pendingPage  = 1000 // rows that one look reads at a time
	urgentRows   = 2500 // that one look for urgent runs looks at
	pendingPages = 20   // that it reads at the most, to find some that can be claimed
)

// PendingRun is a run that may be claimed.
type PendingRun struct {
	ID          int64
	JobID       int64
	Class       string
	AvailableAt time.Time // never before it is due
	Priority    Priority  // its own, or else its job's

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

// Free tells whether nothing depends on when it starts beside others: it belongs to no schedule, and its job is not limited.
func (r PendingRun) Free() bool { return r.slots == 0 && !r.execute.Valid }

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
	Priority    Priority      `db:"PRIORITY"`
	DataSize    int64         `db:"DATA_SIZE"`
}

func (r pendingRow) run() PendingRun {
	return PendingRun{
		ID: r.ID, JobID: r.JobID, Class: r.Class, AvailableAt: time.UnixMilli(max(r.AvailableAt, r.FireTime)).UTC(),
		Priority: r.Priority.Within(), slots: r.Slots, cancelled: r.Cancelled, execute: r.ExecuteID, fence: r.Fence, ownData: r.DataSize,
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

// begun is the place with what it needs to be read from.
func (p Place) begun(s *Store) Place {
	if p.open == nil {
		p.open = &places{store: s, limit: pendingPage}
	}
	if !p.behind {
		p.at, p.id, p.behind = math.MinInt64, math.MaxInt64, true
	}
	return p
}

// PendingPage is a page of PENDING runs, those that cannot be claimed left out.
type PendingPage struct {
	Runs []PendingRun
	Next Place
	More bool // behind Next
}

// PendingPage reads the next of the PENDING runs of the given classes that are available and due by a time, the oldest first. Of a
// job of which only some runs may go at a time it reads as many as may start beside those that go, the first in line; however many more are pending, they hide no other job's. With them it
// measures their data, if that was quick so far.
func (s *Store) PendingPage(ctx context.Context, classes []string, until time.Time, from Place) (page PendingPage, err error) {
	if len(classes) == 0 {
		return page, nil
	}
	from = from.begun(s)
	size, limit := unweighed, pendingPage
	weighs := s.weighAtOnce() >= carefulBatch
	if weighs {
		size, limit = weighedSQL, s.weighAtOnce()
	}
	var rows []pendingRow
	begin := time.Now()
	err = s.db.Select(ctx, &rows, fmt.Sprintf(pendingSQL, size), s.app, classes, s.app, from.at, from.id, from.at, until.UnixMilli(), until.UnixMilli(), from.open.full(), limit)
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

// UrgentPage looks at the next 2,500 of the PENDING runs that are available and due by a time, and reads those of the given classes
// whose priority is above another, the most urgent first. Next is the zero Place when it has looked at all.
func (s *Store) UrgentPage(ctx context.Context, classes []string, until time.Time, above Priority, from Place) (page PendingPage, err error) {
	if len(classes) == 0 {
		return page, nil
	}
	from.open = nil // others have got slots since the last look
	from = from.begun(s)
	span := []any{s.app, from.at, from.id, from.at, until.UnixMilli()}
	var rows []pendingRow
	args := slices.Concat(span, []any{urgentRows, s.app, classes, until.UnixMilli(), above, pendingPage})
	if err := s.db.Select(ctx, &rows, fmt.Sprintf(urgentSQL, unweighed), args...); err != nil {
		return page, fmt.Errorf("look for urgent runs: %w", err)
	}
	var last []struct {
		At int64 `db:"AVAILABLE_AT"`
		ID int64 `db:"ID"`
	}
	if err := s.db.Select(ctx, &last, urgentEndSQL, append(span, urgentRows-1)...); err != nil {
		return page, fmt.Errorf("look for urgent runs: %w", err)
	}
	for _, r := range rows {
		if slices.Contains(classes, r.Class) {
			page.Runs = append(page.Runs, r.run())
		}
	}
	if page.Runs, err = from.open.give(ctx, page.Runs); err != nil {
		return page, fmt.Errorf("look for urgent runs: %w", err)
	}
	if len(last) > 0 {
		from.at, from.id = last[0].At, last[0].ID
		page.More, page.Next = true, from
	}
	return page, nil
}

// ByPriority puts the more urgent of pending runs first.
func ByPriority(a, b PendingRun) int { return cmp.Compare(b.Priority, a.Priority) }

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
