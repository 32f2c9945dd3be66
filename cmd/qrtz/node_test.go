package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNodesAreListedAndSwitched(t *testing.T) {
	s := newSite(t)
	assert.Equal(t, []any{"both", "n1"}, s.ids("node", "list", "--app", "a"))
	s.exec(`UPDATE QRTZ_NODE SET HANDLERS = '["noop", "sql"]' WHERE HOST_IP = 'n1'`)
	assert.Regexp(t, `(?s)"classes": \[\].*"classes": \[\s+"noop",\s+"sql"`, s.ok("node", "list", "--app", "a", "--json"))
	assert.Equal(t, "node n1 of app a is off\n0 runs continue\n", s.ok("node", "stop", "n1"))
	assert.Contains(t, s.fails(1, "node", "stop", "both"), "say which with --app")
	s.exec(`UPDATE QRTZ_NODE SET STATE = 'N', STOPPED_BY_APP = 1 WHERE HOST_IP = 'both' AND APPLICATION = 'b'`)
	assert.Regexp(t, `both +h +off \(app\)`, s.ok("node", "list"))
	assert.Contains(t, s.ok("node", "stop", "both", "--app", "b"), "is off, as it was before")
	assert.Equal(t, "0", s.text(`SELECT STOPPED_BY_APP FROM QRTZ_NODE WHERE HOST_IP = 'both' AND APPLICATION = 'b'`), "now the operator's")
	assert.Equal(t, "node n1 of app a is on\n", s.ok("node", "start", "n1"))
	assert.Contains(t, s.fails(1, "node", "start", "x"), `there is no node "x"`)
}

func TestDrainWaitsForRunningRuns(t *testing.T) {
	s := newSite(t)
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, STATE, HOST_IP, INSTANCE) VALUES (1, 'a', 3, 'RUNNING', 'n1', 1), (2, 'a', 3, 'RUNNING', 'both', 2)`)
	assert.Equal(t, "node n1 of app a is off\n1 runs continue\n", s.ok("node", "drain", "n1"))
	r := run(t, s.env, "node", "drain", "n1", "--wait", "--timeout", "1s")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "it is still running")
	var out lockedBuffer
	cmd := command(t, s.env, "node", "drain", "n1", "--wait")
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "1 runs continue") }, 10*time.Second, 10*time.Millisecond)
	s.exec(`UPDATE QRTZ_RUN SET STATE = 'SUCCEEDED' WHERE ID = 1`)
	require.NoError(t, cmd.Wait())
	assert.Contains(t, out.String(), "0 runs continue")
}
