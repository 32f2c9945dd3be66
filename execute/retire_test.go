package execute

import (
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

func TestJobsThatAreNotDeclaredAnyMoreAreRetired(t *testing.T) {
	f := newTables(t)
	a, b, c := declaration("a", "x"), declaration("b", "x"), declaration("c")
	f.declare(noon, []Declaration{a, b, c})
	f.Exec(`INSERT INTO QRTZ_JOB (APPLICATION, NAME, JOB_CLASS) VALUES ('a', 'own', 'tick'), ('b', 'another app', 'tick')`)
	f.Exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, NAME, JOB_TYPE, STATE, REPEAT_INTERVAL) SELECT ID, 'a', 'own', 'SIMPLE', 'EXECUTING', 1000 FROM QRTZ_JOB WHERE NAME IN ('b', 'own')`)
	notDeclared := func(some ...Declaration) (names []string) {
		f.Within(func(tx *sqlx.Tx) (err error) {
			names, err = f.store.NotDeclared(t.Context(), tx, some)
			return err
		})
		return names
	}
	retire := func(names ...string) error {
		return f.store.db.InTx(t.Context(), func(tx *sqlx.Tx) error { return f.store.Retire(t.Context(), tx, names) })
	}
	require.Equal(t, []string{"b", "c"}, notDeclared(a))
	require.ErrorIs(t, retire("b", "nothing"), run.ErrNotFound)
	require.ErrorContains(t, retire("b", "own"), `job "own" was not declared by a program`)
	require.Contains(t, f.Text(jobs), "b tick own EXECUTING,x EXECUTING", "all or none")

	require.NoError(t, retire("b", "c"))
	require.Empty(t, notDeclared(a))
	require.Contains(t, f.Text(jobs), "b tick own EXECUTING,x COMPLETE", "what an operator added continues")
	f.declare(noon, []Declaration{b})
	require.Contains(t, f.Text(jobs), "b tick own EXECUTING,x EXECUTING", "declared again")
	require.Equal(t, []string{"b"}, notDeclared(a))
}
