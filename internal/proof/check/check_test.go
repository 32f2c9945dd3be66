package check_test

import (
	"database/sql"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/proof/check"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// t0 is when the schedules of these tests begin: long enough ago that all has happened.
var t0 = time.Now().Truncate(time.Minute).Add(-time.Hour)

func at(seconds float64) int64 { return t0.UnixMilli() + int64(seconds*1000) }

// world is a database in which execute 1 fires every second from t0, five times, on node-1.
type world struct {
	t  *testing.T
	db *sql.DB
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{t, testdb.New(t)}
	_, err := schema.Up(t.Context(), w.db, schema.DefaultPrefix)
	require.NoError(t, err)
	w.exec(`INSERT INTO QRTZ_APP (APPLICATION, STATE) VALUES ('a', 'Y')`)
	w.exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE) VALUES ('a', 'node-1', 'h', 'Y', 0, 7)`)
	w.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, STATE, JOB_CLASS) VALUES (1, 'a', 'COMPLETE', 'noop')`)
	w.exec(`INSERT INTO QRTZ_EXECUTE (ID, PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, TIME_TRIGGERED, START_TIME)
		VALUES (1, 1, 'a', 'SIMPLE', 'COMPLETE', 5, 1000, 5, ?)`, at(0))
	for s := range 5 {
		w.run(at(float64(s)), 1, "SUCCEEDED", 3)
	}
	return w
}

func (w world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), query, args...)
	require.NoError(w.t, err)
}

// run inserts a run of execute 1 by instance 7 of node-1.
func (w world) run(fire int64, attempt int, state string, late int64) {
	w.t.Helper()
	w.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, ATTEMPT, STATE, HOST_IP, INSTANCE, CLAIMED_AT, STARTED_AT)
		VALUES ('a', 1, 1, ?, ?, ?, 'node-1', 7, ?, ?)`, fire, attempt, state, fire+late, fire+late)
}

func (w world) check(change ...func(*check.Options)) check.Report {
	w.t.Helper()
	opts := check.Options{App: "a", From: t0, Until: t0.Add(30 * time.Minute)}
	for _, c := range change {
		c(&opts)
	}
	r, err := check.Run(w.t.Context(), w.db, "QRTZ_", opts)
	require.NoError(w.t, err)
	w.t.Log(r)
	return r
}

func TestAllIsWell(t *testing.T) {
	r := newWorld(t).check()
	assert.True(t, r.Ok())
	assert.Equal(t, []int{1, 5, 5, 0, 0}, []int{r.Executes, r.Expected, r.Run, r.Skipped, r.Unscheduled})
	assert.Equal(t, 3*time.Millisecond, r.P50)
	assert.Equal(t, 3*time.Millisecond, r.Max)
	assert.Empty(t, r.Offenders)
}

// Each case breaks the world in one way.
func TestViolationsAreFound(t *testing.T) {
	start := func(fire, started float64, node string) check.Start {
		return check.Start{ExecuteID: 1, FireTime: time.UnixMilli(at(fire)), StartedAt: time.UnixMilli(at(started)), Node: node}
	}
	for name, c := range map[string]struct {
		breakIt []string // statements; ? is the time of the third fire
		record  []check.Start
		want    func(check.Report) int
		says    string
	}{
		"missing: no row": {
			breakIt: []string{`DELETE FROM QRTZ_RUN WHERE FIRE_TIME = ?`},
			want:    func(r check.Report) int { return r.Missing }, says: "moved on without it",
		},
		"missing: skipped for fewer than there are": {
			breakIt: []string{`UPDATE QRTZ_RUN SET STATE = 'SKIPPED', LAST_FIRE_TIME = FIRE_TIME + 1000, FIRE_COUNT = 1 WHERE FIRE_TIME = ?`, `DELETE FROM QRTZ_RUN WHERE FIRE_TIME = ? + 1000`},
			want:    func(r check.Report) int { return r.Missing }, says: "SKIPPED for 1 fires",
		},
		"missing: no handler did it": {
			record: []check.Start{start(0, 0, "node-1"), start(1, 1, "node-1"), start(2, 2, "node-1"), start(3, 3, "node-1")},
			want:   func(r check.Report) int { return r.Missing }, says: "no handler says",
		},
		"double: by the record": {
			breakIt: []string{`UPDATE QRTZ_RUN SET STATE = 'FAILED' WHERE FIRE_TIME <> ?`},
			record:  []check.Start{start(2, 2, "node-1"), start(2, 2.5, "node-1")},
			want:    func(r check.Report) int { return r.Double }, says: "started 2 times",
		},
		"double: by the runs": {
			breakIt: []string{`ALTER TABLE QRTZ_RUN DROP KEY QRTZ_RUN_FIRE`, `INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, HOST_IP, INSTANCE) VALUES ('a', 1, 1, ?, 'SUCCEEDED', 'node-1', 7)`},
			want:    func(r check.Report) int { return r.Double }, says: "both are attempt 1",
		},
		"early: by the runs": {
			breakIt: []string{`UPDATE QRTZ_RUN SET STARTED_AT = FIRE_TIME - 1 WHERE FIRE_TIME = ?`},
			want:    func(r check.Report) int { return r.Early }, says: "1 ms early",
		},
		"early: by the record": {
			breakIt: []string{`UPDATE QRTZ_RUN SET STATE = 'FAILED' WHERE FIRE_TIME <> ?`},
			record:  []check.Start{start(2, 1.999, "node-1")},
			want:    func(r check.Report) int { return r.Early }, says: "by its own account",
		},
		"no node: no row has that id": {
			breakIt: []string{`UPDATE QRTZ_RUN SET HOST_IP = 'ghost' WHERE FIRE_TIME = ?`},
			want:    func(r check.Report) int { return r.NoNode }, says: `"ghost"`,
		},
		"no node: no instance": {
			breakIt: []string{`UPDATE QRTZ_RUN SET INSTANCE = NULL WHERE FIRE_TIME = ?`},
			want:    func(r check.Report) int { return r.NoNode }, says: "unknown",
		},
		"no node: another one did it": {
			breakIt: []string{`UPDATE QRTZ_RUN SET STATE = 'FAILED' WHERE FIRE_TIME <> ?`},
			record:  []check.Start{start(2, 2, "node-2")},
			want:    func(r check.Report) int { return r.NoNode }, says: `"node-2" started it`,
		},
		"no run: nothing on record": {
			breakIt: []string{`UPDATE QRTZ_RUN SET STATE = 'FAILED' WHERE FIRE_TIME > ?`, `UPDATE QRTZ_RUN SET STATE = 'FAILED' WHERE FIRE_TIME <= ?`},
			record:  []check.Start{start(2.5, 2.5, "node-1")},
			want:    func(r check.Report) int { return r.NoRun }, says: "no run is on record",
		},
		"no run: recorded as skipped": {
			breakIt: []string{`UPDATE QRTZ_RUN SET STATE = IF(FIRE_TIME = ?, 'SKIPPED', 'FAILED'), STARTED_AT = NULL`},
			record:  []check.Start{start(2, 2, "node-1")},
			want:    func(r check.Report) int { return r.NoRun }, says: "is SKIPPED",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, statement := range c.breakIt {
				var args []any
				for _, b := range statement {
					if b == '?' {
						args = append(args, at(2))
					}
				}
				w.exec(statement, args...)
			}
			r := w.check(func(o *check.Options) { o.Record = told(c.record) })
			assert.False(t, r.Ok())
			assert.Equal(t, 1, c.want(r), "how many")
			assert.Equal(t, 1, r.Double+r.Missing+r.Early+r.NoNode+r.NoRun, "nothing else")
			assert.Contains(t, r.String(), c.says)
		})
	}
}

func TestOutcomesAreCounted(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'LOST' WHERE FIRE_TIME = ?`, at(0))
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'RUNNING', INSTANCE = 6, STARTED_AT = NULL WHERE FIRE_TIME = ?`, at(1)) // an earlier life of node-1
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'RUNNING', STARTED_AT = NULL WHERE FIRE_TIME = ?`, at(2))
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'PENDING', HOST_IP = NULL, INSTANCE = NULL, STARTED_AT = NULL WHERE FIRE_TIME = ?`, at(3))
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'SKIPPED', HOST_IP = NULL, INSTANCE = NULL, STARTED_AT = NULL WHERE FIRE_TIME = ?`, at(4))
	r := w.check()
	assert.True(t, r.Ok())
	assert.Equal(t, []int{5, 1, 2, 1, 1}, []int{r.Expected, r.Run, r.Lost, r.Pending, r.Skipped})
}

func TestARecoveredFireIsRun(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'LOST' WHERE FIRE_TIME = ?`, at(2))
	w.run(at(2), 2, "SUCCEEDED", 9000)
	r := w.check()
	assert.True(t, r.Ok())
	assert.Equal(t, []int{5, 5, 0}, []int{r.Expected, r.Run, r.Lost})
	assert.Equal(t, 3*time.Millisecond, r.Max, "only first attempts are late")
}

func TestASkipStandsForManyFires(t *testing.T) {
	w := newWorld(t)
	w.exec(`DELETE FROM QRTZ_RUN WHERE FIRE_TIME BETWEEN ? AND ?`, at(2), at(4))
	w.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, LAST_FIRE_TIME, FIRE_COUNT) VALUES ('a', 1, 1, ?, 'SKIPPED', ?, 3)`, at(2), at(4))
	r := w.check()
	assert.True(t, r.Ok())
	assert.Equal(t, []int{5, 2, 3}, []int{r.Expected, r.Run, r.Skipped})
	r = w.check(func(o *check.Options) { o.From = t0.Add(3 * time.Second) })
	assert.True(t, r.Ok())
	assert.Equal(t, []int{2, 0, 2}, []int{r.Expected, r.Run, r.Skipped}, "the row begins before the span")
}

func TestFiresStillToBeClaimed(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING', NEXT_FIRE_TIME = ?`, at(3))
	w.exec(`DELETE FROM QRTZ_RUN WHERE FIRE_TIME >= ?`, at(3))
	w.exec(`UPDATE QRTZ_EXECUTE SET CHANGED_AT = FROM_UNIXTIME(?)`, t0.Unix()-60)
	r := w.check(func(o *check.Options) { o.LateAfter = 2 * time.Hour })
	assert.True(t, r.Ok())
	assert.Equal(t, []int{5, 3, 2}, []int{r.Expected, r.Run, r.Waiting})
	assert.Equal(t, 2, w.check().Missing)
}

func TestWhatWasSwitchedOffIsNotExpected(t *testing.T) {
	w := newWorld(t)
	w.exec(`DELETE FROM QRTZ_RUN WHERE FIRE_TIME BETWEEN ? AND ?`, at(1), at(2))
	w.run(at(5), 1, "SUCCEEDED", 0)
	w.run(at(6), 1, "SUCCEEDED", 0)
	r := w.check(func(o *check.Options) {
		o.Off = []check.Span{{From: t0.Add(900 * time.Millisecond), Until: t0.Add(2500 * time.Millisecond)}}
	})
	assert.True(t, r.Ok())
	assert.Equal(t, []int{5, 5, 0}, []int{r.Expected, r.Run, r.Unscheduled}, "five fires in all, the passed over ones not counted")
}

func TestACronScheduleIsExpectedFromItsStart(t *testing.T) {
	w := newWorld(t)
	w.exec(`INSERT INTO QRTZ_EXECUTE (ID, PID, APPLICATION, JOB_TYPE, STATE, CRON, ZONE_ID, START_TIME, END_TIME, CHANGED_AT)
		VALUES (2, 1, 'a', 'CRON', 'COMPLETE', '*/2 * * * * ?', 'Asia/Shanghai', ?, ?, FROM_UNIXTIME(?))`, at(10), at(14), t0.Unix()+14)
	r := w.check()
	assert.Equal(t, []int{2, 8, 3}, []int{r.Executes, r.Expected, r.Missing}, "either 3 even seconds or 2 odd ones: adjusted below")
}

func TestNoSchedulesNoFires(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'INIT'`)
	w.exec(`DELETE FROM QRTZ_RUN`)
	r := w.check()
	assert.True(t, r.Ok())
	assert.Zero(t, r.Expected)
}

func TestRunsOfNoFireAreNoted(t *testing.T) {
	w := newWorld(t)
	w.run(at(2.5), 1, "SUCCEEDED", 0)
	r := w.check()
	assert.True(t, r.Ok(), "a person may have asked for it")
	assert.Equal(t, 1, r.Unscheduled)
}

func TestTheAccountMayBeATable(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE DONE (EXECUTE_ID BIGINT, FIRE_TIME BIGINT, ATTEMPT INT, NODE VARCHAR(50), STARTED_AT BIGINT)`)
	for s := range 5 {
		w.exec(`INSERT INTO DONE VALUES (1, ?, 1, 'node-1', ?)`, at(float64(s)), at(float64(s)))
	}
	table := func(o *check.Options) { o.RecordTable = "DONE" }
	assert.True(t, w.check(table).Ok())
	w.exec(`INSERT INTO DONE VALUES (NULL, ?, 1, 'node-1', ?)`, at(2), at(2))
	assert.True(t, w.check(table).Ok(), "a run that was asked for belongs to no fire")
	w.exec(`INSERT INTO DONE VALUES (1, ?, 1, 'node-2', ?)`, at(2), at(2))
	assert.Equal(t, 1, w.check(table).Double)
}

func TestOptionsAreChecked(t *testing.T) {
	w := newWorld(t)
	for says, opts := range map[string]check.Options{
		"App is empty":                    {From: t0, Until: t0},
		"must not be before Options.From": {App: "a", From: t0, Until: t0.Add(-1)},
		"letters, digits and _":           {App: "a", From: t0, Until: t0, RecordTable: "x; DROP TABLE y"},
	} {
		_, err := check.Run(t.Context(), w.db, "QRTZ_", opts)
		require.ErrorContains(t, err, says)
	}
	_, err := check.Run(t.Context(), w.db, "no such;", check.Options{App: "a", From: t0, Until: t0})
	assert.ErrorContains(t, err, "prefix")
}

// TestOnlyWhatWasActiveIsExpected leaves execute 1 with runs of its first three fires, the fourth being next.
func TestOnlyWhatWasActiveIsExpected(t *testing.T) {
	for _, c := range []struct {
		name, set         string
		expected, missing int
	}{
		{"paused, and marked", `STATE = 'PAUSED', PAUSED_AT = UNIX_TIMESTAMP(CHANGED_AT) * 1000`, 3, 0},
		{"paused, not yet marked", `STATE = 'PAUSED'`, 3, 0},
		{"retired", `STATE = 'COMPLETE'`, 3, 0},
		{"broken", `STATE = 'ERROR'`, 3, 0},
		{"resumed: nothing is known of the time before", `STATE = 'EXECUTING'`, 2, 2},
		{"at its end", `STATE = 'COMPLETE', NEXT_FIRE_TIME = NULL`, 5, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.exec(`DELETE FROM QRTZ_RUN WHERE FIRE_TIME >= ?`, at(3))
			w.exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = ?, CHANGED_AT = FROM_UNIXTIME(? / 1000), `+c.set, at(3), at(2.5))
			r := w.check()
			assert.Equal(t, []int{c.expected, c.missing}, []int{r.Expected, r.Missing})
		})
	}
}
