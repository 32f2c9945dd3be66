package execute

import (
	"fmt"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/run"

	"github.com/stretchr/testify/require"
)

func (f *tables) stuck() []run.Stuck {
	f.t.Helper()
	executes, err := f.store.StuckExecutes(f.t.Context(), noon)
	require.NoError(f.t, err)
	runs, err := f.store.runs.StuckRuns(f.t.Context(), noon, noon)
	require.NoError(f.t, err)
	return append(executes, runs...)
}

func TestWhatContradictsItselfRunsNowhereAndSaysSo(t *testing.T) {
	f := newTables(t)
	f.exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE, HANDLERS) VALUES ('a', 'n', '', 'Y', 0, 1, '["tick"]')`)
	theirs := f.addJob("tick")
	f.exec(`UPDATE QRTZ_JOB SET APPLICATION = 'b' WHERE ID = ?`, theirs)
	gone, lonely := f.addJob("tick"), f.addJob("lonely")
	contrary, fresh, without, fine := f.addTo(theirs), f.addTo(theirs), f.addTo(gone), f.addTo(f.job)
	f.exec(`DELETE FROM QRTZ_JOB WHERE ID = ?`, gone)
	f.exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = NULL WHERE ID = ?`, fresh)
	f.addTo(lonely)
	r := func(job int64, state run.State) int64 {
		return f.id(f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, STATE) VALUES ('a', ?, ?)`, job, state))
	}
	foreign, nobody, waits := r(theirs, run.Pending), r(f.job, run.Running), r(f.job, run.Pending)

	require.Equal(t, []run.Stuck{
		{Class: "", Why: run.JobGone, Count: 1, ExecuteID: without, JobID: gone},
		{Class: "lonely", Count: 1, ExecuteID: without + 2, JobID: lonely},
		{Class: "tick", Count: 1, ExecuteID: fine, JobID: f.job},
		{Class: "tick", Why: run.JobElsewhere, Count: 2, ExecuteID: fresh, JobID: theirs},
		{Class: "tick", Count: 1, RunID: waits, JobID: f.job},
		{Class: "tick", Why: run.NoInstance, Count: 1, RunID: nobody, JobID: f.job},
		{Class: "tick", Why: run.JobElsewhere, Count: 1, RunID: foreign, JobID: theirs},
	}, f.stuck())
	require.Equal(t, run.JobElsewhere, f.text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, foreign))
	require.Equal(t, run.NoInstance, f.text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, nobody))
	require.Equal(t, "its job belongs to app b", f.text(`SELECT WHY FROM QRTZ_V_RUN WHERE ID = ?`, foreign))
	require.Equal(t, "RUNNING without an instance", f.text(`SELECT WHY FROM QRTZ_V_RUN WHERE ID = ?`, nobody))
	require.Equal(t, "its job belongs to app b", f.text(`SELECT WHY FROM QRTZ_V_EXECUTE WHERE ID = ?`, contrary))
	require.Equal(t, "its job is gone", f.text(`SELECT WHY FROM QRTZ_V_EXECUTE WHERE ID = ?`, without))
	require.Equal(t, "no node has a handler for its class", f.text(`SELECT WHY FROM QRTZ_V_EXECUTE WHERE JOB_CLASS = 'lonely'`))
	require.Zero(t, f.count(`SELECT COUNT(WHY) FROM QRTZ_V_RUN WHERE ID = ?`, waits))
	require.Zero(t, f.count(`SELECT COUNT(WHY) FROM QRTZ_V_EXECUTE WHERE ID = ?`, fine))

	for _, e := range f.due(at(10)) {
		require.NotEqual(t, theirs, e.JobID)
	}
	overdue, err := f.store.OverdueAfter(t.Context(), Executing, []string{"tick"}, Cursor{}, at(10), 10)
	require.NoError(t, err)
	require.Len(t, overdue, 1)
	fires, err := f.store.New(t.Context(), []string{"tick"}, 10)
	require.NoError(t, err)
	require.Empty(t, fires)
}

// What is asked to be cancelled ends in the next pass, though it waits for later, and behind whatever else waits.
func TestCancelAtEndsWhatWaitsForLater(t *testing.T) {
	f := newTables(t)
	f.exec(`DELETE FROM QRTZ_RUN`)
	f.addJobs("a", run.StuckPage*run.StuckPages+200)
	f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, AVAILABLE_AT) SELECT 'a', ID, ? FROM QRTZ_JOB`, at(1000).UnixMilli())
	last := f.id(f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, AVAILABLE_AT, CANCEL_AT) VALUES ('a', ?, ?, ?)`, f.job, at(1000).UnixMilli(), noon.UnixMilli()))
	first := f.count(`SELECT MIN(ID) FROM QRTZ_RUN`)
	f.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 0 WHERE ID = ?`, first)
	f.stuck()
	require.Equal(t, []string{"CANCELLED", "PENDING"}, []string{f.runState(first), f.runState(last)}, "some in each pass")
	f.stuck()
	require.Equal(t, "CANCELLED", f.runState(last))
	require.Equal(t, int64(run.StuckPage*run.StuckPages+200), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
}

func TestCancellingPassesOverWhatIsLocked(t *testing.T) {
	f := newTables(t)
	f.impatient()
	for range 5 {
		f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, AVAILABLE_AT, CANCEL_AT) VALUES ('a', ?, ?, 1)`, f.job, at(1000).UnixMilli())
	}
	locked := f.count(`SELECT MIN(ID) + 2 FROM QRTZ_RUN`)
	tx := f.locking(`SELECT ID FROM QRTZ_RUN WHERE ID = ? FOR UPDATE`, locked)
	began := time.Now()
	f.stuck()
	require.Less(t, time.Since(began), 4*time.Second)
	require.Equal(t, fmt.Sprint(locked), f.text(`SELECT GROUP_CONCAT(ID) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
	require.NoError(t, tx.Rollback())
	f.stuck()
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
}

// A row whose own values the server refuses is named; the others are written.
func TestARefusedRowIsNamed(t *testing.T) {
	f := newTables(t)
	var ids []int64
	for i := range 7 {
		ids = append(ids, f.id(f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FENCE) VALUES ('a', ?, ?)`, f.job, 100*i)))
	}
	tries := 0
	locked, err := f.store.db.WriteEach(t.Context(), `QRTZ_RUN`, ids, func(ids []int64) error {
		tries++
		return f.store.db.Write(t.Context(), `UPDATE QRTZ_RUN SET ATTEMPT = IF(FENCE IN (300, 500), -1, 7) WHERE ID IN (?)`, ids)
	})
	require.Empty(t, locked)
	require.ErrorContains(t, err, "row 4 of")
	require.ErrorContains(t, err, "row 6 of")
	require.Equal(t, int64(5), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ATTEMPT = 7`))
	require.Less(t, tries, 12)
}
