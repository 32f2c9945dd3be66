package main_test

import (
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/testdb"
)

// site is a database with the apps a and b, and qrtz to look at it with.
type site struct {
	t   *testing.T
	env []string
	db  *sql.DB
}

func newSite(t *testing.T) site {
	t.Helper()
	dsn := testdb.DSN(t)
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := site{t, []string{"QRTZ_DSN=" + dsn, "TZ=UTC"}, db}
	s.ok("migrate", "up")
	s.exec(`INSERT INTO QRTZ_APP (APPLICATION, STATE) VALUES ('a', 'Y'), ('b', 'Y')`)
	s.exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE) VALUES
		('a', 'n1', 'h', 'Y', 0, 1), ('a', 'both', 'h', 'Y', 0, 2), ('b', 'both', 'h', 'Y', 0, 3)`)
	s.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, STATE, JOB_CLASS, JOB_DATA, NAME) VALUES
		(1, 'a', 'EXECUTING', 'noop', '{}', 'mail'), (2, 'b', 'PAUSED', 'noop', NULL, 'mail'), (3, 'a', 'INIT', 'sleep', '{"ms": 60000}', NULL)`)
	s.exec(`INSERT INTO QRTZ_EXECUTE (ID, PID, APPLICATION, JOB_TYPE, STATE, CRON, ZONE_ID, NEXT_FIRE_TIME) VALUES
		(11, 1, 'a', 'CRON', 'EXECUTING', '0 0 3 * * ?', 'Europe/Berlin', 4102444800000), (12, 2, 'b', 'CRON', 'PAUSED', '0 0 4 * * ?', NULL, NULL)`)
	return s
}

func (s site) exec(query string, args ...any) {
	s.t.Helper()
	_, err := s.db.ExecContext(s.t.Context(), query, args...)
	require.NoError(s.t, err)
}

func (s site) text(query string, args ...any) (text string) {
	s.t.Helper()
	require.NoError(s.t, s.db.QueryRowContext(s.t.Context(), query, args...).Scan(&text))
	return text
}

// ok is what a command prints that must succeed.
func (s site) ok(args ...string) string {
	s.t.Helper()
	r := run(s.t, s.env, args...)
	require.Zero(s.t, r.code, r.stderr)
	return r.stdout
}

// fails is what a command says that must fail.
func (s site) fails(code int, args ...string) string {
	s.t.Helper()
	r := run(s.t, s.env, args...)
	require.Equal(s.t, code, r.code)
	require.Empty(s.t, r.stdout)
	return r.stderr
}

// ids are those that a list in JSON has.
func (s site) ids(args ...string) []any {
	s.t.Helper()
	var rows []map[string]any
	require.NoError(s.t, json.Unmarshal([]byte(s.ok(append(args, "--json")...)), &rows))
	ids := []any{}
	for _, r := range rows {
		ids = append(ids, r["id"])
	}
	return ids
}

func TestAdminUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"run show", "want the id of a run, got 0 arguments"},
		{"run show x", `"x": want the id of a run, a number`},
		{"run list --state LATE", `--state "LATE": want one of PENDING, RUNNING, SUCCEEDED`},
		{"run list --limit 0", "--limit 0: want 1 to 1000000"},
		{"job list --state nope", `--state "nope": want one of INIT`},
		{"job show", "want the name or id of a job, got 0"},
		{"app stop", "want the name of an app, got 0"},
		{"app stop a", "cannot ask: give --yes"},
		{"history clean", "--older-than is missing"},
		{"history clean --older-than soon", "want for example 30d, 2w or 12h"},
		{"history clean --older-than 30d --state RUNNING", `--state "RUNNING": want one of SUCCEEDED`},
		{"history clean --older-than 30d", "cannot ask: give --yes"},
	} {
		r := run(t, nil, strings.Fields(c.args)...)
		assert.Equal(t, 2, r.code, c.args)
		assert.Contains(t, r.stderr, c.says, c.args)
	}
}

func TestTablesMustBeUpToDate(t *testing.T) {
	r := run(t, []string{"QRTZ_DSN=" + testdb.DSN(t)}, "job", "list")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "qrtz migrate up")
}

// TestAnotherPrefix runs every statement there is on tables of another name.
func TestAnotherPrefix(t *testing.T) {
	s := site{t: t, env: []string{"QRTZ_DSN=" + testdb.DSN(t)}}
	s.ok("migrate", "up", "--prefix", "X_")
	for _, args := range []string{"app list", "node list", "job list", "execute list", "run list", "history clean --older-than 1d --yes"} {
		assert.Contains(t, []string{"none\n", "deleted no runs\n"}, s.ok(append(strings.Fields(args), "--prefix", "X_")...))
	}
	for _, args := range []string{"app start a", "node drain n", "job run j", "execute pause 1", "run retry 1"} {
		assert.Contains(t, s.fails(1, append(strings.Fields(args), "--prefix", "X_")...), "there is no ")
	}
}

func TestAppsAreListedAndSwitched(t *testing.T) {
	s := newSite(t)
	assert.Regexp(t, `(?m)^APP +STATE +NODES +JOBS.*\na +on +2 +2 .*\nb +on +1 +1 `, s.ok("app", "list"))
	assert.Equal(t, "app a is off\n", s.ok("app", "stop", "a", "--yes"))
	assert.Equal(t, "app a is off, as it was before\n", s.ok("app", "stop", "a", "--yes"))
	assert.Equal(t, "N", s.text(`SELECT STATE FROM QRTZ_APP WHERE APPLICATION = 'a' AND SWITCHED_AT IS NOT NULL`))
	assert.Contains(t, s.ok("app", "list", "--json"), `"state": "N"`)
	assert.Equal(t, "app a is on\n", s.ok("app", "start", "a"))
	assert.Contains(t, s.fails(1, "app", "start", "x"), `there is no app "x"; the apps are: a, b`)
}

func TestNodesAreListedAndSwitched(t *testing.T) {
	s := newSite(t)
	assert.Equal(t, []any{"both", "n1"}, s.ids("node", "list", "--app", "a"))
	s.exec(`UPDATE QRTZ_NODE SET HANDLERS = '["noop", "sql"]' WHERE HOST_IP = 'n1'`)
	assert.Regexp(t, `(?s)"classes": \[\].*"classes": \[\s+"noop",\s+"sql"`, s.ok("node", "list", "--app", "a", "--json"))
	assert.Equal(t, "node n1 of app a is off\n0 runs go on\n", s.ok("node", "stop", "n1"))
	assert.Contains(t, s.fails(1, "node", "stop", "both"), "say which with --app")
	s.exec(`UPDATE QRTZ_NODE SET STATE = 'N', STOPPED_BY_APP = 1 WHERE HOST_IP = 'both' AND APPLICATION = 'b'`)
	assert.Regexp(t, `both +h +off \(app\)`, s.ok("node", "list"))
	assert.Contains(t, s.ok("node", "stop", "both", "--app", "b"), "is off, as it was before")
	assert.Equal(t, "0", s.text(`SELECT STOPPED_BY_APP FROM QRTZ_NODE WHERE HOST_IP = 'both' AND APPLICATION = 'b'`), "now the operator's")
	assert.Equal(t, "node n1 of app a is on\n", s.ok("node", "start", "n1"))
	assert.Contains(t, s.fails(1, "node", "start", "x"), `there is no node "x"`)
}

func TestDrainWaitsForWhatRuns(t *testing.T) {
	s := newSite(t)
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, STATE, HOST_IP, INSTANCE) VALUES (1, 'a', 3, 'RUNNING', 'n1', 1), (2, 'a', 3, 'RUNNING', 'both', 2)`)
	assert.Equal(t, "node n1 of app a is off\n1 runs go on\n", s.ok("node", "drain", "n1"))
	r := run(t, s.env, "node", "drain", "n1", "--wait", "--timeout", "1s")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "still runs")
	var out lockedBuffer
	cmd := command(t, s.env, "node", "drain", "n1", "--wait")
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "1 runs go on") }, 10*time.Second, 10*time.Millisecond)
	s.exec(`UPDATE QRTZ_RUN SET STATE = 'SUCCEEDED' WHERE ID = 1`)
	require.NoError(t, cmd.Wait())
	assert.Contains(t, out.String(), "0 runs go on")
}

func TestJobsAndSchedulesAreListed(t *testing.T) {
	s := newSite(t)
	assert.Regexp(t, `(?m)^ID +APP +NAME +CLASS .*\n1 +a +mail +noop +EXECUTING +1 +2100-01-01 00:00:00.000 *`, s.ok("job", "list"))
	assert.Equal(t, []any{1.0, 3.0}, s.ids("job", "list", "--app", "a"))
	assert.Equal(t, []any{2.0}, s.ids("job", "list", "--state", "paused"))
	assert.Equal(t, []any{1.0}, s.ids("job", "list", "--limit", "1"))
	assert.Equal(t, []any{11.0, 12.0}, s.ids("execute", "list"))
	assert.Equal(t, []any{12.0}, s.ids("execute", "list", "--job", "2"))
	assert.Equal(t, []any{11.0}, s.ids("execute", "list", "--job", "mail", "--app", "a"))
	assert.Contains(t, s.fails(1, "execute", "list", "--job", "mail"), `the apps "a" and "b" both have a job "mail"`)
	assert.Equal(t, []any{}, s.ids("execute", "list", "--job", "3"))
	assert.Equal(t, "none\n", s.ok("execute", "list", "--job", "3"))
}

func TestAJobIsShown(t *testing.T) {
	s := newSite(t)
	s.exec(`UPDATE QRTZ_JOB SET OVERLAP = 'QUEUE', ATTEMPTS = 3, RUN_TIMEOUT = 90000, RECOVERY = 1, JOB_DESCRIPTION = ? WHERE ID = 1`, "two\nlines \x1b[2J")
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, FIRE_TIME, STATE, STARTED_AT, FINISHED_AT) VALUES (5, 'a', 1, 1700000001000, 'SUCCEEDED', 1700000001020, 1700000001100)`)
	text := s.ok("job", "show", "mail", "--app", "a")
	for _, want := range []string{
		`name +mail`, `description +two lines \\x1b\[2J`, `recovery +yes`, `overlap +QUEUE, at most 10 waiting`, `timeout +1m30s`,
		`attempts +3, after 10s to 1h0m0s`, `history +ALL, for 30d`, `11 +a +mail .* 0 0 3 \* \* \? +Europe/Berlin`, `5 +a +mail +SUCCEEDED +1 .* 20 ms +80 ms`,
	} {
		assert.Regexp(t, want, text)
	}
	var shown struct {
		ID        int64
		Schedules []map[string]any
		Latest    []map[string]any `json:"latest_runs"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.ok("job", "show", "1", "--json")), &shown))
	assert.Equal(t, []int{1, 1, 1}, []int{int(shown.ID), len(shown.Schedules), len(shown.Latest)})
	assert.Equal(t, "2023-11-14T22:13:21.020Z", shown.Latest[0]["started_at"])
	assert.Contains(t, s.fails(1, "job", "show", "x", "--app", "a"), `there is no job "x" in app "a"`)
}

// Not even who may write to the tables writes to the terminal of who reads them.
func TestNoListingPrintsWhatIsStoredRaw(t *testing.T) {
	s := newSite(t)
	const evil = "e\x1b[31m\a\r\u202e\u009b"
	s.exec(`INSERT INTO QRTZ_APP (APPLICATION, STATE) VALUES (?, 'Y')`, evil)
	s.exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK) VALUES (?, ?, ?, 'N', 0)`, evil, evil, evil)
	s.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, NAME, STATE, JOB_CLASS, JOB_DATA, JOB_DESCRIPTION) VALUES (90, ?, ?, 'PAUSED', ?, JSON_OBJECT('k', ?), ?)`,
		evil, evil, evil, evil, evil)
	s.exec(`INSERT INTO QRTZ_EXECUTE (ID, PID, APPLICATION, NAME, JOB_TYPE, STATE, STATE_REASON, CRON, ZONE_ID, START_TIME, HOST_IP, HOST_NAME)
		VALUES (91, 90, ?, ?, 'CRON', 'ERROR', ?, ?, ?, 0, ?, ?)`, evil, evil, evil, evil, evil, evil, evil)
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, HOST_IP, MESSAGE) VALUES (92, ?, 90, 91, 1700000001000, 'FAILED', ?, ?)`,
		evil, evil, evil)
	for _, args := range [][]string{
		{"app", "list"},
		{"node", "list"},
		{"job", "list"},
		{"job", "show", "90"},
		{"execute", "list"},
		{"run", "list"},
		{"run", "show", "92"},
		{"node", "start", evil, "--app", evil},
		{"app", "start", evil},
		{"execute", "pause", "91"},
		{"execute", "delete", "91", "--yes"},
		{"job", "delete", "90", "--yes"},
		{"job", "show", evil, "--app", evil},
	} {
		r := run(s.t, s.env, args...)
		assert.Contains(t, r.stdout+r.stderr, `e\x1b[31m`, args)
		for _, raw := range []string{"\x1b", "\a", "\r", "\u202e", "\u009b"} {
			assert.NotContains(t, r.stdout+r.stderr, raw, args)
		}
	}
	assert.Contains(t, s.ok("app", "list", "--json"), `"e\u001b[31m\u0007\r\u202e\u009b"`)
}

func TestRunsAreListedAndShown(t *testing.T) {
	s := newSite(t)
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, MESSAGE) VALUES
		(1, 'a', 1, 11, 1700000001000, 'FAILED', 'panic: oops\n\ngoroutine 7'), (2, 'a', 3, NULL, 0, 'PENDING', NULL), (3, 'b', 2, 12, 1700000002000, 'SUCCEEDED', NULL), (4, 'a', 9, NULL, 1700000003000, 'LOST', NULL)`)
	assert.Equal(t, []any{4.0, 3.0, 2.0, 1.0}, s.ids("run", "list"))
	assert.Equal(t, []any{4.0, 2.0}, s.ids("run", "list", "--app", "a", "--limit", "2"))
	assert.Equal(t, []any{1.0}, s.ids("run", "list", "--job", "mail", "--app", "a"))
	assert.Equal(t, []any{2.0}, s.ids("run", "list", "--state", "pending"))
	text := s.ok("run", "list")
	assert.Regexp(t, `1 +a +mail +FAILED +1 +- +2023-11-14 22:13:21.000 +- +- +panic: oops\n`, text)
	assert.Contains(t, text, "(deleted)")
	text = s.ok("run", "show", "1")
	assert.Regexp(t, `(?s)execute +11\n.*panic: oops\n\ngoroutine 7`, text)
	assert.Contains(t, s.fails(1, "run", "show", "7"), "there is no run 7")
}

func TestHistoryIsCleaned(t *testing.T) {
	s := newSite(t)
	const days = 24 * 60 * 60 * 1000
	now := time.Now().UnixMilli()
	for i, c := range []struct {
		app, state string
		finished   any
	}{
		{"a", "SUCCEEDED", now - 40*days},
		{"a", "FAILED", now - 40*days},
		{"b", "SUCCEEDED", now - 40*days},
		{"a", "SUCCEEDED", now - 20*days},
		{"a", "PENDING", nil},
		{"a", "RUNNING", nil},
		{"a", "SKIPPED", nil},
	} {
		s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, FIRE_TIME, STATE, FINISHED_AT) VALUES (?, ?, 1, ?, ?, ?)`,
			1000*i+1, c.app, now-50*days, c.state, c.finished)
	}
	clean := func(args ...string) string {
		return s.ok(append([]string{"history", "clean", "--older-than"}, args...)...)
	}
	assert.Equal(t, "would delete 4 runs (FAILED 1, SKIPPED 1, SUCCEEDED 2)\n", clean("30d", "--dry-run"))
	assert.Equal(t, "would delete no runs\n", clean("60d", "--dry-run"))
	assert.Equal(t, "deleted 1 runs (SUCCEEDED 1)\n", clean("30d", "--app", "a", "--state", "succeeded", "--yes"))
	assert.Equal(t, "deleted 3 runs (FAILED 1, SKIPPED 1, SUCCEEDED 1)\n", clean("4w2d", "--yes"))
	assert.Equal(t, []any{5001.0, 4001.0, 3001.0}, s.ids("run", "list"))
	assert.Equal(t, "deleted 1 runs (SUCCEEDED 1)\n", clean("0s", "--yes"))
}

// TestHistoryIsCleanedInPages has more runs than one page, of which every third goes.
func TestHistoryIsCleanedInPages(t *testing.T) {
	s := newSite(t)
	s.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE, FINISHED_AT)
		SELECT 'a', 1, 1700000000000 + A.N + 50 * B.N, ELT(1 + MOD(A.N + 50 * B.N, 3), 'SUCCEEDED', 'FAILED', 'PENDING'), 1
		  FROM (SELECT ROW_NUMBER() OVER () - 1 AS N FROM information_schema.COLUMNS LIMIT 50) A
		  JOIN (SELECT ROW_NUMBER() OVER () - 1 AS N FROM information_schema.COLUMNS LIMIT 40) B`)
	assert.Equal(t, "deleted 667 runs (SUCCEEDED 667)\n", s.ok("history", "clean", "--older-than", "1d", "--state", "SUCCEEDED", "--yes"))
	assert.Equal(t, "1333", s.text(`SELECT COUNT(*) FROM QRTZ_RUN`))
}
