// Package e2e tests whole processes: qrtz node run on a real server, killed, frozen, cut off and started again.
package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/proof/check"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

// binary is the qrtz command, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "qrtz-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "qrtz")
	build := exec.Command("go", "build", "-o", binary, "github.com/qrtz-go/qrtz/cmd/qrtz")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n%s", err, out)
		return 1
	}
	return testdb.Main(m)
}

// cluster is a database and the worker processes on it.
type cluster struct {
	t   *testing.T
	dsn string
	db  *sql.DB
	dir string // of the workers' logs
}

func newCluster(t *testing.T, dsn string) *cluster {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = schema.Up(t.Context(), db, schema.DefaultPrefix)
	require.NoError(t, err)
	c := &cluster{t: t, dsn: dsn, db: db, dir: t.TempDir()}
	// The handlers' own record, by the database's clock and without a key that could hide a double.
	c.exec(`CREATE TABLE RECORD (EXECUTE_ID BIGINT, FIRE_TIME BIGINT, ATTEMPT INT, NODE VARCHAR(50), STARTED_AT BIGINT)`)
	return c
}

func (c *cluster) exec(query string, args ...any) {
	c.t.Helper()
	_, err := c.db.ExecContext(c.t.Context(), query, args...)
	require.NoError(c.t, err)
}

func (c *cluster) count(query string, args ...any) (n int) {
	c.t.Helper()
	require.NoError(c.t, c.db.QueryRowContext(c.t.Context(), query, args...).Scan(&n))
	return n
}

func (c *cluster) eventually(what string, within time.Duration, holds func() bool) {
	c.t.Helper()
	require.Eventually(c.t, holds, within, 50*time.Millisecond, what)
}

// schedule adds n executes of 1 s that record what they do, from start to end.
func (c *cluster) schedule(n int, start, end time.Time) {
	c.t.Helper()
	c.exec(`INSERT INTO QRTZ_JOB (APPLICATION, STATE, JOB_CLASS, JOB_DATA, UPDATE_TIME) VALUES ('e2e', 'EXECUTING', 'sql',
		'{"statement": "INSERT INTO RECORD VALUES (:execute_id, :fire_time, :attempt, :node, :now)"}', 0)`)
	for i := range n {
		from := start.Add(time.Duration(i) * time.Second / time.Duration(n)).UnixMilli()
		c.exec(`INSERT INTO QRTZ_EXECUTE (PID, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, NEXT_FIRE_TIME, START_TIME, END_TIME)
			SELECT MAX(ID), 'SIMPLE', 'EXECUTING', -1, 1000, ?, ?, ? FROM QRTZ_JOB`, from, from, end.UnixMilli())
	}
}

// worker is a `qrtz node run` process.
type worker struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited
	err  error
}

func (c *cluster) worker(id string, flags ...string) *worker {
	c.t.Helper()
	return c.process(id, exec.Command(binary, append([]string{"node", "run", "--app", "e2e", "--id", id, "--dsn", c.dsn}, flags...)...))
}

// process starts a process that is a node.
func (c *cluster) process(id string, cmd *exec.Cmd) *worker {
	c.t.Helper()
	log, err := os.OpenFile(filepath.Join(c.dir, id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(c.t, err)
	defer func() { _ = log.Close() }() // the worker has its own
	cmd.Stderr = log
	w := &worker{t: c.t, cmd: cmd, done: make(chan struct{})}
	require.NoError(c.t, cmd.Start())
	go func() { w.err = cmd.Wait(); close(w.done) }()
	c.t.Cleanup(func() {
		w.signal(syscall.SIGKILL)
		<-w.done
		if c.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			c.t.Logf("%s:\n%s", id, text)
		}
	})
	return w
}

func (w *worker) signal(s syscall.Signal) {
	select {
	case <-w.done:
	default:
		_ = w.cmd.Process.Signal(s) // it may just have exited
	}
}

func (w *worker) kill() { w.signal(syscall.SIGKILL); <-w.done }

func (w *worker) alive() bool {
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

// stop asks the worker to stop, as a container runtime does.
func (w *worker) stop() {
	w.t.Helper()
	w.signal(syscall.SIGTERM)
	select {
	case <-w.done:
		require.NoError(w.t, w.err)
	case <-time.After(40 * time.Second):
		w.t.Error("a worker did not stop within 40 s of SIGTERM")
	}
}

// wait lets the cluster run for a while: what is tested is what happens as time goes by.
func (c *cluster) wait(d time.Duration) {
	select {
	case <-c.t.Context().Done():
	case <-time.After(d):
	}
}

// check recomputes every fire between two times and compares it with the runs and the handlers' record.
func (c *cluster) check(from, until time.Time) check.Report {
	c.t.Helper()
	report, err := check.Run(context.Background(), c.db, string(schema.DefaultPrefix), check.Options{
		App: "e2e", From: from, Until: until, RecordTable: "RECORD",
	})
	require.NoError(c.t, err)
	c.t.Log(report)
	require.True(c.t, report.Ok())
	require.Zero(c.t, report.Pending+report.Waiting)
	return report
}

// span is how long a test lets its cluster run: short, or what QRTZ_E2E_FOR says.
func span(t *testing.T, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("QRTZ_E2E_FOR")
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}
