package execute

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJobStatesFollowTheirExecutes(t *testing.T) {
	f := newTables(t)
	for _, c := range []struct {
		want   string
		states []string
	}{
		{"ERROR", []string{"EXECUTING", "PAUSED", "ERROR", "COMPLETE", "INIT"}},
		{"EXECUTING", []string{"COMPLETE", "PAUSED", "EXECUTING", "INIT"}},
		{"PAUSED", []string{"COMPLETE", "PAUSED", "INIT"}},
		{"COMPLETE", []string{"COMPLETE", "COMPLETE"}},
		{"INIT", []string{"COMPLETE", "INIT"}},
	} {
		job := f.AddJob("tick")
		for _, state := range c.states {
			f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = ?, CHANGED_AT = '2024-01-01' WHERE ID = ?`, state, f.AddTo(job))
		}
		f.Exec(`UPDATE QRTZ_JOB SET STATE = 'INIT' WHERE ID = ?`, f.Job)
		f.Exec(`UPDATE QRTZ_APP SET DERIVED_TO = ?, DERIVED_ID = 0`, time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
		f.derive()
		require.Equal(t, "EXECUTING", f.Text(`SELECT STATE FROM QRTZ_JOB WHERE ID = ?`, job), "all that is older has been derived")
		f.Exec(`UPDATE QRTZ_APP SET DERIVED_TO = NULL`)
		f.derive()
		require.Equal(t, c.want, f.Text(`SELECT STATE FROM QRTZ_JOB WHERE ID = ?`, job))
		require.Equal(t, "INIT", f.Text(`SELECT STATE FROM QRTZ_JOB WHERE ID = ?`, f.Job), "a job without executes is left alone")
	}
}

// derive derives the states of jobs until there is no more to do.
func (f *tables) derive() {
	f.T.Helper()
	for more := true; more; {
		var err error
		more, err = f.store.DeriveJobStates(f.T.Context())
		require.NoError(f.T, err)
	}
}

// A walk that is cut off continues where it came to, on another node, too, though all rows say the same time.
func TestDerivingJobStatesGoesOn(t *testing.T) {
	f := newTables(t)
	const n = derivePages*jobPage + 300
	f.AddJobs("a", n)
	f.Exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_INTERVAL, CHANGED_AT)
		SELECT ID, 'a', 'SIMPLE', 'EXECUTING', 1000, '2020-01-01' FROM QRTZ_JOB WHERE ID > 1000`)
	derived := func() int64 { return f.Count(`SELECT COUNT(*) FROM QRTZ_JOB WHERE ID > 1000 AND STATE = 'EXECUTING'`) }
	more, err := f.store.DeriveJobStates(t.Context())
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, int64(derivePages*jobPage), derived())
	f.Exec(`UPDATE QRTZ_JOB SET STATE = 'INIT' WHERE ID = 1001`)
	more, err = newStore(f.DB).DeriveJobStates(t.Context())
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, int64(n-1), derived(), "what was done is not done again")

	noted := f.Text(`SELECT CONCAT(DERIVED_TO, ' ', DERIVED_ID) FROM QRTZ_APP`)
	f.derive()
	require.Equal(t, noted, f.Text(`SELECT CONCAT(DERIVED_TO, ' ', DERIVED_ID) FROM QRTZ_APP`), "at rest nothing is written")
	f.Exec(`UPDATE QRTZ_APP SET DERIVED_TO = 9223372036854775807`)
	f.derive()
	require.Equal(t, int64(n), derived(), "a time that is still to come was written by SQL")
}

// A job that another transaction has locked is left alone, and is done when it is free; the others do not wait.
func TestDerivingJobStatesPassesOverWhatIsLocked(t *testing.T) {
	f := newTables(t)
	f.SetMaxOpenConns(2)
	f.store = newStore(f.Impatient())
	for id := 1001; id < 1100; id++ {
		f.Exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS) VALUES (?, 'a', 'tick')`, id)
		f.Exec(`UPDATE QRTZ_EXECUTE SET CHANGED_AT = '2020-01-01' WHERE ID = ?`, f.AddTo(int64(id)))
	}
	end := f.Holding(`SELECT ID FROM QRTZ_JOB WHERE ID = 1050 FOR UPDATE`)
	began := time.Now()
	f.derive()
	require.Less(t, time.Since(began), 5*time.Second)
	initial := func() string {
		return f.Text(`SELECT GROUP_CONCAT(ID) FROM QRTZ_JOB WHERE ID > 1000 AND STATE = 'INIT'`)
	}
	require.Equal(t, "1050", initial())
	end()
	f.derive()
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_JOB WHERE ID > 1000 AND STATE = 'INIT'`))
}
