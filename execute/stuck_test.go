package execute

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

func TestWhatContradictsItselfRunsNowhereAndSaysSo(t *testing.T) {
	f := newTables(t)
	f.Exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE, HANDLERS) VALUES ('a', 'n', '', 'Y', 0, 1, '["tick"]')`)
	theirs := f.AddJob("tick")
	f.Exec(`UPDATE QRTZ_JOB SET APPLICATION = 'b' WHERE ID = ?`, theirs)
	gone, lonely := f.AddJob("tick"), f.AddJob("lonely")
	contrary, fresh, without, fine := f.AddTo(theirs), f.AddTo(theirs), f.AddTo(gone), f.AddTo(f.Job)
	f.Exec(`DELETE FROM QRTZ_JOB WHERE ID = ?`, gone)
	f.Exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = NULL WHERE ID = ?`, fresh)
	f.AddTo(lonely)

	stuck, err := f.store.StuckExecutes(t.Context(), noon)
	require.NoError(t, err)
	require.Equal(t, []run.Stuck{
		{Class: "", Why: run.JobGone, Count: 1, ExecuteID: without, JobID: gone},
		{Class: "lonely", Count: 1, ExecuteID: without + 2, JobID: lonely},
		{Class: "tick", Count: 1, ExecuteID: fine, JobID: f.Job},
		{Class: "tick", Why: run.JobElsewhere, Count: 2, ExecuteID: fresh, JobID: theirs},
	}, stuck)
	require.Equal(t, "its job belongs to app b", f.Text(`SELECT WHY FROM QRTZ_V_EXECUTE WHERE ID = ?`, contrary))
	require.Equal(t, "its job is gone", f.Text(`SELECT WHY FROM QRTZ_V_EXECUTE WHERE ID = ?`, without))
	require.Equal(t, "no node has a handler for its class", f.Text(`SELECT WHY FROM QRTZ_V_EXECUTE WHERE JOB_CLASS = 'lonely'`))
	require.Zero(t, f.Count(`SELECT COUNT(WHY) FROM QRTZ_V_EXECUTE WHERE ID = ?`, fine))
	require.Equal(t, "no node has a handler for its class", f.Text(`SELECT WHY FROM QRTZ_V_JOB WHERE ID = ?`, lonely))
	require.Zero(t, f.Count(`SELECT COUNT(WHY) FROM QRTZ_V_JOB WHERE ID = ?`, f.Job))

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
