// Package worker holds the classes that `qrtz node run` carries out without any Go of the user's:
// sql, http, sleep, noop and, where it is allowed, shell.
package worker

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/qrtz-go/qrtz"
)

// Options say what a worker may do.
type Options struct {
	// AllowShell registers the class shell: everyone who can write QRTZ_JOB can then run any command here.
	AllowShell bool
}

// Register registers the built-in classes. Statements of class sql run on db, which should not be the
// pool that the scheduler itself works with: slow statements would keep it from its heartbeat.
// Call it once, before Scheduler.Run.
func Register(s *qrtz.Scheduler, db *sql.DB, opts Options) {
	qrtz.Handle(s, "sql", sqlClass{db}.run)
	qrtz.Handle(s, "http", newHTTPClass().run)
	qrtz.Handle(s, "sleep", sleep)
	qrtz.Handle(s, "noop", noop)
	if opts.AllowShell {
		qrtz.Handle(s, "shell", shell)
	}
}

// Classes lists the names that Register registers with these options.
func Classes(opts Options) []string {
	classes := []string{"sql", "http", "sleep", "noop"}
	if opts.AllowShell {
		classes = append(classes, "shell")
	}
	return classes
}

// decode reads JOB_DATA strictly into a struct: a misspelt field would otherwise do nothing, silently.
// The example shows what the data of the class looks like. No data counts as {}.
func decode(data []byte, into any, class, example string) error {
	if data = bytes.TrimSpace(data); len(data) == 0 || bytes.Equal(data, []byte("null")) {
		data = []byte("{}")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind the closing brace")
		}
	}
	if err != nil {
		return fmt.Errorf("JOB_DATA of class %s: %w; want for example %s", class, err, example)
	}
	return nil
}

const sleepExample = `{"ms": 500}`

// sleep waits: a stand-in for work, and for seeing what happens to it when a node stops.
func sleep(ctx context.Context, _ *qrtz.Run, data json.RawMessage) error {
	var want struct {
		MS *int64 `json:"ms"`
	}
	if err := decode(data, &want, "sleep", sleepExample); err != nil {
		return err
	}
	const day = 24 * 60 * 60 * 1000
	if want.MS == nil || *want.MS < 0 || *want.MS > day {
		return fmt.Errorf("JOB_DATA of class sleep: want ms between 0 and %d, for example %s", day, sleepExample)
	}
	timer := time.NewTimer(time.Duration(*want.MS) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("woken up: %w", context.Cause(ctx))
	case <-timer.C:
		return nil
	}
}

func noop(_ context.Context, _ *qrtz.Run, data json.RawMessage) error {
	var nothing struct{}
	return decode(data, &nothing, "noop", "{}, or NULL")
}
