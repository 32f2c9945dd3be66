package execute

import (
	"slices"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"
)

func TestOverdueNewAndBroken(t *testing.T) {
	f := newTables(t)
	first, second := f.add(), f.add()
	f.exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = ? WHERE ID = ?`, at(-5).UnixMilli(), second)
	other := f.addTo(f.addJob("other"))
	ids := func(all []*Execute, err error) (ids []int64) {
		require.NoError(t, err)
		for _, e := range all {
			ids = append(ids, e.ID)
		}
		return ids
	}
	overdue := func(state State, from, until time.Time, limit int, classes ...string) []int64 {
		return ids(f.store.Overdue(t.Context(), state, classes, from, until, limit))
	}
	require.Equal(t, []int64{second, first}, overdue(Executing, at(-5), noon, 10, "tick"), "the oldest first, both ends included")
	require.Equal(t, []int64{second}, overdue(Executing, at(-5), noon, 1, "tick"))
	require.Equal(t, []int64{first}, overdue(Executing, at(-4), noon, 10, "tick"))
	require.Empty(t, overdue(Executing, at(-4), at(-1), 10, "tick"))
	require.Empty(t, overdue(Paused, at(-5), noon, 10, "tick"))
	require.Empty(t, overdue(Executing, at(-5), noon, 10))
	require.Empty(t, ids(f.store.New(t.Context(), []string{"tick"}, 10)))

	f.exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = 0 WHERE ID = ?`, first)
	f.exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = NULL WHERE ID = ?`, second)
	require.ElementsMatch(t, []int64{first, second}, ids(f.store.New(t.Context(), []string{"tick"}, 10)))
	require.Empty(t, ids(f.store.New(t.Context(), []string{"nothing"}, 10)))

	f.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'ERROR', STATE_REASON = 'no' WHERE ID <> ?`, first)
	f.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'ERROR' WHERE ID = ?`, first) // by a person: theirs to heal
	require.Equal(t, []int64{second, other}, ids(f.store.Broken(t.Context(), 0, 10)))
	require.Equal(t, []int64{other}, ids(f.store.Broken(t.Context(), second, 10)))
}

func TestDueReadsOnlyWhatIsWorthALook(t *testing.T) {
	f := newTables(t)
	f.addMany(2*duePage + 10)
	f.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE ID MOD 10 = 0`)
	var asked []int64
	even, err := f.store.Due(t.Context(), time.UnixMilli(1), noon, func(id int64) bool { return id%2 == 0 }, func(id int64, class string) bool {
		asked = append(asked, id)
		return class == "tick" && id%3 == 0
	})
	require.NoError(t, err)
	want := f.due(noon)
	want = slices.DeleteFunc(want, func(e *Execute) bool { return e.ID%6 != 0 })
	require.NotEmpty(t, want)
	require.ElementsMatch(t, want, even)
	require.False(t, slices.ContainsFunc(asked, func(id int64) bool { return id%2 != 0 || id%10 == 0 }))
}

func TestPausedAfter(t *testing.T) {
	f := newTables(t)
	f.addMany(2)
	paused := f.addTo(f.addJob("other"))
	f.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE ID = ?`, paused)
	all, err := f.store.PausedAfter(t.Context(), Cursor{Next: 1}, noon, 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, paused, all[0].ID)
	all, err = f.store.PausedAfter(t.Context(), Cursor{Next: 1}, at(-1), 10)
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestAPauseIsMarkedAndItsEndIsKnown(t *testing.T) {
	f := newTables(t)
	id := f.add()
	require.Zero(t, f.read(id).ResumedAt)
	f.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED'`)
	changed := f.text(`SELECT CAST(CHANGED_AT AS CHAR) FROM QRTZ_EXECUTE`)
	require.NoError(t, f.store.MarkPaused(t.Context()))
	require.Equal(t, changed, f.text(`SELECT CAST(CHANGED_AT AS CHAR) FROM QRTZ_EXECUTE WHERE PAUSED_AT = CAST(UNIX_TIMESTAMP(CHANGED_AT) * 1000 AS SIGNED)`))
	require.Zero(t, f.read(id).ResumedAt, "it still is")
	moved, err := f.store.Move(t.Context(), f.join("n1"), Paused, []Move{f.read(id).MoveTo(at(5))})
	require.NoError(t, err)
	require.Len(t, moved.Moved, 1)
	require.Equal(t, int64(1), f.count(`SELECT PAUSED_AT IS NOT NULL FROM QRTZ_EXECUTE`), "moving it on while paused forgets no pause")

	f.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING'`)
	e := f.read(id)
	require.Equal(t, f.count(`SELECT CAST(UNIX_TIMESTAMP(CHANGED_AT) * 1000 AS SIGNED) FROM QRTZ_EXECUTE`), e.ResumedAt.UnixMilli())
	resumed, err := f.store.Move(t.Context(), f.join("n1"), Executing, []Move{e.MoveTo(at(7))})
	require.NoError(t, err)
	require.Zero(t, resumed.Moved[0].ResumedAt)
	require.Zero(t, f.read(id).ResumedAt, "only once")
}

func TestAdopt(t *testing.T) {
	f := newTables(t)
	ours, theirs := f.add(), f.add()
	f.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS) VALUES (77, 'b', 'tick')`)
	f.exec(`UPDATE QRTZ_EXECUTE SET APPLICATION = NULL, PID = IF(ID = ?, 77, PID)`, theirs)
	require.NoError(t, f.store.Adopt(t.Context()))
	require.Equal(t, ours, f.count(`SELECT ID FROM QRTZ_EXECUTE WHERE APPLICATION = 'a'`))
	require.Equal(t, theirs, f.count(`SELECT ID FROM QRTZ_EXECUTE WHERE APPLICATION IS NULL`))
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE APPLICATION = 'a' AND CHANGED_AT > '2025-01-01'`), "so that a sweep sees it")
}

func TestJobStatesFollowTheirExecutes(t *testing.T) {
	f := newTables(t)
	for _, c := range []struct {
		want   string
		states []string
	}{
		{"ERROR", []string{"EXECUTING", "PAUSED", "ERROR", "COMPLETE", "INIT"}},
		{"EXECUTING", []string{"COMPLETE", "PAUSED", "EXECUTING", "INIT"}},
		{"PAUSED", []string{"COMPLETE", "PAUSED", "INIT"}},
		{"COMPLETE", []string{"COMPLETE", "COMPLETE"}},
		{"INIT", []string{"COMPLETE", "INIT"}},
	} {
		job := f.addJob("tick")
		for _, state := range c.states {
			f.exec(`UPDATE QRTZ_EXECUTE SET STATE = ?, CHANGED_AT = '2024-01-01' WHERE ID = ?`, state, f.addTo(job))
		}
		f.exec(`UPDATE QRTZ_JOB SET STATE = 'INIT' WHERE ID = ?`, f.job)
		f.exec(`UPDATE QRTZ_APP SET DERIVED_TO = ?, DERIVED_ID = 0`, time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
		f.derive()
		require.Equal(t, "EXECUTING", f.text(`SELECT STATE FROM QRTZ_JOB WHERE ID = ?`, job), "all that is older has been derived")
		f.exec(`UPDATE QRTZ_APP SET DERIVED_TO = NULL`)
		f.derive()
		require.Equal(t, c.want, f.text(`SELECT STATE FROM QRTZ_JOB WHERE ID = ?`, job))
		require.Equal(t, "INIT", f.text(`SELECT STATE FROM QRTZ_JOB WHERE ID = ?`, f.job), "a job without executes is left alone")
	}
}

// derive derives the states of jobs until there is no more to do.
func (f *tables) derive() {
	f.t.Helper()
	for more := true; more; {
		var err error
		more, err = f.store.DeriveJobStates(f.t.Context())
		require.NoError(f.t, err)
	}
}

// A walk that is cut off goes on where it came to, on another node, too, though all rows say the same time.
func TestDerivingJobStatesGoesOn(t *testing.T) {
	f := newTables(t)
	const n = derivePages*jobPage + 300
	f.addJobs("a", n)
	f.exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_INTERVAL, CHANGED_AT)
		SELECT ID, 'a', 'SIMPLE', 'EXECUTING', 1000, '2020-01-01' FROM QRTZ_JOB WHERE ID > 1000`)
	derived := func() int64 { return f.count(`SELECT COUNT(*) FROM QRTZ_JOB WHERE ID > 1000 AND STATE = 'EXECUTING'`) }
	more, err := f.store.DeriveJobStates(t.Context())
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, int64(derivePages*jobPage), derived())
	f.exec(`UPDATE QRTZ_JOB SET STATE = 'INIT' WHERE ID = 1001`)
	more, err = newStore(f.DB).DeriveJobStates(t.Context())
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, int64(n-1), derived(), "what was done is not done again")

	noted := f.text(`SELECT CONCAT(DERIVED_TO, ' ', DERIVED_ID) FROM QRTZ_APP`)
	f.derive()
	require.Equal(t, noted, f.text(`SELECT CONCAT(DERIVED_TO, ' ', DERIVED_ID) FROM QRTZ_APP`), "at rest nothing is written")
	f.exec(`UPDATE QRTZ_APP SET DERIVED_TO = 9223372036854775807`)
	f.derive()
	require.Equal(t, int64(n), derived(), "a time that is still to come was written by SQL")
}

// addJobs adds n jobs of an app, with ids from 1001 on.
func (f *tables) addJobs(app string, n int) {
	f.t.Helper()
	const digits = `(SELECT 0 AS D UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
		UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)`
	f.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS)
		SELECT 1001 + N.I, ?, 'tick' FROM (SELECT A.D + 10 * B.D + 100 * C.D + 1000 * E.D + 10000 * G.D AS I
		  FROM `+digits+` A, `+digits+` B, `+digits+` C, `+digits+` E, `+digits+` G) N WHERE N.I < ?`, app, n)
}

// A job that somebody has locked is left alone, and is done when it is free; the others do not wait.
func TestDerivingJobStatesPassesOverWhatIsLocked(t *testing.T) {
	f := newTables(t)
	f.SetMaxOpenConns(2)
	f.impatient()
	for id := 1001; id < 1100; id++ {
		f.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS) VALUES (?, 'a', 'tick')`, id)
		f.exec(`UPDATE QRTZ_EXECUTE SET CHANGED_AT = '2020-01-01' WHERE ID = ?`, f.addTo(int64(id)))
	}
	tx := f.locking(`SELECT ID FROM QRTZ_JOB WHERE ID = 1050 FOR UPDATE`)
	began := time.Now()
	f.derive()
	require.Less(t, time.Since(began), 5*time.Second)
	initial := func() string {
		return f.text(`SELECT GROUP_CONCAT(ID) FROM QRTZ_JOB WHERE ID > 1000 AND STATE = 'INIT'`)
	}
	require.Equal(t, "1050", initial())
	require.NoError(t, tx.Rollback())
	f.derive()
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_JOB WHERE ID > 1000 AND STATE = 'INIT'`))
}

// impatient has the store wait for locks only a little, as the engine's connections do.
func (f *tables) impatient() {
	f.t.Helper()
	config, err := mysql.ParseDSN(f.dsn)
	require.NoError(f.t, err)
	config.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
	db, err := sqlx.Open("mysql", config.FormatDSN())
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, db.Close()) })
	f.store = newStore(db)
}

// locking is a transaction of somebody else.
func (f *tables) locking(query string, args ...any) *sqlx.Tx {
	f.t.Helper()
	tx, err := f.BeginTxx(f.t.Context(), nil)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = tx.Rollback() })
	_, err = tx.ExecContext(f.t.Context(), query, args...)
	require.NoError(f.t, err)
	return tx
}

func TestGlance(t *testing.T) {
	f := newTables(t)
	f.join("n1")
	id := f.add()
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
		{nodeOff, `UPDATE QRTZ_NODE SET STATE = 'Y'`, func(g *Glance) { g.NodeOn = false }},
		{appOff, `UPDATE QRTZ_APP SET STATE = 'Y'`, func(g *Glance) { g.AppOn = false }},
		{`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = NEXT_FIRE_TIME - 1000`, `UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = START_TIME`, func(g *Glance) { g.Overdue = true }},
		{`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = NEXT_FIRE_TIME - 60001`, `UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = START_TIME`, func(*Glance) {}},
		{`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = NULL`, `UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = START_TIME`, func(g *Glance) { g.New = true }},
		{`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = -1`, `UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = START_TIME`, func(g *Glance) { g.New = true }},
		{`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED'`, `UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING'`, func(g *Glance) { g.Paused = true }},
		{`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME) SELECT 'a', ID, 0 FROM QRTZ_JOB`, `DELETE FROM QRTZ_RUN`, func(g *Glance) { g.Pending = true }},
	} {
		f.exec(c.do)
		check(c.do, c.expect)
		f.exec(c.undo)
		check(c.undo, func(*Glance) {})
	}
	f.exec(`INSERT INTO QRTZ_EXECUTE (PID, JOB_TYPE, STATE, CHANGED_AT) VALUES (?, 'SIMPLE', 'INIT', '2020-01-01')`, f.job)
	check("an execute that names no app", func(g *Glance) { g.WithoutApp = true })

	before := glance().ChangedAt()
	f.exec(`UPDATE QRTZ_EXECUTE SET CHANGED_AT = '2020-01-01'`)
	f.claim(f.join("n1"), 1, f.read(id))
	require.True(t, glance().ChangedAt().Before(before), "a claim is no change")
	look.Classes = nil
	g := glance()
	require.False(t, g.Overdue || g.Pending || g.New)
}
