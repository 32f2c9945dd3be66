package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A look for urgent runs goes by the run's own priority, or else that of its job, and reads some thousand rows at a time.
func TestUrgentRunsBehindABacklogAreFound(t *testing.T) {
	f := newTables(t)
	const many = urgentRows + 500
	f.Exec(`UPDATE QRTZ_JOB SET PRIORITY = -1 WHERE ID = ?`, f.Job)
	seq := `(WITH RECURSIVE N AS (SELECT 0 AS seq UNION ALL SELECT seq + 1 FROM N WHERE seq < 999) SELECT seq FROM N)`
	for n := 0; n < many; n += 500 {
		f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT) SELECT 'a', ?, ?, ? FROM `+seq+` S WHERE S.seq < 500`,
			f.Job, noon.UnixMilli(), noon.UnixMilli())
	}
	high := f.AddJob("tick")
	f.Exec(`UPDATE QRTZ_JOB SET PRIORITY = 1 WHERE ID = ?`, high)
	add := func(job int64, priority any) int64 {
		return f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT, PRIORITY) VALUES ('a', ?, ?, ?, ?)`,
			job, noon.UnixMilli(), noon.UnixMilli(), priority)
	}
	normal, urgent, lowered, later := add(f.Job, 0), add(high, nil), add(high, -1), add(f.Job, 1)
	f.Exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = ? WHERE ID = ?`, at(100).UnixMilli(), later)

	find := func(above Priority) (found []int64) {
		var place Place
		for range 5 {
			page, err := f.store.UrgentPage(t.Context(), []string{"tick"}, at(10), above, place)
			require.NoError(t, err)
			for _, r := range page.Runs {
				found = append(found, r.ID)
			}
			if place = page.Next; !page.More {
				require.True(t, place.IsFront())
				break
			}
			require.Empty(t, page.Runs, "they are behind the first page")
		}
		return found
	}
	require.Equal(t, []int64{urgent, normal}, find(PriorityLow))
	require.Equal(t, []int64{urgent}, find(PriorityNormal))

	f.Exec(`UPDATE QRTZ_JOB SET MAX_RUNNING = 1 WHERE ID = ?`, high)
	f.Exec(`UPDATE QRTZ_RUN SET PRIORITY = 1 WHERE ID = ?`, lowered)
	require.Equal(t, []int64{urgent, normal}, find(PriorityLow), "and their jobs' slots hold for them")

	all, err := f.store.PendingPage(t.Context(), []string{"tick"}, at(10), Place{})
	require.NoError(t, err)
	require.Equal(t, PriorityLow, all.Runs[0].Priority)
}

// Where there are few jobs, servers like to read all of them first, and then sort all that is pending.
func TestALookSortsNothing(t *testing.T) {
	f := newTables(t)
	for range 3 {
		f.AddJob("tick")
	}
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT)
		SELECT 'a', ?, ?, ? + seq FROM (WITH RECURSIVE N AS (SELECT 0 AS seq UNION ALL SELECT seq + 1 FROM N WHERE seq < 999) SELECT seq FROM N) S`,
		f.Job, noon.UnixMilli(), noon.UnixMilli())
	f.Exec(`ANALYZE TABLE QRTZ_RUN, QRTZ_JOB`)
	late := at(10).UnixMilli()
	rows, err := f.store.db.DB.Queryx(`EXPLAIN `+fmt.Sprintf(strings.ReplaceAll(pendingSQL, `IN (?)`, `IN (?, ?)`), unweighed, byAgeSQL),
		"a", -1, 0, -1, late, 10, "a", "tick", "mail", "a")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		plan := map[string]any{}
		require.NoError(t, rows.MapScan(plan))
		require.NotContains(t, fmt.Sprintf("%s", plan["Extra"]), "filesort")
	}
	require.NoError(t, rows.Err())
}
