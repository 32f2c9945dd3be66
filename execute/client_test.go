package execute

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

// within does something in a transaction of the store's own.
func (f *tables) within(do func(tx *sqlx.Tx) error) {
	f.t.Helper()
	require.NoError(f.t, schema.InTx(f.t.Context(), f.DB, do))
}

func TestWhatWasEnqueuedForAJobThatIsGoneIsCancelled(t *testing.T) {
	f := newTables(t)
	require.NoError(t, f.store.Declare(t.Context(), noon, []Declaration{declaration("job")}))
	old, err := f.BeginTxx(context.Background(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(t, err)
	defer func() { _ = old.Rollback() }()
	var n int
	require.NoError(t, old.Get(&n, `SELECT COUNT(*) FROM QRTZ_JOB`), "from now on it sees what is there now")
	id, err := f.store.JobNamed(t.Context(), old, "job")
	require.NoError(t, err)
	f.within(func(tx *sqlx.Tx) error { return f.store.DeleteJob(t.Context(), tx, noon, id) })
	due, err := f.store.runs.Enqueue(t.Context(), old, id, nil, at(10))
	require.NoError(t, err)
	later, err := f.store.runs.Enqueue(t.Context(), old, id, nil, at(20))
	require.NoError(t, err)
	require.NoError(t, old.Commit())
	kept := f.id(f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID) VALUES ('a', ?)`, f.job))

	_, err = f.store.runs.StuckRuns(t.Context(), at(15), noon)
	require.NoError(t, err)
	require.Equal(t, []string{"CANCELLED", "PENDING", "PENDING"}, []string{f.runState(due), f.runState(later), f.runState(kept)})
	require.Equal(t, "its job was deleted", f.text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, due))
	_, err = f.store.runs.StuckRuns(t.Context(), at(20), noon)
	require.NoError(t, err)
	require.Equal(t, []string{"CANCELLED", "PENDING"}, []string{f.runState(later), f.runState(kept)})
}
