package run

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// The line of a job are its PENDING runs, the oldest first. An index has each line in one piece (schema/migrations/0009): what is
// pending of other jobs is in no line's way. Read by age, it is. Most of the time that is as well, and takes fewer steps where there are
// many jobs. When a page by age is full of what this node cannot run, it reads the lines of the jobs that it can run.
const (
	crowdedShare = 8               // of a page by age: if it has fewer runs that can be claimed, the lines are read
	crowdedFor   = 5 * time.Second // after which a look begins by age again

	jobsAtOnce  = 2000 // jobs that one statement looks through for lines
	linesAtOnce = 64   // that are read one beside the other
	leastOfLine = 32   // runs that a page reads of each line, at least

	// linesSQL finds the jobs with a line, and when its first run is available. It looks at some jobs of any app, in order of id, which
	// costs less than to find the app's; the row without FIRST_AT says where it has ended, if there may be more.
	linesSQL = `
SELECT L.ID, L.FIRST_AT FROM (
  SELECT J.ID, (SELECT R.LINE_AT FROM QRTZ_RUN R FORCE INDEX (QRTZ_RUN_OVERLAP)
                 WHERE R.OVERLAP_KEY IS NULL AND R.LINE_JOB = J.ID ORDER BY R.LINE_AT LIMIT 1) AS FIRST_AT
    FROM (SELECT ID, APPLICATION, JOB_CLASS FROM QRTZ_JOB FORCE INDEX (PRIMARY) WHERE ID > ? ORDER BY ID LIMIT ?) J
   WHERE J.APPLICATION = ? AND J.JOB_CLASS IN (?)) L
 WHERE L.FIRST_AT <= ?
UNION ALL
SELECT E.ID, NULL FROM (SELECT ID FROM QRTZ_JOB FORCE INDEX (PRIMARY) WHERE ID > ? ORDER BY ID LIMIT 1 OFFSET ?) E`

	lineSQL = `(SELECT ID, LINE_AT FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_OVERLAP)
         WHERE OVERLAP_KEY IS NULL AND LINE_JOB = ? AND (LINE_AT = ? AND ID > ? OR LINE_AT > ? AND LINE_AT <= ?) ORDER BY LINE_AT, ID LIMIT ?)`

	besideSQL = `SELECT ID FROM (%s) L ORDER BY LINE_AT, ID LIMIT ?`
)

// crowded notes that much is pending by age of what this node cannot run.
type crowded struct{ until atomic.Int64 }

func (c *crowded) note()       { c.until.Store(time.Now().Add(crowdedFor).UnixNano()) }
func (c *crowded) lasts() bool { return time.Now().UnixNano() < c.until.Load() }

// lines is how far one has come in reading the lines. A Place never changes the one that it has.
type lines struct {
	at, id int64   // where each line is begun
	job    int64   // up to which the jobs have been looked through
	ended  bool    // there are no further jobs
	jobs   []int64 // whose lines are yet to be read, those with the oldest runs first; of the first linesAtOnce, from the Place on
}

func newLines(at, id int64) *lines { return &lines{at: at, id: id, job: math.MinInt64} }

// pageOfLines reads a page of lines, one beside the other: of some of the jobs, the oldest first.
func (s *Store) pageOfLines(ctx context.Context, w wanted, from Place, size string, limit int) (page PendingPage, looked int, err error) {
	l := *from.lines
	if len(l.jobs) == 0 {
		if err := s.findLines(ctx, &l, w); err != nil {
			return page, 0, err
		}
		from.at, from.id = l.at, l.id
	}
	some := l.jobs[:min(linesAtOnce, len(l.jobs))]
	full := from.open.full()
	open := slices.DeleteFunc(slices.Clone(some), func(job int64) bool { return slices.Contains(full, job) })
	if len(open) > 0 {
		each := min(limit, max(leastOfLine, 2*limit/len(open)))
		rows, err := s.rowsOfLines(ctx, w, from, size, open, each, limit)
		if err != nil {
			return page, 0, err
		}
		looked = len(rows)
		rows, page.More = surelyNext(rows, each, limit)
		if page.Runs, err = w.among(ctx, rows, from.open); err != nil {
			return page, looked, err
		}
		if page.More {
			from.at, from.id = rows[len(rows)-1].AvailableAt, rows[len(rows)-1].ID
		}
	}
	if !page.More {
		l.jobs = l.jobs[len(some):]
		from.at, from.id = l.at, l.id
		page.More = len(l.jobs) > 0 || !l.ended
	}
	from.lines = &l
	page.Next = from
	return page, looked, nil
}

// findLines looks through the next jobs for lines.
func (s *Store) findLines(ctx context.Context, l *lines, w wanted) error {
	var found []struct {
		Job   int64  `db:"ID"`
		First *int64 `db:"FIRST_AT"`
	}
	if err := s.db.Select(ctx, &found, linesSQL, l.job, jobsAtOnce, s.app, w.classes, w.until.UnixMilli(), l.job, jobsAtOnce-1); err != nil {
		return err
	}
	first := map[int64]int64{}
	l.ended = true
	for _, f := range found {
		if f.First == nil {
			l.job, l.ended = f.Job, false
			continue
		}
		first[f.Job] = *f.First
		l.jobs = append(l.jobs, f.Job)
	}
	slices.SortFunc(l.jobs, func(a, b int64) int { return cmp.Or(cmp.Compare(first[a], first[b]), cmp.Compare(a, b)) })
	return nil
}

// rowsOfLines reads the next rows of some lines: at most so many of each, and of all.
func (s *Store) rowsOfLines(ctx context.Context, w wanted, from Place, size string, jobs []int64, each, limit int) ([]pendingRow, error) {
	branches, args := make([]string, len(jobs)), make([]any, 0, 6*len(jobs)+1)
	for i, job := range jobs {
		branches[i] = lineSQL
		args = append(args, job, from.at, from.id, from.at, w.until.UnixMilli(), each)
	}
	return s.pendingRows(ctx, w, size, strings.Replace(besideSQL, `%s`, strings.Join(branches, ` UNION ALL `), 1), append(args, limit)...)
}

// surelyNext are those of the rows of several lines that come before all that was not read: a line of which as many rows were read as
// were asked for may continue behind the last of them. It tells whether there may be more.
func surelyNext(rows []pendingRow, each, limit int) (next []pendingRow, more bool) {
	count := map[int64]int{}
	for i, r := range rows {
		if count[r.JobID]++; count[r.JobID] == each {
			return rows[:i+1], true
		}
	}
	return rows, len(rows) == limit
}
