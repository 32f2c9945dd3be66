package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// finished adds n runs of a job that ended in a state at a time; 0 for PENDING and RUNNING ones, which have not.
func (f *tables) finished(job int64, n int, state State, end int64) {
	f.T.Helper()
	row := fmt.Sprintf(`('a', %d, 0, '%s', NULLIF(%d, 0))`, job, state, end)
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE, FINISHED_AT) VALUES ` + row + strings.Repeat(`, `+row, n-1))
}

// cleaned calls CleanHistory until it should find nothing more to delete, and returns how much it deleted in all.
func (f *tables) cleaned(now time.Time) (deleted int) {
	f.T.Helper()
	for range 20 { // passes; the last ones find nothing
		n, _, err := f.store.CleanHistory(f.T.Context(), now)
		require.NoError(f.T, err)
		deleted += n
	}
	return deleted
}

func TestHistoryIsCleanedByAge(t *testing.T) {
	f := newTables(t)
	const day = 24 * 60 * 60 * 1000
	now := noon
	ago := func(days int64) int64 { return now.UnixMilli() - days*day }
	week, ever, gone := f.AddJob("week"), f.AddJob("ever"), f.AddJob("gone")
	f.Exec(`UPDATE QRTZ_JOB SET KEEP_FOR = ? WHERE ID = ?`, 7*day, week)
	f.Exec(`UPDATE QRTZ_JOB SET KEEP_FOR = 0 WHERE ID = ?`, ever)
	f.Exec(`DELETE FROM QRTZ_JOB WHERE ID = ?`, gone)
	for i := range 6 { // 3,000 rows to delete, and as many kept in between
		state := []State{Succeeded, Failed, Lost, Cancelled, Skipped, Succeeded}[i]
		f.finished(week, 500, state, ago(8))
		f.finished(ever, 100, state, ago(400))
		f.finished(f.Job, 400, state, ago(29))
	}
	f.finished(gone, 5, Succeeded, ago(31))
	f.finished(f.Job, 7, Succeeded, ago(31))
	f.finished(week, 10, Pending, 0)
	f.finished(week, 10, Running, 0)
	f.finished(week, 10, Running, ago(300)) // whatever it says
	f.finished(week, 3, Cancelled, 0)       // by SQL: as old as it was available, which is very old
	f.finished(week, 20, Succeeded, ago(6))
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE, FINISHED_AT) VALUES ('b', ?, 0, 'SUCCEEDED', 1)`, week)

	require.Equal(t, 3000+5+7+3, f.cleaned(now))
	require.Zero(t, f.cleaned(now))
	require.Equal(t, int64(50), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ? AND APPLICATION = 'a'`, week))
	require.Equal(t, int64(30), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('PENDING', 'RUNNING')`))
	require.Equal(t, int64(600), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ?`, ever))
	require.Equal(t, int64(2400), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ?`, f.Job))
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE APPLICATION = 'b'`), "another app's")

	require.Equal(t, 2400+20, f.cleaned(now.AddDate(0, 0, 1).Add(time.Millisecond)), "a day later")
}

func TestHistoryIsCleanedByNumber(t *testing.T) {
	f := newTables(t)
	few, all := f.AddJob("few"), f.AddJob("all")
	f.Exec(`UPDATE QRTZ_JOB SET KEEP_RUNS = 12, KEEP_FOR = 0 WHERE ID = ?`, few)
	f.finished(few, 10, Pending, 0)
	f.finished(few, 1700, Succeeded, noon.UnixMilli())
	f.finished(all, 30, Succeeded, noon.UnixMilli())
	f.finished(few, 10, Running, 0)
	f.finished(few, 12, Failed, noon.UnixMilli())
	require.Equal(t, 1700, f.cleaned(noon))
	require.Equal(t, int64(12), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ? AND STATE = 'FAILED'`, few), "the latest")
	require.Equal(t, int64(20), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('PENDING', 'RUNNING')`))
	require.Equal(t, int64(30), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ?`, all))
}

// The walk through the jobs that keep a number of runs goes by that number, page by page.
func TestAllJobsWithANumberOfRunsAreVisited(t *testing.T) {
	f := newTables(t)
	jobs := map[int64]int{}
	for i := range 2*countedJobs + 50 {
		id, keep := f.AddJob(fmt.Sprint("job ", i)), (i*7)%5 // ids are in another order than numbers; none for some
		f.Exec(`UPDATE QRTZ_JOB SET KEEP_RUNS = ? WHERE ID = ?`, keep, id)
		f.finished(id, 6, Succeeded, noon.UnixMilli())
		jobs[id] = keep
	}
	deleted := 0
	for range 3 {
		n, _, err := f.store.CleanHistory(t.Context(), noon)
		require.NoError(t, err)
		deleted += n
	}
	want := 0
	for id, keep := range jobs {
		kept := 6
		if keep > 0 {
			kept = keep
		}
		want += 6 - kept
		require.Equal(t, int64(kept), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ?`, id), "of a job that keeps %d", keep)
	}
	require.Equal(t, want, deleted)
	f.finished(f.Job, 1, Succeeded, noon.UnixMilli())
	require.Zero(t, f.cleaned(noon), "and again from the beginning")
}

// However many jobs there are: a pass that deletes nothing reads those that have a rule of their own.
func TestCleaningReadsFewJobs(t *testing.T) {
	f := newTables(t)
	const many = `INSERT INTO QRTZ_JOB (APPLICATION, NAME, JOB_CLASS)
		SELECT 'a', CONCAT('many ', seq), 'c' FROM (WITH RECURSIVE N AS (SELECT 1 AS seq UNION ALL SELECT seq + 1 FROM N WHERE seq < 1000) SELECT seq FROM N) S`
	f.Exec(many)
	f.Exec(`UPDATE QRTZ_JOB SET KEEP_RUNS = 3, KEEP_FOR = 1000 WHERE NAME = 'many 500'`)
	f.Exec(`ANALYZE TABLE QRTZ_JOB`)
	db, reads, _ := f.Counting()
	f.store = newStore(db)
	require.Zero(t, f.cleaned(noon))
	before := reads()
	_, _, err := f.store.CleanHistory(t.Context(), noon)
	require.NoError(t, err)
	require.Less(t, reads()-before, int64(100))
}

// A pass stops in time, and the next one continues behind it: rows that are kept cannot hide those that are not.
func TestHistoryThatIsKeptDoesNotHideTheRest(t *testing.T) {
	f := newTables(t)
	ever := f.AddJob("ever")
	f.Exec(`UPDATE QRTZ_JOB SET KEEP_FOR = 0 WHERE ID = ?`, ever)
	for range 12 {
		f.finished(ever, 1000, Succeeded, 1)
	}
	f.finished(f.Job, 1, Succeeded, 1)
	n, _, err := f.store.CleanHistory(t.Context(), noon)
	require.NoError(t, err)
	require.Zero(t, n, "one pass looks at no more than 10,000 rows that are kept")
	n, _, err = f.store.CleanHistory(t.Context(), noon)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// Runs that ended long ago are deleted whatever their ids: here behind, by id and by the time they were due, others that
// are kept.
func TestHistoryIsCleanedWhateverTheOrderOfIds(t *testing.T) {
	f := newTables(t)
	now := noon.UnixMilli()
	const year = 365 * 24 * 3600 * 1000
	f.finished(f.Job, 1200, Succeeded, now-1000)
	f.finished(f.Job, 1500, Succeeded, now-year)
	f.Exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = FINISHED_AT`)
	f.finished(f.Job, 700, Cancelled, now-year) // long before they were due
	f.Exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = ? WHERE STATE = 'CANCELLED'`, now+year)
	require.Equal(t, 1500+700, f.cleaned(noon))
	require.Equal(t, int64(1200), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// At rest nothing is looked at until some run may have to be deleted, or for an hour at most.
func TestCleaningRests(t *testing.T) {
	f := newTables(t)
	ever := f.AddJob("ever")
	f.Exec(`UPDATE QRTZ_JOB SET KEEP_FOR = 0 WHERE ID = ?`, ever)
	f.finished(ever, 3000, Succeeded, 1)
	db, reads, _ := f.Counting()
	f.store = newStore(db)
	require.Zero(t, f.cleaned(noon))
	before := reads()
	require.Zero(t, f.cleaned(noon.Add(time.Minute)))
	require.Less(t, reads()-before, int64(2000), "20 passes")
	f.Exec(`UPDATE QRTZ_JOB SET KEEP_FOR = 1000 WHERE ID = ?`, ever)
	require.Equal(t, 3000, f.cleaned(noon.Add(time.Hour+time.Minute)))
}

func TestCleaningPassesOverWhatIsLocked(t *testing.T) {
	f := newTables(t)
	f.store = newStore(f.Impatient())
	f.finished(f.Job, 1200, Succeeded, 1)
	end := f.Holding(`SELECT ID FROM QRTZ_RUN WHERE ID IN (3, 700) FOR UPDATE`)
	n, _, err := f.store.CleanHistory(t.Context(), noon)
	require.NoError(t, err)
	require.Equal(t, 1198, n)
	end()
	require.Equal(t, 2, f.cleaned(noon))
}
