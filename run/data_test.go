package run

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDataOfARunIsItsOwnOrItsSchedulesOrItsJobs(t *testing.T) {
	f := newTables(t)
	execute := f.Add()
	pending := func(own any) int64 {
		return f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, JOB_DATA, ATTEMPT) VALUES ('a', ?, ?, 0, ?, 1 + (SELECT COUNT(*) FROM QRTZ_RUN R))`,
			f.Job, execute, own)
	}
	who := f.Join("n1")
	claimed := func(id int64) Run {
		pending, err := f.store.Pending(t.Context(), []string{"tick"}, at(10_000_000), 1000)
		require.NoError(t, err)
		won, err := f.store.ClaimPending(t.Context(), who, pending)
		require.NoError(t, err)
		require.Len(t, won.Runs, 1)
		require.Equal(t, id, won.Runs[0].ID)
		return won.Runs[0]
	}
	check := func(r Run, want string) {
		t.Helper()
		require.Equal(t, int64(len(want)), r.DataSize)
		data, size, err := f.store.Data(t.Context(), r, 1<<20)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
		require.Equal(t, int64(len(want)), size)
		if len(want) <= 65536 {
			require.Equal(t, want, string(r.Data))
		}
	}
	withoutRow := func(want string) {
		t.Helper()
		data, _, err := f.store.Data(t.Context(), Run{JobID: f.Job, ExecuteID: execute}, 1<<20)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	check(claimed(pending(nil)), `{"n":1}`)
	withoutRow(`{"n":1}`)
	f.Exec(`UPDATE QRTZ_EXECUTE SET JOB_DATA = '"schedule"'`)
	check(claimed(pending(nil)), `"schedule"`)
	withoutRow(`"schedule"`)
	check(claimed(pending(`"own"`)), `"own"`)
	check(claimed(pending(strings.Repeat("x", 70_000))), strings.Repeat("x", 70_000))
}

// A run whose job has been deleted since it was claimed is not given the empty data of no job.
func TestTheDataOfADeletedJobIsGone(t *testing.T) {
	f := newTables(t)
	id := f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME) VALUES ('a', ?, 0)`, f.Job)
	_, _, err := f.store.Data(t.Context(), Run{ID: id, JobID: f.Job}, 1<<20)
	require.NoError(t, err)
	f.Exec(`DELETE FROM QRTZ_JOB WHERE ID = ?`, f.Job)
	_, _, err = f.store.Data(t.Context(), Run{ID: id, JobID: f.Job}, 1<<20)
	require.ErrorIs(t, err, ErrNoData)
	f.Exec(`UPDATE QRTZ_RUN SET JOB_DATA = '1'`)
	data, _, err := f.store.Data(t.Context(), Run{ID: id, JobID: f.Job}, 1<<20)
	require.NoError(t, err)
	require.Equal(t, "1", string(data))
}
