package run

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatWasEnqueuedForAJobThatIsGoneIsCancelled(t *testing.T) {
	f := newTables(t)
	id := f.AddJob("tick")
	old, err := f.BeginTxx(context.Background(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(t, err)
	defer func() { _ = old.Rollback() }()
	var n int
	require.NoError(t, old.Get(&n, `SELECT COUNT(*) FROM QRTZ_JOB`), "from now on it sees what is there now")
	f.Exec(`DELETE FROM QRTZ_JOB WHERE ID = ?`, id)
	added, err := f.store.Enqueue(t.Context(), old, at(10), New{JobID: id}, New{JobID: id, At: at(20)})
	require.NoError(t, err)
	due, later := added[0].ID, added[1].ID
	require.NoError(t, old.Commit())
	kept := f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID) VALUES ('a', ?)`, f.Job)

	_, err = f.store.StuckRuns(t.Context(), at(15))
	require.NoError(t, err)
	require.Equal(t, []string{"CANCELLED", "PENDING", "PENDING"}, []string{f.RunState(due), f.RunState(later), f.RunState(kept)})
	require.Equal(t, "its job was deleted", f.Text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, due))
	_, err = f.store.StuckRuns(t.Context(), at(20))
	require.NoError(t, err)
	require.Equal(t, []string{"CANCELLED", "PENDING"}, []string{f.RunState(later), f.RunState(kept)})
}

func TestPendingRunsOfWhatIsDeletedSayWhy(t *testing.T) {
	f := newTables(t)
	ofJob := f.AddPending()
	ofExecute := f.AddPending()
	execute := f.Add()
	f.Exec(`UPDATE QRTZ_RUN SET EXECUTE_ID = ? WHERE ID = ?`, execute, ofExecute)
	tx := f.MustBegin()
	defer func() { _ = tx.Rollback() }()
	require.NoError(t, f.store.CancelPendingOfExecute(t.Context(), tx, at(5), execute))
	require.NoError(t, f.store.CancelPendingOfJob(t.Context(), tx, at(6), f.Job))
	require.NoError(t, tx.Commit())
	for id, why := range map[int64]string{ofExecute: "its schedule was deleted", ofJob: "its job was deleted"} {
		require.Equal(t, "CANCELLED", f.RunState(id))
		require.Equal(t, why, f.Text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, id))
	}
	require.Equal(t, at(5).UnixMilli(), f.Count(`SELECT FINISHED_AT FROM QRTZ_RUN WHERE ID = ?`, ofExecute))
}
