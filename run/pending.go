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

// A run names its app, and so does its job. Where the two contradict each other it runs nowhere. A statement reads some of the rows
// that are pending, whosever they are: JOB_CLASS is NULL in those that this node cannot run. The placeholders: those of the rows, the
// app, the classes, the app. The server is told how to find the jobs: where they are few, it would else read them all.
const (
	pendingColumns = `
SELECT R.ID, R.JOB_ID, R.EXECUTE_ID, R.FIRE_TIME, R.AVAILABLE_AT, R.FENCE, COALESCE(J.JOB_CLASS, '') AS JOB_CLASS, ` + slotsSQL + ` AS SLOTS, R.CANCEL_AT IS NOT NULL AS CANCELLED,
       R.STATE = 'PENDING' AS PENDING, COALESCE(R.PRIORITY, J.PRIORITY, 0) AS PRIORITY, %s AS DATA_SIZE`

	pendingSQL = pendingColumns + `
  FROM (%s) S
  STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = S.ID
  LEFT JOIN QRTZ_JOB J FORCE INDEX (PRIMARY) ON J.ID = R.JOB_ID AND J.APPLICATION = ? AND J.JOB_CLASS IN (?) AND R.APPLICATION = ?`

	// byAgeSQL finds what is pending of the app, the oldest first. The placeholders: the app, from (AVAILABLE_AT, ID, AVAILABLE_AT) and
	// until which AVAILABLE_AT, how many. The two branches are two ranges of one index: where many rows have the same AVAILABLE_AT, the
	// first continues behind an ID.
	byAgeSQL = `SELECT ID FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE)
         WHERE APPLICATION = ? AND STATE = 'PENDING' AND (AVAILABLE_AT = ? AND ID > ? OR AVAILABLE_AT > ? AND AVAILABLE_AT <= ?)
         ORDER BY AVAILABLE_AT, ID LIMIT ?`

	pendingByIDSQL = pendingColumns + `
  FROM QRTZ_RUN R FORCE INDEX (PRIMARY)
  STRAIGHT_JOIN QRTZ_JOB J FORCE INDEX (PRIMARY) ON J.ID = R.JOB_ID AND J.APPLICATION = R.APPLICATION
 WHERE R.ID IN (?) AND R.APPLICATION = ? ORDER BY R.ID`

	unweighed  = `-1`
	weighedSQL = `COALESCE(LENGTH(R.JOB_DATA), 0)`
)

const (
	pendingPage  = 1000 // rows that one look reads at a time
	urgentRows   = 2500 // that one look for urgent runs looks at
	pendingPages = 100  // that Pending reads at the most, to find some that can be claimed
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
	lines  *lines  // that are read one beside the other; nil: by age alone
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
		if s.crowded.lasts() {
			p.lines = newLines(p.at, p.id)
		}
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
// job of which only some runs may go at a time it reads as many as may start beside those that go, the first in line. However much is
// pending that this node cannot run, or of jobs without a free slot, it reads past no more than one page of that: behind a page that is
// full of it, the lines of the jobs are read, one beside the other. With the runs it measures their data, if that was quick so far.
func (s *Store) PendingPage(ctx context.Context, classes []string, until time.Time, from Place) (page PendingPage, err error) {
	if len(classes) == 0 {
		return page, nil
	}
	size, limit := unweighed, pendingPage
	weighs := s.weighAtOnce() >= carefulBatch
	if weighs {
		size, limit = weighedSQL, s.weighAtOnce()
	}
	begin := time.Now()
	page, looked, err := s.readPending(ctx, wanted{classes, until, math.MinInt8}, from.begun(s), size, limit)
	if weighs && (looked > 0 || err != nil) {
		s.noteWeighing(limit, looked, time.Since(begin), err)
	}
	if err != nil {
		return PendingPage{}, fmt.Errorf("read pending runs: %w", err)
	}
	return page, nil
}

// UrgentPage looks at the next 2,500 of the PENDING runs that are available and due by a time, and reads those of the given classes
// whose priority is above another, the most urgent first. Next is the zero Place when it has looked at all.
func (s *Store) UrgentPage(ctx context.Context, classes []string, until time.Time, above Priority, from Place) (page PendingPage, err error) {
	if len(classes) == 0 {
		return page, nil
	}
	from.open = nil // others have got slots since the last look
	page, _, err = s.readPending(ctx, wanted{classes, until, above}, from.begun(s), unweighed, urgentRows)
	if err != nil {
		return PendingPage{}, fmt.Errorf("look for urgent runs: %w", err)
	}
	if !page.More {
		page.Next = Place{}
	}
	return page, nil
}

// wanted is what is looked for.
type wanted struct {
	classes []string
	until   time.Time // when it must be available and due
	above   Priority
}

func (w wanted) urgent() bool { return w.above >= PriorityLow }

// readPending reads the next rows, at most limit, and says how many it has looked at.
func (s *Store) readPending(ctx context.Context, w wanted, from Place, size string, limit int) (page PendingPage, looked int, err error) {
	if from.lines != nil {
		return s.pageOfLines(ctx, w, from, size, limit)
	}
	rows, err := s.pendingRows(ctx, w, size, byAgeSQL, s.app, from.at, from.id, from.at, w.until.UnixMilli(), limit)
	if err != nil {
		return page, 0, err
	}
	if page.Runs, err = w.among(ctx, rows, from.open); err != nil {
		return page, len(rows), err
	}
	if page.More = len(rows) == limit; page.More {
		from.at, from.id = rows[limit-1].AvailableAt, rows[limit-1].ID
		if !w.urgent() && len(page.Runs) < limit/crowdedShare {
			s.crowded.note()
			from.lines = newLines(from.at, from.id)
		}
	}
	page.Next = from
	return page, len(rows), nil
}

// pendingRows reads rows whose ids a statement finds, the oldest first.
func (s *Store) pendingRows(ctx context.Context, w wanted, size, ids string, args ...any) (rows []pendingRow, err error) {
	args = append(args, s.app, w.classes, s.app)
	err = s.db.Select(ctx, &rows, fmt.Sprintf(pendingSQL, size, ids), args...)
	slices.SortFunc(rows, func(a, b pendingRow) int {
		return cmp.Or(cmp.Compare(a.AvailableAt, b.AvailableAt), cmp.Compare(a.ID, b.ID))
	})
	return rows, err
}

// among are the runs among some rows that are wanted, with a slot if their jobs are limited.
func (w wanted) among(ctx context.Context, rows []pendingRow, open *places) (runs []PendingRun, err error) {
	for _, row := range rows {
		if !row.Pending || row.FireTime > w.until.UnixMilli() || !slices.Contains(w.classes, row.Class) { // or a class whose name differs in case
			continue
		}
		if r := row.run(); r.Priority > w.above {
			runs = append(runs, r)
		}
	}
	if w.urgent() {
		slices.SortStableFunc(runs, ByPriority)
		runs = runs[:min(pendingPage, len(runs))]
	}
	return open.give(ctx, runs)
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
