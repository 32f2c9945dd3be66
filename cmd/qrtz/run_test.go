package main_test

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunsAreListedAndShown(t *testing.T) {
	s := newSite(t)
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, MESSAGE) VALUES
		(1, 'a', 1, 11, 1700000001000, 'FAILED', 'panic: oops\n\ngoroutine 7'), (2, 'a', 3, NULL, 0, 'PENDING', NULL), (3, 'b', 2, 12, 1700000002000, 'SUCCEEDED', NULL), (4, 'a', 9, NULL, 1700000003000, 'LOST', NULL)`)
	assert.Equal(t, []any{4.0, 3.0, 2.0, 1.0}, s.ids("run", "list"))
	assert.Equal(t, []any{4.0, 2.0}, s.ids("run", "list", "--app", "a", "--limit", "2"))
	assert.Equal(t, []any{1.0}, s.ids("run", "list", "--job", "mail", "--app", "a"))
	assert.Equal(t, []any{2.0}, s.ids("run", "list", "--state", "pending"))
	assert.Equal(t, []any{1.0}, s.ids("run", "list", "--schedule", "11"))
	s.exec(`UPDATE QRTZ_RUN SET RUN_KEY = 'k' WHERE ID = 1`)
	assert.Equal(t, []any{1.0}, s.ids("run", "list", "--job", "mail", "--app", "a", "--key", "k"))
	assert.Contains(t, s.fails(2, "run", "list", "--key", "k"), "give --job with it")
	s.exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = UNIX_TIMESTAMP() * 1000 - 3600000 WHERE ID = 3`)
	assert.Equal(t, []any{3.0}, s.ids("run", "list", "--since", "2h"))
	text := s.ok("run", "list")
	assert.Regexp(t, `1 +a +mail +FAILED +1 +- +2023-11-14 22:13:21.000 +- +- +panic: oops\n`, text)
	assert.Contains(t, text, "(deleted)")
	text = s.ok("run", "show", "1")
	assert.Regexp(t, `(?s)schedule +11\n.*panic: oops\n\ngoroutine 7`, text)
	assert.Contains(t, s.fails(1, "run", "show", "7"), "there is no run 7")
}

func TestARunIsShownWithItsAttempts(t *testing.T) {
	s := newSite(t)
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, FIRE_TIME, STATE, ATTEMPT, ORIGIN) VALUES
		(1, 'a', 1, 1700000001000, 'FAILED', 1, NULL), (5, 'a', 1, 1700000001000, 'LOST', 2, 1), (9, 'a', 1, 1700000001000, 'PENDING', 3, 1), (7, 'a', 1, 1700000001000, 'FAILED', 1, NULL)`)
	for _, id := range []string{"1", "5", "9"} {
		text := s.ok("run", "show", id)
		assert.Regexp(t, `(?s)\nattempts\n.*\n1 +a .*\n5 +a .*\n9 +a `, text)
		assert.NotContains(t, text, "\n7 ")
	}
	assert.NotContains(t, s.ok("run", "show", "7"), "attempts")
	assert.Contains(t, s.ok("run", "show", "1", "--json"), `"attempts": [`)
}

// What no live node can start says so wherever it is shown, and is not waited for.
func TestAClassThatNoNodeHandlesIsTold(t *testing.T) {
	s := newSite(t)
	const why = "no live node has a handler for its class"
	assert.Regexp(t, `1 +a +mail .*`+why, s.ok("job", "list"))
	assert.Contains(t, s.ok("job", "show", "1"), why)
	assert.Regexp(t, `11 +a +mail .*`+why, s.ok("execute", "list"))
	began := time.Now()
	r := run(t, s.env, "job", "run", "1", "--wait")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, why)
	assert.Less(t, time.Since(began), 10*time.Second)
	assert.Regexp(t, `PENDING .*`+why, s.ok("run", "list"))
	s.exec(`UPDATE QRTZ_NODE SET HANDLERS = '["noop"]' WHERE HOST_IP = 'n1'`)
	assert.NotContains(t, s.ok("run", "list"), why)
	assert.Regexp(t, `3 +a .*`+why, s.ok("job", "list"), "of another class")
	s.exec(`UPDATE QRTZ_NODE SET HEARTBEAT_AT = 1700000000000 WHERE HOST_IP = 'n1'`)
	assert.Contains(t, s.ok("run", "list"), why, "its node has been silent for long")
}

// A list that may have more says how, on stderr: what is on stdout stays a table, or JSON.
func TestALongListIsReadInParts(t *testing.T) {
	s := newSite(t)
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, AVAILABLE_AT, STATE) VALUES (1, 'a', 1, 11, 1700000001000, 1700000001000, 'FAILED'),
		(2, 'a', 1, 11, 1700000002000, 1700000002000, 'SUCCEEDED'), (3, 'b', 2, 12, 1700000004000, 1700000004000, 'FAILED'), (4, 'a', 1, 11, 1600000000000, 1600000000000, 'LOST')`)
	for _, c := range []struct {
		args string
		want []string
	}{
		{"run list --limit 3", []string{"4 3 2", "1"}},
		{"run list --app a --limit 2", []string{"2 1", "4"}},
		{"run list --state failed --limit 1", []string{"3", "1", ""}},
		{"run list --job mail --app a --limit 3", []string{"4 2 1", ""}},
		{"execute list --limit 1", []string{"11", "12", ""}},
		{"schedule list --app b --limit 1", []string{"12", ""}},
		{"job list --limit 2", []string{"1 2", "3"}},
	} {
		after := ""
		for i, want := range c.want {
			r := run(t, s.env, strings.Fields(c.args+after)...)
			require.Zero(t, r.code, r.stderr)
			var ids []string
			for _, m := range regexp.MustCompile(`(?m)^(\d+) `).FindAllStringSubmatch(r.stdout, -1) {
				ids = append(ids, m[1])
			}
			assert.Equal(t, want, strings.Join(ids, " "), c.args)
			more := regexp.MustCompile(`^There may be more: add( --after \S+)\n$`).FindStringSubmatch(r.stderr)
			if i == len(c.want)-1 {
				assert.Empty(t, r.stderr, c.args)
			} else if assert.NotNil(t, more, r.stderr) {
				after = more[1]
			}
		}
	}
	assert.Contains(t, s.fails(2, "run", "list", "--app", "a", "--after", "4"), `--after "4": it is the end of a list with other filters`)
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
	assert.Contains(t, s.fails(1, "run", "retry", "3"), "is PENDING; only a FAILED, LOST or CANCELLED run")
	s.exec(`UPDATE QRTZ_RUN SET STATE = 'FAILED', MESSAGE = NULL WHERE ATTEMPT = 2`)
	assert.Regexp(t, `^run \d+ retries run 3 \(attempt 3\)\n$`, s.ok("run", "retry", "3"))
	s.exec(`DELETE FROM QRTZ_RUN WHERE ID = 3`)
	s.ok("run", "cancel", "3")
	assert.Equal(t, "CANCELLED", s.text(`SELECT STATE FROM QRTZ_RUN WHERE ORIGIN = 3 AND ATTEMPT = 3`))
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
