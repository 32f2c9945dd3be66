package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

// A person has turned an execute back by SQL: its fire is not run again, and the next one has its run.
func TestAFireThatHasARunKeepsIt(t *testing.T) {
	f := newTables(t)
	e := f.Add()
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE) VALUES ('a', ?, ?, ?, 'SUCCEEDED')`, f.Job, e, noon.UnixMilli())
	runs := f.claim(f.Join("n1"), 2, e).Runs
	require.Len(t, runs, 1)
	require.Equal(t, at(1).UnixMilli(), runs[0].FireTime.UnixMilli())
	require.NoError(t, f.store.LeaveForOthers(t.Context(), []Run{{JobID: f.Job, ExecuteID: e, FireTime: noon}, runs[0]}))
	require.Equal(t, "SUCCEEDED RUNNING", f.Text(`SELECT GROUP_CONCAT(STATE ORDER BY FIRE_TIME SEPARATOR ' ') FROM QRTZ_RUN`))
}

func TestAnExecuteThatWasNotMovedLeavesNoRun(t *testing.T) {
	f := newTables(t)
	e := f.Add()
	for _, one := range []bool{true, false} {
		require.NoError(t, f.store.db.InPacket(t.Context(), func(p *schema.Packet) error {
			f.store.InsertMoved(p, f.Join("n1"), 4711, []Fires{{ExecuteID: e, Rows: []NewRun{{State: Running, FireTime: noon, Count: 1}}, One: one}})
			return nil
		}))
	}
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}
