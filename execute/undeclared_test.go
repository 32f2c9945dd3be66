package execute

import (
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

func TestSchedulesAtRunTime(t *testing.T) {
	f := newTables(t)
	schedule := func(job, name string, every time.Duration) error {
		return f.store.db.InTx(t.Context(), func(tx *sqlx.Tx) error {
			d := DeclaredSchedule{Name: name, Misfire: Skip, CatchUpLimit: 100, Spec: Spec{Kind: Simple, Every: every, Repeat: Forever}}
			return f.store.Schedule(t.Context(), tx, noon, job, d)
		})
	}
	unschedule := func(job, name string) error {
		return f.store.db.InTx(t.Context(), func(tx *sqlx.Tx) error { return f.store.Unschedule(t.Context(), tx, noon, job, name) })
	}
	there := func() string {
		return f.Text(`SELECT GROUP_CONCAT(NAME, ' ', REPEAT_INTERVAL DIV 1000, ' ', STATE ORDER BY NAME) FROM QRTZ_EXECUTE`)
	}
	d := []Declaration{declaration("j", "x", "y")}
	f.declare(noon, d)
	require.NoError(t, schedule("j", "own", time.Minute))
	require.NoError(t, schedule("j", "own", 2*time.Minute))
	require.NoError(t, schedule("j", "y", time.Hour))
	for range 2 {
		require.Len(t, f.declare(noon, d), 2, "y has another rate, and another policy")
		require.Equal(t, "own 120 EXECUTING,x 1 EXECUTING,y 3600 EXECUTING", there())
	}
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID) SELECT 'a', PID, ID FROM QRTZ_EXECUTE WHERE NAME = 'own'`)
	require.NoError(t, unschedule("j", "own"))
	require.Equal(t, "CANCELLED", f.Text(`SELECT STATE FROM QRTZ_RUN`))
	require.NoError(t, unschedule("j", "y"))
	require.Len(t, f.declare(noon, d), 1, "y is declared, and deleted")
	require.Equal(t, "x 1 EXECUTING", there())

	require.ErrorIs(t, schedule("k", "own", time.Minute), run.ErrNotFound)
	require.ErrorIs(t, unschedule("j", "own"), run.ErrNotFound)
	require.ErrorContains(t, schedule("j", "", time.Minute), "needs a name")
	require.ErrorContains(t, unschedule("j", ""), "name is missing")
	require.ErrorContains(t, schedule("j", "own", -1), "REPEAT_INTERVAL")

	f.Exec(`UPDATE QRTZ_JOB SET DECLARED = NULL`) // as an earlier release left it
	require.NoError(t, schedule("j", "own", time.Minute))
	f.declare(noon, []Declaration{declaration("j", "z")})
	require.Equal(t, "own 60 EXECUTING,x 1 COMPLETE,z 1 EXECUTING", there())
}
