package worker

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// aRun is a run as handlers get it.
func aRun() *qrtz.Run {
	return &qrtz.Run{ID: 11, JobID: 12, ScheduleID: 13, FireTime: time.UnixMilli(1_800_000_000_123), Attempt: 2, Node: "node-1", Fence: 14}
}

// TestRegister also sees that Classes and Register agree: a class registered twice panics.
func TestRegister(t *testing.T) {
	db, err := sql.Open("mysql", "user@unix(/nowhere)/nothing")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for _, opts := range []Options{{}, {AllowShell: true}} {
		s, err := qrtz.Open(db, qrtz.Config{App: "a"})
		require.NoError(t, err)
		Register(s, nil, opts)
		for _, class := range Classes(opts) {
			assert.Panics(t, func() { qrtz.Handle(s, class, noop) }, class)
		}
	}
	assert.NotContains(t, Classes(Options{}), "shell", "only when allowed")
}

func TestUnusableDataIsRefused(t *testing.T) {
	classes := map[string]func(context.Context, *qrtz.Run, json.RawMessage) error{
		"sql": sqlClass{}.run, "http": newHTTPClass().run, "sleep": sleep, "noop": noop, "shell": shell,
	}
	for _, c := range []struct{ class, data, says string }{
		{"sql", ``, "statement is empty"},
		{"sql", `{"statements": "SELECT 1"}`, `unknown field "statements"`},
		{"sql", `{"statement": "SELECT :job"}`, "unknown parameter :job: allowed are :run_id"},
		{"sql", `{"statement": "SELECT ?"}`, "a bare ?"},
		{"sql", `{"statement": 1}`, "for example {"},
		{"http", `{}`, "want http:// or https://"},
		{"http", `{"url": "ftp://example.com"}`, "want http:// or https://"},
		{"http", `{"url": "http://example.com", "timeout": "10"}`, `timeout "10"`},
		{"http", `{"url": "http://example.com", "expect": "200"}`, "want a status"},
		{"http", `{"url": "http://example.com", "expect": [20]}`, "three digits"},
		{"http", `{"url": "http://example.com", "method": "GE T"}`, "method"},
		{"sleep", `{}`, "want ms between"},
		{"sleep", `{"ms": -1}`, "want ms between"},
		{"sleep", `{"ms": 1} {}`, "behind the closing brace"},
		{"noop", `{"x": 1}`, `unknown field "x"`},
		{"shell", `{"command": " "}`, "command is empty"},
		{"shell", `{"cmd": "ls"}`, `unknown field "cmd"`},
	} {
		err := classes[c.class](t.Context(), aRun(), json.RawMessage(c.data))
		require.ErrorContains(t, err, c.says, "%s %s", c.class, c.data)
		assert.ErrorContains(t, err, "JOB_DATA of class "+c.class)
	}
}

func TestNoopTakesNoData(t *testing.T) {
	for _, data := range []string{``, `null`, ` {} `} {
		assert.NoError(t, noop(t.Context(), aRun(), json.RawMessage(data)), data)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	require.NoError(t, sleep(t.Context(), aRun(), json.RawMessage(`{"ms": 1}`)))
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	require.ErrorIs(t, sleep(ctx, aRun(), json.RawMessage(`{"ms": 86400000}`)), why)
}
