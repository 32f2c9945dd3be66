package main_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAJobIsRunNow has a node of its own.
func TestAJobIsRunNow(t *testing.T) {
	s := newSite(t)
	var log lockedBuffer
	node := command(t, s.env, "node", "run", "--app", "a", "--id", "worker")
	node.Stderr = &log
	require.NoError(t, node.Start())
	require.Eventually(t, func() bool { return strings.Contains(log.String(), `"joined"`) }, 20*time.Second, 10*time.Millisecond)

	text := s.ok("job", "run", "mail", "--app", "a", "--wait", "--timeout", "20s")
	assert.Regexp(t, `^run \d+ of job 1 \(mail\) of app a\n(?s:.*)SUCCEEDED on node worker\n$`, text)
	text = s.ok("job", "run", "3", "--data", `{"ms": 1}`, "--wait", "--timeout", "20s")
	assert.Contains(t, text, "SUCCEEDED", "not the job's minute")
	r := run(t, s.env, "job", "run", "3", "--data", `{"nonsense": 1}`, "--wait", "--timeout", "20s")
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `run \d+ is FAILED: JOB_DATA of class sleep`, r.stderr)
	s.exec(`UPDATE QRTZ_JOB SET HISTORY = 'FAILED' WHERE ID = 1`)
	assert.Contains(t, s.ok("job", "run", "1", "--wait", "--timeout", "20s"), "keeps no record of it (HISTORY FAILED)")
	assert.Contains(t, s.fails(2, "job", "run", "1", "--data", "{"), "want JSON")
	r = run(t, s.env, "job", "run", "3", "--wait", "--timeout", "1s")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "gave up waiting")

	require.NoError(t, node.Process.Signal(syscall.SIGKILL))
	require.Error(t, node.Wait())
}
