package main_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/testdb"
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

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 0, ""},
		{"nonsense", 2, `unknown command "nonsense": want one of`},
		{"migrate sideways", 2, `unknown command "sideways": want one of print, status, up`},
		{"migrate up now", 2, "takes no arguments"},
		{"migrate up --nope", 2, "unknown flag: --nope"},
		{"next", 2, "want one expression, in quotes, got 0"},
		{"next 0 0 2 * * ?", 2, "want one expression, in quotes, got 6"},
		{"node run", 2, "--app is missing"},
		{"node run --app a --poll 5s --misfire-after 3s", 2, "MisfireAfter (3s) must exceed PollInterval (5s)"},
		{"node run --app a --poll soon", 2, `invalid argument "soon"`},
		{"node run --app a --log-level loud", 2, `--log-level "loud"`},
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

func TestAWrongDSN(t *testing.T) {
	for _, c := range []struct{ dsn, says string }{
		{"root:secret@tcp(127.0.0.1:1)", "--dsn: invalid DSN: missing the slash"},
		{"root:secret@tcp(127.0.0.1:1)/", "--dsn names no database"},
		{"root:secret@tcp(127.0.0.1:1)/x?loc=Nowhere/At", "--dsn: "},
		{"root:secret@tcp(127.0.0.1:1)/x?collation=gbk_chinese_ci", "--dsn: "},
		{"root:secret@tcp(127.0.0.1:1)/x", `cannot use database x of tcp(127.0.0.1:1) as user "root": `},
	} {
		r := run(t, []string{"QRTZ_DSN=unused"}, "migrate", "status", "--dsn", c.dsn)
		assert.Equal(t, 1, r.code)
		assert.Contains(t, r.stderr, c.says)
		assert.NotContains(t, r.stderr, "secret")
	}
	r := run(t, []string{"QRTZ_DSN=nonsense"}, "migrate", "status")
	assert.Contains(t, r.stderr, "QRTZ_DSN: invalid DSN")
	assert.Contains(t, r.stderr, "for example 'user:password@tcp(127.0.0.1:3306)/mydb'")
	r = run(t, nil, "migrate", "status", "--dsn", "a@tcp(127.0.0.1:1)/x", "--prefix", "1;")
	assert.Contains(t, r.stderr, "--prefix: ")
}

// A value could become a part of a statement.
func TestADSNInWhoseCharacterSetAQuoteCanHideIsRefused(t *testing.T) {
	dsn := testdb.DSN(t)
	and := "?"
	if strings.Contains(dsn, "?") {
		and = "&"
	}
	for _, charset := range []string{"charset=gbk", "charset=big5", "charset=sjis", "character_set_client=gbk", "charset=utf8mb4&character_set_client=big5"} {
		for _, args := range [][]string{{"job", "list"}, {"migrate", "up"}, {"node", "run", "--app", "a"}, {"demo", "--for", "5s"}} {
			r := run(t, []string{"QRTZ_DSN=" + dsn + and + charset}, args...)
			assert.Equal(t, 1, r.code, charset)
			assert.Contains(t, r.stderr, "a quote can hide", charset)
		}
	}
	assert.Zero(t, run(t, []string{"QRTZ_DSN=" + dsn + and + "charset=utf8mb4"}, "migrate", "up").code)
}

func TestMigrate(t *testing.T) {
	env := []string{"QRTZ_DSN=" + testdb.DSN(t)}
	assert.Contains(t, run(t, env, "migrate", "status").stdout, "1  missing  version_1_3\n2  missing  cluster\n")
	assert.Contains(t, run(t, env, "node", "run", "--app", "a").stderr, "run `qrtz migrate up`")
	r := run(t, env, "migrate", "up")
	assert.Zero(t, r.code)
	assert.Contains(t, r.stdout, "migration 1 (version_1_3) done\n")
	assert.Empty(t, r.stderr)
	assert.Contains(t, run(t, env, "migrate", "up").stdout, "up to date: the QRTZ_ tables")
	assert.Contains(t, run(t, env, "migrate", "status", "--json").stdout, `"applied": true`)
	assert.Contains(t, run(t, env, "migrate", "status", "--prefix", "OTHER_").stdout, "1  missing")
	assert.Contains(t, run(t, env, "migrate", "print", "--prefix", "OTHER_").stdout, "CREATE TABLE IF NOT EXISTS OTHER_APP")
}

// TestThePrivateServer also sees that nothing is left running: the directory's server is gone with the command.
func TestThePrivateServer(t *testing.T) {
	dir := t.TempDir()
	env := []string{"XDG_DATA_HOME=" + dir}
	r := run(t, env, "migrate", "up")
	require.Zero(t, r.code)
	assert.Equal(t, "qrtz: no --dsn and no QRTZ_DSN: using the private server in "+filepath.Join(dir, "qrtz")+", database qrtz\n", r.stderr)
	assert.NoFileExists(t, filepath.Join(dir, "qrtz", "s.sock"))
	assert.Contains(t, run(t, env, "migrate", "up").stdout, "up to date", "the data is kept")
}

// TestANodeStopsWhenAsked runs a node on a server of its own, where it migrates by itself.
func TestANodeStopsWhenAsked(t *testing.T) {
	var log lockedBuffer
	cmd := command(t, []string{"XDG_DATA_HOME=" + t.TempDir()}, "node", "run", "--app", "a", "--id", "n", "--clock-skew", "1h")
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return strings.Contains(log.String(), `"joined"`) }, 20*time.Second, 10*time.Millisecond, "JSON, for stderr is no terminal")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
	t.Log(log.String())
	assert.Contains(t, log.String(), `"message":"stopped"`)
}

func TestASecondSignalQuitsAtOnce(t *testing.T) {
	dsn := testdb.DSN(t)
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	env := []string{"QRTZ_DSN=" + dsn}
	require.Zero(t, run(t, env, "migrate", "up").code)
	var log lockedBuffer
	cmd := command(t, env, "node", "run", "--app", "a", "--id", "n")
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return strings.Contains(log.String(), `"joined"`) }, 20*time.Second, 10*time.Millisecond)
	for _, statement := range []string{
		`INSERT INTO QRTZ_JOB (ID, APPLICATION, STATE, JOB_CLASS, JOB_DATA) VALUES (1, 'a', 'EXECUTING', 'sleep', '{"ms": 60000}')`,
		`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE) VALUES ('a', 1, 0, 'PENDING')`,
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		var n int
		return db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`).Scan(&n) == nil && n == 1
	}, 10*time.Second, 20*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "a second signal quits at once") }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	assert.Equal(t, 130, exit.ExitCode())
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
