package main_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "qrtz-cmd-test-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "qrtz")
	if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return testdb.Main(m)
}

// result is what a command has left.
type result struct {
	code           int
	stdout, stderr string
}

// command is qrtz with arguments and no environment of the tester's; env is added.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "QRTZ_MYSQLD=" + os.Getenv("QRTZ_MYSQLD")}, env...)
	return cmd
}

func run(t *testing.T, env []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := command(t, env, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	t.Logf("qrtz %s\n%s%s", strings.Join(args, " "), stdout.String(), stderr.String())
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

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

// lockedBuffer takes a process's output while a test looks at it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 0, ""},
		{"nonsense", 2, `unknown command "nonsense": want one of`},
		{"migrate sideways", 2, `unknown command "sideways": want one of print, status, up`},
		{"migrate up now", 2, `unexpected argument "now"`},
		{"migrate up --nope", 2, "unknown flag: --nope"},
		{"next", 2, "want one expression, in quotes, got 0"},
		{"next 0 0 2 * * ?", 2, "want one expression, in quotes, got 6"},
		{"node run", 2, "--app is missing"},
		{"node run --app a --poll 5s --misfire-after 3s", 2, "MisfireAfter (3s) must exceed PollInterval (5s)"},
		{"node run --app a --poll soon", 2, `invalid argument "soon"`},
		{"node run --app a --log-level loud", 2, `--log-level "loud"`},
		{"run show", 2, "want the id of a run"},
		{"run show 1 2", 2, `unexpected argument "2": want only the id of a run`},
		{"run list --after x", 2, `--after "x": want what the list before it has ended with`},
		{"schedule pause x", 2, `"x": want the id of a schedule, a number`},
		{"run show x", 2, `"x": want the id of a run, a number`},
		{"run list --state LATE", 2, `--state "LATE": want one of PENDING, RUNNING, SUCCEEDED`},
		{"run list --limit 0", 2, "--limit 0: want 1 to 1000000"},
		{"job list --state nope", 2, `--state "nope": want one of INIT`},
		{"job show", 2, "want the name or id of a job"},
		{"app stop", 2, "want the name of an app"},
		{"app stop a", 2, "stdin is not a terminal: give --yes"},
		{"history clean", 2, "--older-than is missing"},
		{"history clean --older-than soon", 2, "want for example 30d, 2w or 12h"},
		{"history clean --older-than 30d --state RUNNING", 2, `--state "RUNNING": want one of SUCCEEDED`},
		{"history clean --older-than 30d", 2, "stdin is not a terminal: give --yes"},
		{"demo --nodes 1", 2, "--nodes 1: want 2 to 20"},
		{"demo --for 1s", 2, "--for 1s: want"},
	} {
		r := run(t, nil, strings.Fields(c.args)...)
		assert.Equal(t, c.code, r.code, c.args)
		assert.Contains(t, r.stderr, c.says, c.args)
		if c.code == 2 {
			assert.Contains(t, r.stderr, "--help` for usage", c.args)
			assert.Empty(t, r.stdout, c.args)
			assert.Equal(t, 1, strings.Count(r.stderr, c.says), "said once")
		}
	}
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
