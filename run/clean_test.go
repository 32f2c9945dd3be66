package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

// More runs than one page, of two apps and in all states: what goes is what was asked for, once, and it is old.
func TestClean(t *testing.T) {
	f := newTables(t)
	db := f.store.db
	count := func(query string) int { return int(f.Count(query)) }
	now, err := schema.Now(t.Context(), db.DB)
	require.NoError(t, err)
	for _, state := range []State{Pending, Running, Succeeded, Failed, Lost, Cancelled, Skipped} {
		for _, finished := range []any{now.Add(-2 * time.Hour).UnixMilli(), now.UnixMilli(), nil} {
			f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, STATE, FINISHED_AT) VALUES ('a', 1, ?, ?), ('b', 1, ?, ?)`, state, finished, state, finished)
		}
	}
	for count(`SELECT COUNT(*) FROM QRTZ_RUN`) < 3*cleanPage {
		f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, STATE, FINISHED_AT) SELECT APPLICATION, JOB_ID, STATE, FINISHED_AT FROM QRTZ_RUN`)
	}
	all := count(`SELECT COUNT(*) FROM QRTZ_RUN`)
	each := all / 42 // of one app and state: old, new, and without a time, which is new

	looked := 0
	c := Cleaning{OlderThan: time.Hour, App: "a", State: Lost, DryRun: true, Progress: func(n, _ int) { looked = n }}
	found, err := Clean(t.Context(), db, c)
	require.NoError(t, err)
	require.Equal(t, map[State]int{Lost: each}, found)
	require.Equal(t, all, looked)
	require.Equal(t, all, count(`SELECT COUNT(*) FROM QRTZ_RUN`), "a dry run")

	c.DryRun = false
	_, err = Clean(t.Context(), db, c)
	require.NoError(t, err)
	require.Equal(t, all-each, count(`SELECT COUNT(*) FROM QRTZ_RUN`))
	found, err = Clean(t.Context(), db, Cleaning{OlderThan: time.Hour})
	require.NoError(t, err)
	require.Equal(t, map[State]int{Succeeded: 2 * each, Failed: 2 * each, Lost: each, Cancelled: 2 * each, Skipped: 2 * each}, found)
	require.Equal(t, 4*each, count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE FINISHED_AT < `+schema.NowMillisSQL+` - 3600000 AND STATE IN ('PENDING', 'RUNNING')`))
	require.Equal(t, all-10*each, count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}
