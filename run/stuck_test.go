package run

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (f *tables) stuck() []Stuck {
	f.T.Helper()
	runs, err := f.store.StuckRuns(f.T.Context(), noon)
	require.NoError(f.T, err)
	return runs
}

func TestWhatContradictsItselfRunsNowhereAndSaysSo(t *testing.T) {
	f := newTables(t)
	f.Exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE, HANDLERS) VALUES ('a', 'n', '', 'Y', 0, 1, '["tick"]')`)
	theirs := f.AddJob("tick")
	f.Exec(`UPDATE QRTZ_JOB SET APPLICATION = 'b' WHERE ID = ?`, theirs)
	r := func(job int64, state State) int64 {
		return f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, STATE) VALUES ('a', ?, ?)`, job, state)
	}
	foreign, unheld, waits := r(theirs, Pending), r(f.Job, Running), r(f.Job, Pending)

	require.Equal(t, []Stuck{
		{Class: "tick", Count: 1, RunID: waits, JobID: f.Job},
		{Class: "tick", Why: noInstance, Count: 1, RunID: unheld, JobID: f.Job},
		{Class: "tick", Why: JobElsewhere, Count: 1, RunID: foreign, JobID: theirs},
	}, f.stuck())
	require.Equal(t, JobElsewhere, f.Text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, foreign))
	require.Equal(t, noInstance, f.Text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, unheld))
	require.Equal(t, "its job belongs to app b", f.Text(`SELECT WHY FROM QRTZ_V_RUN WHERE ID = ?`, foreign))
	require.Equal(t, "RUNNING without an instance", f.Text(`SELECT WHY FROM QRTZ_V_RUN WHERE ID = ?`, unheld))
	require.Zero(t, f.Count(`SELECT COUNT(WHY) FROM QRTZ_V_RUN WHERE ID = ?`, waits))
}

// What is asked to be cancelled ends in the next pass, though it waits for later, and behind whatever else waits.
func TestCancelAtEndsWhatWaitsForLater(t *testing.T) {
	f := newTables(t)
	f.Exec(`DELETE FROM QRTZ_RUN`)
	f.AddJobs("a", StuckPage*StuckPages+200)
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, AVAILABLE_AT) SELECT 'a', ID, ? FROM QRTZ_JOB`, at(1000).UnixMilli())
	last := f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, AVAILABLE_AT, CANCEL_AT) VALUES ('a', ?, ?, ?)`, f.Job, at(1000).UnixMilli(), noon.UnixMilli())
	first := f.Count(`SELECT MIN(ID) FROM QRTZ_RUN`)
	f.Exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 0 WHERE ID = ?`, first)
	f.stuck()
	require.Equal(t, []string{"CANCELLED", "PENDING"}, []string{f.RunState(first), f.RunState(last)}, "some in each pass")
	f.stuck()
	require.Equal(t, "CANCELLED", f.RunState(last))
	require.Equal(t, int64(StuckPage*StuckPages+200), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
}

func TestCancellingPassesOverWhatIsLocked(t *testing.T) {
	f := newTables(t)
	f.store = newStore(f.Impatient())
	for range 5 {
		f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, AVAILABLE_AT, CANCEL_AT) VALUES ('a', ?, ?, 1)`, f.Job, at(1000).UnixMilli())
	}
	locked := f.Count(`SELECT MIN(ID) + 2 FROM QRTZ_RUN`)
	end := f.Holding(`SELECT ID FROM QRTZ_RUN WHERE ID = ? FOR UPDATE`, locked)
	began := time.Now()
	f.stuck()
	require.Less(t, time.Since(began), 4*time.Second)
	require.Equal(t, fmt.Sprint(locked), f.Text(`SELECT GROUP_CONCAT(ID) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
	end()
	f.stuck()
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
}
