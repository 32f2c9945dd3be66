package run

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const seqSQL = `(WITH RECURSIVE N AS (SELECT 0 AS seq UNION ALL SELECT seq + 1 FROM N WHERE seq < 999) SELECT seq FROM N) S`

// backlog has n thousand runs of a job be pending, since some time before noon.
func (f *tables) backlog(job int64, n int) {
	f.T.Helper()
	for i := range n {
		f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT) SELECT 'a', ?, ?, ? + seq FROM `+seqSQL,
			job, past.UnixMilli(), past.UnixMilli()+int64(i)*1000)
	}
}

// read is how many rows the server has read for what is done, by whatever way.
func (f *tables) read(do func(*Store)) (rows int64) {
	f.T.Helper()
	db := f.Engine(1)
	count := func() int64 {
		var all []struct {
			Name  string `db:"Variable_name"`
			Value int64  `db:"Value"`
		}
		require.NoError(f.T, db.Select(&all, `SHOW SESSION STATUS LIKE 'Handler_read%'`))
		sum := int64(0)
		for _, one := range all {
			if !strings.Contains(one.Name, "retry") && !strings.Contains(one.Name, "deleted") {
				sum += one.Value
			}
		}
		return sum
	}
	store := newStore(db)
	before := count()
	do(store)
	return count() - before
}

// looked are the ids that a look reads, in order, and how many pages it takes.
func looked(t *testing.T, s *Store, until time.Time) (ids []int64, pages int) {
	t.Helper()
	for place := (Place{}); ; pages++ {
		page, err := s.PendingPage(t.Context(), []string{"tick"}, until, place)
		require.NoError(t, err)
		for _, r := range page.Runs {
			ids = append(ids, r.ID)
		}
		require.Less(t, pages, 1000)
		if place = page.Next; !page.More {
			return ids, pages + 1
		}
	}
}

// However much is pending that this node cannot run, a look reads past one page of it, and the next looks past none.
func TestALookReadsPastNoBacklogOfOthers(t *testing.T) {
	f := newTables(t)
	f.backlog(f.AddJob("elsewhere"), 10)
	var mine []int64
	for range 3 {
		job := f.AddJob("tick")
		for range 2 {
			mine = append(mine, f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT) VALUES ('a', ?, ?, ?)`, job, noon.UnixMilli(), noon.UnixMilli()))
		}
	}
	var ids []int64
	var s *Store
	rows := f.read(func(store *Store) { s = store; ids, _ = looked(t, s, at(10)) })
	require.Equal(t, mine, ids, "those of all lines, in order")
	require.Less(t, rows, int64(5*pendingPage))
	rows = f.read(func(store *Store) {
		store.crowded.note()
		ids, _ = looked(t, store, at(10))
	})
	require.Equal(t, mine, ids)
	require.Less(t, rows, int64(100))

	f.Exec(`DELETE FROM QRTZ_RUN WHERE JOB_ID IN (SELECT ID FROM QRTZ_JOB WHERE JOB_CLASS = 'tick')`)
	ids, pages := looked(t, s, at(10))
	require.Empty(t, ids)
	require.Equal(t, 1, pages, "one statement finds that there is nothing")
	s.crowded.until.Store(0)
	f.Exec(`DELETE FROM QRTZ_RUN`)
	f.backlog(f.Job, 1)
	looked(t, s, at(10))
	require.False(t, s.crowded.lasts(), "what can be run is in no one's way")
}

// Lines are read as they would be by age, page by page, whatever their lengths.
func TestLinesAreReadInOrderOfAge(t *testing.T) {
	f := newTables(t)
	other := f.AddJob("tick")
	f.backlog(f.Job, 3)
	f.backlog(other, 2)
	f.Exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = AVAILABLE_AT + 700 WHERE JOB_ID = ?`, other)
	f.Exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = ? WHERE JOB_ID = ? AND AVAILABLE_AT BETWEEN ? AND ?`,
		past.UnixMilli()+1500, f.Job, past.UnixMilli()+500, past.UnixMilli()+1999) // 1,500 at the same instant
	byAge := f.IDs(`SELECT ID FROM QRTZ_RUN WHERE AVAILABLE_AT <= ? ORDER BY AVAILABLE_AT, ID`, past.UnixMilli()+2400)
	f.store.crowded.note()
	ids, pages := looked(t, f.store, past.Add(2400*time.Millisecond))
	require.Greater(t, pages, 3)
	require.Equal(t, byAge, ids)
}

// All lines are read, however many jobs there are.
func TestTheLinesOfManyJobs(t *testing.T) {
	f := newTables(t)
	f.Exec(`INSERT INTO QRTZ_JOB (APPLICATION, NAME, STATE, JOB_CLASS, UPDATE_TIME) SELECT 'a', CONCAT('job', seq), 'INIT', 'tick', 0 FROM ` + seqSQL)
	f.Exec(`INSERT INTO QRTZ_JOB (APPLICATION, NAME, STATE, JOB_CLASS, UPDATE_TIME) SELECT 'b', CONCAT('job', seq), 'INIT', 'tick', 0 FROM ` + seqSQL)
	f.Exec(`INSERT INTO QRTZ_JOB (APPLICATION, NAME, STATE, JOB_CLASS, UPDATE_TIME) SELECT 'a', CONCAT('more', seq), 'INIT', 'tick', 0 FROM ` + seqSQL)
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT) SELECT 'a', ID, ?, ? FROM QRTZ_JOB WHERE ID % 10 = 0`, noon.UnixMilli(), noon.UnixMilli())
	f.store.crowded.note()
	ids, pages := looked(t, f.store, at(10))
	require.ElementsMatch(t, f.IDs(`SELECT R.ID FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.APPLICATION = 'a'`), ids)
	require.Less(t, pages, 10)
}

// However many runs of a job without a free slot are pending, a look reads no more than one page of them.
func TestALookLeavesOutJobsWithoutASlot(t *testing.T) {
	f := newTables(t)
	f.Exec(`UPDATE QRTZ_JOB SET MAX_RUNNING = 1 WHERE ID = ?`, f.Job)
	f.backlog(f.Job, 5)
	other := f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT) VALUES ('a', ?, ?, ?)`, f.AddJob("tick"), noon.UnixMilli(), noon.UnixMilli())
	first := f.Count(`SELECT MIN(ID) FROM QRTZ_RUN`)
	ids, pages := looked(t, f.store, at(10))
	require.Equal(t, []int64{first, other}, ids)
	require.LessOrEqual(t, pages, 3)
}

// Who is first in line, and what a queue has too much of, are read from the job's own line.
func TestALineIsReadWithoutTheOthers(t *testing.T) {
	f := newTables(t)
	f.backlog(f.Job, 5)
	job, e := f.AddExclusive("QUEUE", 2)
	for range 4 {
		f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, AVAILABLE_AT, ATTEMPT) SELECT 'a', ?, ?, COALESCE(MAX(FIRE_TIME), 0) + 1000, ?, 1 FROM QRTZ_RUN R`,
			job, e, past.UnixMilli())
	}
	f.Exec(`ANALYZE TABLE QRTZ_RUN, QRTZ_JOB`)
	one := Run{JobID: job, Options: Options{Overlap: OverlapQueue, QueueLimit: 2}}
	rows := f.read(func(s *Store) {
		first, err := s.firstOf(t.Context(), []Run{one}, 1)
		require.NoError(t, err)
		require.Empty(t, first, "others are first")
	})
	require.Less(t, rows, int64(20))
	rows = f.read(func(s *Store) {
		skipped, err := s.leaveOverlapping(t.Context(), one)
		require.NoError(t, err)
		require.Len(t, skipped, 2)
	})
	require.Less(t, rows, int64(60))
}

// The columns of the line keep themselves, whatever program writes the row, and leave the overlap key unique.
func TestALineKeepsItself(t *testing.T) {
	f := newTables(t)
	id := f.asked("")
	line := func() []int64 {
		return f.IDs(`SELECT COALESCE(LINE_JOB, -1) FROM QRTZ_RUN WHERE ID = ? UNION ALL SELECT COALESCE(LINE_AT, -1) FROM QRTZ_RUN WHERE ID = ?`, id, id)
	}
	require.Equal(t, []int64{f.Job, 0}, line())
	f.Exec(`UPDATE QRTZ_RUN SET STATE = 'RUNNING' WHERE ID = ?`, id)
	require.Equal(t, []int64{-1, -1}, line())
	f.Exec(`UPDATE QRTZ_RUN SET OVERLAP_KEY = JOB_ID, OVERLAP_SLOT = 3 WHERE ID = ?`, id)
	require.Equal(t, []int64{0, 3}, line())
	second := f.asked("")
	_, err := f.ExecContext(t.Context(), `UPDATE QRTZ_RUN SET STATE = 'RUNNING', OVERLAP_KEY = JOB_ID, OVERLAP_SLOT = 3 WHERE ID = ?`, second)
	require.ErrorContains(t, err, "Duplicate")
	f.Exec(`UPDATE QRTZ_RUN SET STATE = 'PENDING', OVERLAP_KEY = NULL, AVAILABLE_AT = ? WHERE ID = ?`, noon.UnixMilli(), id)
	require.Equal(t, []int64{f.Job, noon.UnixMilli()}, line())
}
