package execute

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/tabletest"
)

func TestGlance(t *testing.T) {
	f := newTables(t)
	f.Join("n1")
	id := f.Add()
	look := Look{NodeID: "n1", Classes: []string{"tick"}, From: at(-60), Until: at(-1), Now: noon, Since: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}
	glance := func() Glance {
		g, err := f.store.Glance(t.Context(), look)
		require.NoError(t, err)
		return g
	}
	quiet := Glance{AppOn: true, NodeOn: true, Changed: num(0)}
	check := func(what string, expect func(*Glance)) {
		t.Helper()
		g, want := glance(), quiet
		require.False(t, g.ChangedAt().IsZero())
		g.Changed = num(0)
		expect(&want)
		require.Equal(t, want, g, what)
	}
	check("nothing", func(*Glance) {})
	for _, c := range []struct {
		do, undo string
		expect   func(*Glance)
	}{
		{tabletest.NodeOff, `UPDATE QRTZ_NODE SET STATE = 'Y'`, func(g *Glance) { g.NodeOn = false }},
		{tabletest.AppOff, `UPDATE QRTZ_APP SET STATE = 'Y'`, func(g *Glance) { g.AppOn = false }},
		{`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = NEXT_FIRE_TIME - 1000`, `UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = START_TIME`, func(g *Glance) { g.Overdue = true }},
		{`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = NEXT_FIRE_TIME - 60001`, `UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = START_TIME`, func(*Glance) {}},
		{`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = NULL`, `UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = START_TIME`, func(g *Glance) { g.New = true }},
		{`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = -1`, `UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = START_TIME`, func(g *Glance) { g.New = true }},
		{`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED'`, `UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING'`, func(g *Glance) { g.Paused = true }},
		{`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME) SELECT 'a', ID, 0 FROM QRTZ_JOB`, `DELETE FROM QRTZ_RUN`, func(g *Glance) { g.Pending = true }},
	} {
		f.Exec(c.do)
		check(c.do, c.expect)
		f.Exec(c.undo)
		check(c.undo, func(*Glance) {})
	}
	f.Exec(`INSERT INTO QRTZ_EXECUTE (PID, JOB_TYPE, STATE, CHANGED_AT) VALUES (?, 'SIMPLE', 'INIT', '2020-01-01')`, f.Job)
	check("an execute that names no app", func(g *Glance) { g.WithoutApp = true })

	before := glance().ChangedAt()
	f.Exec(`UPDATE QRTZ_EXECUTE SET CHANGED_AT = '2020-01-01'`)
	f.claim(f.Join("n1"), 1, f.read(id))
	require.True(t, glance().ChangedAt().Before(before), "a claim is no change")
	look.Classes = nil
	g := glance()
	require.False(t, g.Overdue || g.Pending || g.New)
}

// A glance looks at few of the runs that are pending. Behind many that are not for this node, it is for a look to tell.
func TestAGlanceLooksAtFewPendingRuns(t *testing.T) {
	f := newTables(t)
	f.Join("n1")
	other := f.AddJob("other")
	add := func(job int64, n int) {
		for range n {
			f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT) VALUES ('a', ?, ?, ?)`, job, at(-20).UnixMilli(), at(-20).UnixMilli())
		}
	}
	pending := func() bool {
		g, err := f.store.Glance(t.Context(), Look{NodeID: "n1", Classes: []string{"tick"}, From: at(-60), Until: at(-1), Now: noon, Since: noon})
		require.NoError(t, err)
		require.True(t, g.AppOn && g.NodeOn)
		return g.Pending
	}
	add(other, glancedRuns-2)
	require.False(t, pending())
	add(f.Job, 1)
	require.True(t, pending())
	f.Exec(`DELETE FROM QRTZ_RUN WHERE JOB_ID = ?`, f.Job)
	add(other, 1)
	require.False(t, pending())
	add(other, 1)
	require.True(t, pending())
}

// However many runs the jobs have had: a glance goes by what is pending.
func TestAGlanceDoesNotLookThroughTheHistory(t *testing.T) {
	f := newTables(t)
	for range 3 {
		f.AddJob("tick")
	}
	const runs = `INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, STATE, FIRE_TIME, AVAILABLE_AT)
		SELECT 'a', ?, ?, ?, ? FROM (WITH RECURSIVE N AS (SELECT 0 AS seq UNION ALL SELECT seq + 1 FROM N WHERE seq < 999) SELECT seq FROM N) S`
	for _, state := range []string{"SUCCEEDED", "PENDING", "PENDING"} {
		f.Exec(runs, f.Job, state, noon.UnixMilli(), noon.UnixMilli())
	}
	f.Exec(`ANALYZE TABLE QRTZ_RUN, QRTZ_JOB`)
	rows, err := f.store.db.DB.Queryx(`EXPLAIN `+strings.ReplaceAll(glanceSQL, `IN (?)`, `IN ('tick')`),
		"a", "a", "n1", "a", 0, 0, "a", "a", "a", "a", at(10).UnixMilli(), 9, "a", at(10).UnixMilli(), 10, "a", 0, "a")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		plan := map[string]any{}
		require.NoError(t, rows.MapScan(plan))
		if fmt.Sprintf("%s", plan["table"]) == "QRTZ_RUN" {
			require.Equal(t, "QRTZ_RUN_STATE", fmt.Sprintf("%s", plan["key"]))
		}
	}
	require.NoError(t, rows.Err())
}
