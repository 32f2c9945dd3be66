package main_test

import (
	"database/sql"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

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
