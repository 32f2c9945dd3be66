//go:build unix

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func shellData(t *testing.T, command, dir string) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(map[string]any{"command": command, "dir": dir, "env": map[string]string{"WHAT": "a b"}})
	require.NoError(t, err)
	return data
}

func TestShell(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, shell(t.Context(), aRun(), shellData(t, `echo "$WHAT $QRTZ_RUN_ID $QRTZ_ATTEMPT $QRTZ_FENCE $QRTZ_FIRE_TIME" >out`, dir)))
	out, err := os.ReadFile(filepath.Join(dir, "out"))
	require.NoError(t, err)
	assert.Equal(t, "a b 11 2 14 2027-01-15T08:00:00.123Z\n", string(out))
}

func TestShellQuotesTheEndOfTheOutput(t *testing.T) {
	err := shell(t.Context(), aRun(), shellData(t, `i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo the reason >&2; exit 3`, ""))
	require.ErrorContains(t, err, "exit status 3; the end of its output: …")
	assert.True(t, strings.HasSuffix(err.Error(), "the reason"))
	assert.Less(t, len(err.Error()), maxTail+200)
	assert.ErrorContains(t, shell(t.Context(), aRun(), shellData(t, `exit 4`, "")), "exit status 4; it wrote nothing")
}

func TestShellIsKilledWithAllItsChildren(t *testing.T) {
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	data := shellData(t, `sleep 300 & echo $! >pid.new; mv pid.new pid; wait`, dir)
	ended := make(chan error, 1)
	go func() {
		ended <- shell(ctx, aRun(), data)
	}()
	var pid int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(pidFile)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	}, 10*time.Second, 5*time.Millisecond)
	cancel(errors.New("the node stops"))
	require.ErrorContains(t, <-ended, "the node stops")
	assert.Eventually(t, func() bool { return gone(pid) }, 5*time.Second, 5*time.Millisecond, "the child of the shell")
}

// gone tells whether a process has ended; it may not have been reaped.
func gone(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	return strings.Contains(string(stat), ") Z ")
}
