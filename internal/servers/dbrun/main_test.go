package main

import (
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheCommandGetsAServerAndGivesItsExitCode(t *testing.T) {
	t.Setenv(env, "")
	code, err := run([]string{"--", "sh", "-c", `case $QRTZ_TEST_DSN in root@*) exit 7;; esac`})
	require.NoError(t, err)
	assert.Equal(t, 7, code)
}

func TestAGivenServerIsPassedThrough(t *testing.T) {
	t.Setenv(env, "given")
	code, err := run([]string{"--", "sh", "-c", `test "$QRTZ_TEST_DSN" = given`})
	require.NoError(t, err)
	assert.Zero(t, code)
}

func TestTheKeptServerHasADatabaseForTheCommand(t *testing.T) {
	t.Setenv(dsnEnv, "")
	code, err := run([]string{"in", t.TempDir(), "--", "sh", "-c", `case $QRTZ_DSN in root@*/qrtz?*) exit 7;; esac`})
	require.NoError(t, err)
	assert.Equal(t, 7, code)
	t.Setenv(dsnEnv, "given")
	code, err = run([]string{"in", "none", "--", "sh", "-c", `test "$QRTZ_DSN" = given`})
	require.NoError(t, err)
	assert.Zero(t, code)
}

func TestSignalsReachTheCommand(t *testing.T) {
	t.Setenv(env, "given")
	// The command signals its parent, us, who must hand the signal back to it.
	code, err := run([]string{"--", "sh", "-c", `trap 'exit 9' TERM; kill -TERM $PPID; while :; do sleep 0.01; done`})
	require.NoError(t, err)
	assert.Equal(t, 9, code)
	code, err = run([]string{"--", "sh", "-c", `kill -KILL $$`})
	require.NoError(t, err)
	assert.Equal(t, 128+int(syscall.SIGKILL), code)
}

func TestUpLeavesAServerThatDownStops(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, up(dir))
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = "root", "unix", dir+"/s.sock"
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	conn, err := connector.Connect(t.Context())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, down(dir))
	_, err = connector.Connect(t.Context())
	require.Error(t, err)
}
