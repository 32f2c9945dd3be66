package execute

import (
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const jobs = `SELECT COALESCE(GROUP_CONCAT(J.ID - 1, ' ', J.NAME, ' ', J.JOB_CLASS, ' ', (SELECT GROUP_CONCAT(E.NAME, ' ', E.STATE ORDER BY E.NAME) FROM QRTZ_EXECUTE E WHERE E.PID = J.ID)
	ORDER BY J.ID SEPARATOR '; '), '') FROM QRTZ_JOB J WHERE J.NAME IS NOT NULL`

func TestARenamedJobKeepsItsRow(t *testing.T) {
	f := newTables(t)
	before, after := declaration("old", "x"), declaration("new", "x", "y")
	after.Was, after.Class = []string{"older", "old"}, "tock"
	f.declare(noon, []Declaration{before})
	f.Exec(`UPDATE QRTZ_JOB SET ATTEMPTS = 7 WHERE NAME = 'old'`)
	require.Equal(t, "1 old tick x EXECUTING", f.Text(jobs))
	require.Len(t, f.declare(noon, []Declaration{after}), 1, "what an operator changed stays")
	require.Equal(t, "1 new tock x EXECUTING,y EXECUTING", f.Text(jobs))

	// An earlier version of the program starts again, and later this one.
	f.declare(noon, []Declaration{before})
	require.Equal(t, "1 new tick x EXECUTING,y COMPLETE", f.Text(jobs))
	f.declare(noon, []Declaration{after})
	require.Equal(t, "1 new tock x EXECUTING,y EXECUTING", f.Text(jobs))
	for _, name := range []string{"old", "new"} {
		f.Within(func(tx *sqlx.Tx) error {
			id, err := f.store.JobNamed(t.Context(), tx, name)
			require.Equal(t, f.Count(`SELECT ID FROM QRTZ_JOB WHERE NAME = 'new'`), id)
			return err
		})
	}

	after.Was = nil // the name is free again
	f.declare(noon, []Declaration{after})
	f.declare(noon, []Declaration{before})
	require.Equal(t, "1 new tock x EXECUTING,y EXECUTING; 2 old tick x EXECUTING", f.Text(jobs))
	after.Was = []string{"old"} // both are there: no fire of one runs beside that of the other
	require.Equal(t, []string{
		`job "new": there is a job "old", too, its former name; the schedules of that one are COMPLETE now`, `job "new": ATTEMPTS is "7", declared "1"`,
	}, says(f.declare(noon, []Declaration{after})))
	require.Equal(t, "1 new tock x EXECUTING,y EXECUTING; 2 old tick x COMPLETE", f.Text(jobs))
	require.Len(t, f.declare(noon, []Declaration{after}), 1, "it is said once")

	_, err := f.store.Declare(t.Context(), noon, []Declaration{after, before})
	require.ErrorContains(t, err, `job "new": "old", its former name, is declared as another job's`)
	after.Was = []string{"new"}
	require.ErrorContains(t, after.Validate(), "must name other jobs")
}

func TestTheCaseOfANameMayChange(t *testing.T) {
	f := newTables(t)
	f.declare(noon, []Declaration{declaration("Report", "x")})
	d := declaration("report", "x")
	d.Was = []string{"Report"}
	for range 2 {
		require.Empty(t, f.declare(noon, []Declaration{d}))
		require.Equal(t, "1 report tick x EXECUTING", f.Text(jobs))
	}
}

func TestNodesThatRenameAtOnceRenameOnce(t *testing.T) {
	f := newTables(t)
	f.declare(noon, []Declaration{declaration("old", "x")})
	d := declaration("new", "x")
	d.Was = []string{"old"}
	var starts sync.WaitGroup
	for range 8 {
		starts.Go(func() {
			_, err := f.store.Declare(t.Context(), noon, []Declaration{d})
			assert.NoError(t, err)
		})
	}
	starts.Wait()
	require.Equal(t, "1 new tick x EXECUTING", f.Text(jobs))
}
