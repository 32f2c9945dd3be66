package execute

import (
	"context"
	"database/sql"
	"testing"
	"time"

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
	f.within(func(tx *sqlx.Tx) error { return f.store.Remove(t.Context(), tx, noon, "job") })
	due, err := f.store.Enqueue(t.Context(), old, "job", nil, at(10))
	require.NoError(t, err)
	later, err := f.store.Enqueue(t.Context(), old, "job", nil, at(20))
	require.NoError(t, err)
	require.NoError(t, old.Commit())
	kept := f.id(f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID) VALUES ('a', ?)`, f.job))

	_, err = f.store.StuckRuns(t.Context(), at(15), noon)
	require.NoError(t, err)
	require.Equal(t, []string{"CANCELLED", "PENDING", "PENDING"}, []string{f.runState(due), f.runState(later), f.runState(kept)})
	require.Equal(t, "its job was removed", f.text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, due))
	_, err = f.store.StuckRuns(t.Context(), at(20), noon)
	require.NoError(t, err)
	require.Equal(t, []string{"CANCELLED", "PENDING"}, []string{f.runState(later), f.runState(kept)})
}

func TestAPauseEndsNow(t *testing.T) {
	f := newTables(t)
	require.NoError(t, f.store.Declare(t.Context(), noon, []Declaration{declaration("job", "x")}))
	state := func() string {
		return f.text(`SELECT CONCAT_WS(' ', STATE, NEXT_FIRE_TIME, PAUSED_AT) FROM QRTZ_EXECUTE`)
	}
	active := state()
	f.within(func(tx *sqlx.Tx) error { return f.store.Resume(t.Context(), tx, at(5), "job", "x") })
	require.Equal(t, active, state(), "what is not paused stays")
	f.within(func(tx *sqlx.Tx) error { return f.store.Pause(t.Context(), tx, at(5), "job", "x") })
	require.Equal(t, at(5).UnixMilli(), f.count(`SELECT PAUSED_AT FROM QRTZ_EXECUTE WHERE STATE = 'PAUSED'`))
	f.within(func(tx *sqlx.Tx) error {
		return f.store.Resume(t.Context(), tx, at(9).Add(time.Millisecond), "job", "")
	})
	require.Equal(t, at(10).UnixMilli(), f.count(`SELECT NEXT_FIRE_TIME FROM QRTZ_EXECUTE WHERE STATE = 'EXECUTING' AND PAUSED_AT IS NULL`))

	f.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED', JOB_TYPE = 'CRON', CRON = 'nonsense'`)
	err := schema.InTx(t.Context(), f.DB, func(tx *sqlx.Tx) error { return f.store.Resume(t.Context(), tx, noon, "job", "") })
	require.ErrorContains(t, err, "CRON: ")
}

func TestSuggestions(t *testing.T) {
	names := []string{"send-invoices", "send-invoice", "report", "Report2", "x"}
	for name, want := range map[string]string{
		"send-invoics": `; did you mean "send-invoices" or "send-invoice"?`,
		"repotr":       `; did you mean "report" or "Report2"?`,
		"report2":      `; did you mean "report" or "Report2"?`,
		"something":    ``,
	} {
		require.Equal(t, want, suggest(name, names), name)
	}
	require.Empty(t, suggest("a", []string{"b", "c", "d", "e", "f", "g"}), "too many are none")
	for _, d := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "", 3}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 2}} {
		require.Equal(t, d.want, distance(d.a, d.b), d)
	}
}
