//go:build unix

package main_test

import (
	"database/sql"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

// TestDemo runs it on a server of the user's, with another prefix.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 seconds")
	}
	cfg := serverConfig(t)
	r := run(t, []string{"QRTZ_DSN=" + cfg.FormatDSN()}, "demo", "--for", "10s", "--prefix", "X_")
	assert.Zero(t, r.code)
	for _, want := range []string{`KILLED node-\d \(SIGKILL\)`, `taken over from node-\d: `, `recovered: nap-\w+ of \S+, lost with node-\d, is run again by node-\d`, `STARTED node-\d again`, `double +0`, `missing +0`, `early +0`, `No fire was run twice`} {
		assert.Regexp(t, want, r.stdout)
	}
	assert.Empty(t, r.stderr)
	require.Error(t, openDemo(t, cfg, r.stdout).PingContext(t.Context()), "its database has been dropped")
}

// serverConfig is how to reach the test server, without a database.
func serverConfig(t *testing.T) *mysql.Config {
	t.Helper()
	cfg, err := mysql.ParseDSN(testdb.DSN(t))
	require.NoError(t, err)
	cfg.DBName = ""
	return cfg
}

// TestAKilledDemoLeavesNoNodes kills the demo itself in the middle; what it leaves in the database of the user's
// server is the database alone.
func TestAKilledDemoLeavesNoNodes(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("only Linux tells children that their parent has died")
	}
	cfg := serverConfig(t)
	var out lockedBuffer
	cmd := command(t, []string{"TMPDIR=" + t.TempDir()}, "demo", "--for", "10s", "--dsn", cfg.FormatDSN())
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "schedules, from") }, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	pids := regexp.MustCompile(`is process (\d+)`).FindAllStringSubmatch(out.String(), -1)
	require.Len(t, pids, 3)
	for _, match := range pids {
		pid, err := strconv.Atoi(match[1])
		require.NoError(t, err)
		assert.Eventually(t, func() bool { return gone(pid) }, 5*time.Second, 10*time.Millisecond, "node process %d", pid)
	}
	dropDemo(t, cfg, out.String())
}

// TestAnInterruptedDemoCleansUp sends the demo, on its own server, what Ctrl-C sends.
func TestAnInterruptedDemoCleansUp(t *testing.T) {
	temp := t.TempDir()
	var out lockedBuffer
	cmd := command(t, []string{"TMPDIR=" + temp}, "demo", "--for", "10s")
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "schedules, from") }, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	assert.Equal(t, 130, cmd.ProcessState.ExitCode())
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left)
	pids := regexp.MustCompile(`process (\d+)`).FindAllStringSubmatch(out.String(), -1)
	require.Len(t, pids, 4, "a server and three nodes")
	for _, match := range pids {
		pid, err := strconv.Atoi(match[1])
		require.NoError(t, err)
		assert.True(t, gone(pid), "process %d", pid)
	}
}

// openDemo opens the database that a demo has made.
func openDemo(t *testing.T, cfg *mysql.Config, out string) *sql.DB {
	t.Helper()
	cfg = cfg.Clone()
	cfg.DBName = regexp.MustCompile(`database (qrtz_demo_\w+)`).FindStringSubmatch(out)[1]
	db, err := sql.Open("mysql", cfg.FormatDSN())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func dropDemo(t *testing.T, cfg *mysql.Config, out string) {
	t.Helper()
	db := openDemo(t, cfg, out)
	var name string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name))
	_, err := db.ExecContext(t.Context(), "DROP DATABASE "+name)
	require.NoError(t, err)
}

// gone tells whether a process has ended; it may not have been reaped.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil && syscall.Kill(pid, 0) != nil || strings.Contains(string(stat), ") Z ")
}
