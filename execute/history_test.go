package execute

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/run"

	"github.com/stretchr/testify/require"
)

// finished adds n runs of a job that ended in a state at a time; 0 for PENDING and RUNNING ones, which have not.
func (f *tables) finished(job int64, n int, state run.State, end int64) {
	f.t.Helper()
	row := fmt.Sprintf(`('a', %d, 0, '%s', NULLIF(%d, 0))`, job, state, end)
	f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE, FINISHED_AT) VALUES ` + row + strings.Repeat(`, `+row, n-1))
}

// cleaned calls CleanHistory until it should find nothing more to delete, and returns how much it deleted in all.
func (f *tables) cleaned(now time.Time) (deleted int) {
	f.t.Helper()
	for range 20 { // passes; the last ones find nothing
		n, _, err := f.store.runs.CleanHistory(f.t.Context(), now)
		require.NoError(f.t, err)
		deleted += n
	}
	return deleted
}

func TestHistoryIsCleanedByAge(t *testing.T) {
	f := newTables(t)
	const day = 24 * 60 * 60 * 1000
	now := noon
	ago := func(days int64) int64 { return now.UnixMilli() - days*day }
	week, ever, gone := f.addJob("week"), f.addJob("ever"), f.addJob("gone")
	f.exec(`UPDATE QRTZ_JOB SET KEEP_FOR = ? WHERE ID = ?`, 7*day, week)
	f.exec(`UPDATE QRTZ_JOB SET KEEP_FOR = 0 WHERE ID = ?`, ever)
	f.exec(`DELETE FROM QRTZ_JOB WHERE ID = ?`, gone)
	for i := range 6 { // 3,000 rows to delete, and as many kept in between
		state := []run.State{run.Succeeded, run.Failed, run.Lost, run.Cancelled, run.Skipped, run.Succeeded}[i]
		f.finished(week, 500, state, ago(8))
		f.finished(ever, 100, state, ago(400))
		f.finished(f.job, 400, state, ago(29))
	}
	f.finished(gone, 5, run.Succeeded, ago(31))
	f.finished(f.job, 7, run.Succeeded, ago(31))
	f.finished(week, 10, run.Pending, 0)
	f.finished(week, 10, run.Running, 0)
	f.finished(week, 10, run.Running, ago(300)) // whatever it says
	f.finished(week, 3, run.Cancelled, 0)       // by hand: as old as it was available, which is very old
	f.finished(week, 20, run.Succeeded, ago(6))
	f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE, FINISHED_AT) VALUES ('b', ?, 0, 'SUCCEEDED', 1)`, week)

	require.Equal(t, 3000+5+7+3, f.cleaned(now))
	require.Zero(t, f.cleaned(now))
	require.Equal(t, int64(50), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ? AND APPLICATION = 'a'`, week))
	require.Equal(t, int64(30), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('PENDING', 'RUNNING')`))
	require.Equal(t, int64(600), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ?`, ever))
	require.Equal(t, int64(2400), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ?`, f.job))
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE APPLICATION = 'b'`), "another app's")

	require.Equal(t, 2400+20, f.cleaned(now.AddDate(0, 0, 1).Add(time.Millisecond)), "a day later")
}

func TestHistoryIsCleanedByNumber(t *testing.T) {
	f := newTables(t)
	few, all := f.addJob("few"), f.addJob("all")
	f.exec(`UPDATE QRTZ_JOB SET KEEP_RUNS = 12, KEEP_FOR = 0 WHERE ID = ?`, few)
	f.finished(few, 10, run.Pending, 0)
	f.finished(few, 1700, run.Succeeded, noon.UnixMilli())
	f.finished(all, 30, run.Succeeded, noon.UnixMilli())
	f.finished(few, 10, run.Running, 0)
	f.finished(few, 12, run.Failed, noon.UnixMilli())
	require.Equal(t, 1700, f.cleaned(noon))
	require.Equal(t, int64(12), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ? AND STATE = 'FAILED'`, few), "the latest")
	require.Equal(t, int64(20), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('PENDING', 'RUNNING')`))
	require.Equal(t, int64(30), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ?`, all))
}

// A pass stops in time, and the next one goes on behind it: rows that are kept cannot hide those that are not.
func TestHistoryThatIsKeptDoesNotHideTheRest(t *testing.T) {
	f := newTables(t)
	ever := f.addJob("ever")
	f.exec(`UPDATE QRTZ_JOB SET KEEP_FOR = 0 WHERE ID = ?`, ever)
	for range 12 {
		f.finished(ever, 1000, run.Succeeded, 1)
	}
	f.finished(f.job, 1, run.Succeeded, 1)
	n, _, err := f.store.runs.CleanHistory(t.Context(), noon)
	require.NoError(t, err)
	require.Zero(t, n, "one pass looks at no more than 10,000 rows that are kept")
	n, _, err = f.store.runs.CleanHistory(t.Context(), noon)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// Runs that ended long ago are deleted whatever their ids: here behind, by id and by the time they were due, others that
// are kept.
func TestHistoryIsCleanedWhateverTheOrderOfIds(t *testing.T) {
	f := newTables(t)
	now := noon.UnixMilli()
	const year = 365 * 24 * 3600 * 1000
	f.finished(f.job, 1200, run.Succeeded, now-1000)
	f.finished(f.job, 1500, run.Succeeded, now-year)
	f.exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = FINISHED_AT`)
	f.finished(f.job, 700, run.Cancelled, now-year) // long before they were due
	f.exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = ? WHERE STATE = 'CANCELLED'`, now+year)
	require.Equal(t, 1500+700, f.cleaned(noon))
	require.Equal(t, int64(1200), f.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// At rest nothing is looked at until some run may have to be deleted, or for an hour at most.
func TestCleaningRests(t *testing.T) {
	f := newTables(t)
	ever := f.addJob("ever")
	f.exec(`UPDATE QRTZ_JOB SET KEEP_FOR = 0 WHERE ID = ?`, ever)
	f.finished(ever, 3000, run.Succeeded, 1)
	reads, _ := f.counting()
	require.Zero(t, f.cleaned(noon))
	before := reads()
	require.Zero(t, f.cleaned(noon.Add(time.Minute)))
	require.Less(t, reads()-before, int64(2000), "20 passes")
	f.exec(`UPDATE QRTZ_JOB SET KEEP_FOR = 1000 WHERE ID = ?`, ever)
	require.Equal(t, 3000, f.cleaned(noon.Add(time.Hour+time.Minute)))
}

func TestCleaningPassesOverWhatIsLocked(t *testing.T) {
	f := newTables(t)
	f.impatient()
	f.finished(f.job, 1200, run.Succeeded, 1)
	tx := f.locking(`SELECT ID FROM QRTZ_RUN WHERE ID IN (3, 700) FOR UPDATE`)
	n, _, err := f.store.runs.CleanHistory(t.Context(), noon)
	require.NoError(t, err)
	require.Equal(t, 1198, n)
	require.NoError(t, tx.Rollback())
	require.Equal(t, 2, f.cleaned(noon))
}

// Nothing that housekeeping does looks at another app's rows, however many there are.
func TestHousekeepingLooksAtItsOwnApp(t *testing.T) {
	f := newTables(t)
	const n = 30_000
	f.addJobs("b", n)
	f.exec(`UPDATE QRTZ_JOB SET KEEP_RUNS = 10 WHERE APPLICATION = 'b'`)
	f.exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_INTERVAL, NEXT_FIRE_TIME)
		SELECT ID, 'b', 'SIMPLE', ELT(1 + ID % 3, 'EXECUTING', 'PAUSED', 'ERROR'), 1000, 0 FROM QRTZ_JOB WHERE APPLICATION = 'b'`)
	f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, STATE, FINISHED_AT, CANCEL_AT)
		SELECT 'b', ID, ELT(1 + ID % 4, 'PENDING', 'RUNNING', 'SUCCEEDED', 'LOST'), 1, 1 FROM QRTZ_JOB WHERE APPLICATION = 'b'`)
	f.addMany(10)
	f.finished(f.job, 10, run.Succeeded, noon.UnixMilli())
	f.exec(`ANALYZE TABLE QRTZ_JOB, QRTZ_EXECUTE, QRTZ_RUN`)
	read, scanned := f.counting()
	ctx := t.Context()
	for name, do := range map[string]func() error{
		"adopt":       func() error { return f.store.Adopt(ctx) },
		"mark paused": func() error { return f.store.MarkPaused(ctx) },
		"new":         func() error { _, err := f.store.New(ctx, []string{"tick"}, 500); return err },
		"broken":      func() error { _, err := f.store.Broken(ctx, 0, 500); return err },
		"overdue": func() error {
			_, err := f.store.OverdueAfter(ctx, Executing, []string{"tick"}, Cursor{}, noon, 500)
			return err
		},
		"paused":         func() error { _, err := f.store.PausedAfter(ctx, Cursor{}, noon, 500); return err },
		"stuck executes": func() error { _, err := f.store.StuckExecutes(ctx, noon); return err },
		"stuck runs":     func() error { _, err := f.store.runs.StuckRuns(ctx, noon, noon); return err },
		"abandoned":      func() error { _, err := f.store.runs.Abandoned(ctx); return err },
		"derive":         func() error { _, err := f.store.DeriveJobStates(ctx); return err },
		"clean":          func() error { _, _, err := f.store.runs.CleanHistory(ctx, noon); return err },
	} {
		before, scannedBefore := read(), scanned()
		require.NoError(t, do(), name)
		require.Less(t, read()-before, int64(1500), name)
		require.Less(t, scanned()-scannedBefore, int64(5000), name)
	}
}
