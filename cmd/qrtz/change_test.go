package main_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSchedulesArePausedResumedAndDeleted(t *testing.T) {
	s := newSite(t)
	state := func() string { return s.text(`SELECT STATE FROM QRTZ_EXECUTE WHERE ID = 11`) }
	assert.Equal(t, "execute 11 of job 1 (mail) of app a is PAUSED\n", s.ok("execute", "pause", "11"))
	assert.Contains(t, s.ok("execute", "pause", "11"), "is PAUSED, as it was before")
	assert.Equal(t, "PAUSED", state())
	assert.Equal(t, "resumed 1 of 1 schedules of job 1 (mail) of app a\n", s.ok("job", "resume", "mail", "--app", "a"))
	assert.Equal(t, "EXECUTING", state())
	assert.Equal(t, "paused 1 of 1 schedules of job 1 (mail) of app a\n", s.ok("job", "pause", "1"))
	assert.Contains(t, s.ok("execute", "resume", "11"), "is EXECUTING\n")
	s.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'COMPLETE' WHERE ID = 11`)
	assert.Contains(t, s.fails(1, "execute", "resume", "11"), "is COMPLETE, which cannot become EXECUTING")
	assert.Contains(t, s.fails(1, "execute", "pause", "99"), "there is no schedule 99")
	assert.Contains(t, s.fails(2, "execute", "delete", "11"), "give --yes")
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, EXECUTE_ID) VALUES (1, 'a', 1, 11)`)
	assert.Contains(t, s.ok("execute", "delete", "11", "--yes"), "deleted execute 11")
	assert.Equal(t, []any{12.0}, s.ids("execute", "list"))
	assert.Equal(t, "CANCELLED: its schedule was deleted", s.text(`SELECT CONCAT(STATE, ': ', MESSAGE) FROM QRTZ_RUN WHERE ID = 1`))
}

func TestAJobIsDeleted(t *testing.T) {
	s := newSite(t)
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, STATE) VALUES (1, 'a', 1, 'PENDING'), (2, 'a', 1, 'SUCCEEDED'), (3, 'b', 2, 'PENDING')`)
	assert.Contains(t, s.fails(2, "job", "delete", "1"), "give --yes")
	assert.Equal(t, "deleted job 1 (mail) of app a\n", s.ok("job", "delete", "1", "--yes"))
	assert.Equal(t, []any{2.0, 3.0}, s.ids("job", "list"))
	assert.Equal(t, []any{12.0}, s.ids("execute", "list"))
	for id, want := range map[int]string{1: "CANCELLED", 2: "SUCCEEDED", 3: "PENDING"} {
		assert.Equal(t, want, s.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, id))
	}
}

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

func TestRunsAreCancelledAndTriedAgain(t *testing.T) {
	s := newSite(t)
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE) VALUES
		(1, 'a', 1, 11, 1700000001000, 'PENDING'), (2, 'a', 1, 11, 1700000002000, 'RUNNING'), (3, 'b', 2, 12, 1700000001000, 'FAILED'), (4, 'b', 2, 12, 1700000002000, 'SUCCEEDED')`)
	assert.Equal(t, "asked for run 1 of job mail to be cancelled\n", s.ok("run", "cancel", "1"))
	assert.Equal(t, "CANCELLED", s.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = 1`))
	s.ok("run", "cancel", "2")
	assert.Contains(t, s.ok("run", "show", "2"), "RUNNING, to be cancelled")
	assert.Contains(t, s.fails(1, "run", "cancel", "3"), "run 3 is FAILED")
	assert.Regexp(t, `^run \d+ retries run 3 \(attempt 2\)\n$`, s.ok("run", "retry", "3"))
	assert.Equal(t, "PENDING", s.text(`SELECT STATE FROM QRTZ_RUN WHERE APPLICATION = 'b' AND FIRE_TIME = 1700000001000 AND ATTEMPT = 2`))
	assert.Contains(t, s.fails(1, "run", "retry", "3"), "has been tried again already")
	assert.Contains(t, s.fails(1, "run", "retry", "4"), "run 4 is SUCCEEDED")
	assert.Contains(t, s.fails(1, "run", "retry", "9"), "there is no run 9")
}

// TestARunningRunIsCancelled looks at the whole way: the request, the node that sees it, the handler that returns.
func TestARunningRunIsCancelled(t *testing.T) {
	s := newSite(t)
	node := command(t, s.env, "node", "run", "--app", "a", "--id", "worker")
	require.NoError(t, node.Start())
	s.ok("job", "run", "3") // a minute of sleep
	state := func(want string) func() bool {
		return func() bool { return s.text(`SELECT STATE FROM QRTZ_RUN WHERE JOB_ID = 3`) == want }
	}
	require.Eventually(t, state("RUNNING"), 20*time.Second, 20*time.Millisecond)
	s.ok("run", "cancel", s.text(`SELECT ID FROM QRTZ_RUN WHERE JOB_ID = 3`))
	require.Eventually(t, state("CANCELLED"), 10*time.Second, 20*time.Millisecond)
	require.NoError(t, node.Process.Signal(syscall.SIGTERM))
	require.NoError(t, node.Wait())
}
