package execute

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

func TestTheListsSayWhatDiffersFromWhatIsDeclared(t *testing.T) {
	f := newTables(t)
	on := schema.Tables{DB: f.DB, Prefix: schema.DefaultPrefix}.On(f.DB)
	handled := node.NewHandled(on, time.Minute)
	job := func() []Difference {
		id := f.Count(`SELECT ID FROM QRTZ_JOB WHERE NAME = 'j'`)
		one, err := FindJob(t.Context(), on, handled, "a", id)
		require.NoError(t, err)
		all, err := ListJobs(t.Context(), on, handled, JobFilter{App: "a", Limit: 10})
		require.NoError(t, err)
		listed := all.Rows[slices.IndexFunc(all.Rows, func(j JobRecord) bool { return j.ID == id })].Differs
		require.Subset(t, one.Differs, listed)
		names := []string{}
		for _, d := range listed {
			names = append(names, d.Column)
		}
		require.Equal(t, strings.Join(names, ", "), f.Text(`SELECT COALESCE(DIFFERS, '') FROM QRTZ_V_JOB WHERE ID = ?`, id), "the view says the same")
		return one.Differs
	}
	schedule := func(name string) []Difference {
		all, err := List(t.Context(), on, handled, Filter{App: "a", Limit: 10})
		require.NoError(t, err)
		return all.Rows[slices.IndexFunc(all.Rows, func(e Record) bool { return *e.Name == name })].Differs
	}
	d := declaration("j", "x", nastyName)
	d.Data, d.Description, d.Class = []byte(nasty), nastyName[:38], nastyName
	d.Schedules[0].Data = []byte(`{"n":1}`)
	d.Schedules[1].Spec = Spec{Kind: Cron, Cron: "0 0 2 * * ?", Zone: "Europe/Berlin", Repeat: 7, Start: noon, End: at(1_000_000)}
	f.declare(noon, []Declaration{d})
	require.Empty(t, job())
	require.Empty(t, schedule("x"))
	require.Empty(t, schedule(nastyName))

	for column, value := range map[string]any{
		"JOB_CLASS": "TICK", "JOB_DATA": nil, "JOB_DESCRIPTION": nil, "RECOVERY": 1, "OVERLAP": "SKIP", "QUEUE_LIMIT": 11, "RUN_TIMEOUT": 1, "ATTEMPTS": 2,
		"BACKOFF": 0, "MAX_BACKOFF": 1, "HISTORY": "NONE", "KEEP_FOR": 0, "KEEP_RUNS": 1, "MAX_RUNNING": 3, "PRIORITY": -1,
	} {
		f.Exec(`UPDATE QRTZ_JOB SET `+column+` = ? WHERE NAME = 'j'`, value)
		require.Len(t, job(), 1, column)
		require.Equal(t, column, job()[0].Column)
		require.Equal(t, column, f.declare(noon, []Declaration{d})[0].Column)
		d.Reset = true
		f.declare(noon, []Declaration{d})
		d.Reset = false
	}
	f.Exec(`UPDATE QRTZ_EXECUTE SET JOB_DATA = NULL WHERE NAME = 'x'`)
	f.Exec(`UPDATE QRTZ_EXECUTE SET CRON = '0 0 3 * * ?', END_TIME = -1 WHERE NAME = ?`, nastyName)
	require.Equal(t, []Difference{{Column: "JOB_DATA", Declared: `{"n":1}`}}, schedule("x"))
	require.Equal(t, `[CRON is "0 0 3 * * ?", declared "0 0 2 * * ?" END_TIME is "-1", declared "1907545600000"]`, fmt.Sprint(schedule(nastyName)))
	f.Exec(`UPDATE QRTZ_JOB SET JOB_DATA = ?, ATTEMPTS = 9 WHERE NAME = 'j'`, strings.Repeat("x", 300))
	f.Exec(`DELETE FROM QRTZ_EXECUTE WHERE NAME = 'x'`)
	require.Len(t, job(), 3)
	require.Equal(t, `schedule "x" is declared, and deleted`, job()[2].String())
	for _, nonsense := range []any{nil, "[", "{}", `{"job": 3}`, `[1]`} {
		f.Exec(`UPDATE QRTZ_JOB SET DECLARED = ? WHERE NAME = 'j'`, nonsense)
		require.Empty(t, job())
		require.Empty(t, schedule(nastyName))
	}
}
