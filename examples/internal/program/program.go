// Package program runs an example as its users do, as a process of its own, and reads what it logs. Import it from the
// tests of examples only.
package program

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/child"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

const (
	startedEnv = "QRTZ_EXAMPLE_STARTED"
	patience   = 30 * time.Second // of Await and Wait
)

// Main runs the tests of an example. In a process that Start has started it is the example itself: test and example are one
// binary, so that the go command repeats the test when the example, or what it is made of, has changed.
func Main(m *testing.M, example func()) {
	if os.Getenv(startedEnv) != "" {
		example()
		os.Exit(0)
	}
	os.Exit(testdb.Main(m))
}

// Program is an example that has been started.
type Program struct {
	tb      testing.TB
	process *child.Process
	log     output
}

// Start starts the example on a database, with arguments if it takes some. If it still runs when the test ends, it is killed.
func Start(tb testing.TB, dsn string, args ...string) *Program {
	tb.Helper()
	p := &Program{tb: tb}
	self, err := os.Executable()
	require.NoError(tb, err)
	cmd := exec.Command(self, args...) //nolint:noctx // it ends by signals
	cmd.Env = append(os.Environ(), startedEnv+"=1", "QRTZ_DSN="+dsn, "NO_COLOR=1")
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	p.process, err = child.Start(cmd)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		p.process.Kill()
		if tb.Failed() {
			tb.Logf("what the example logged:\n%s", p.Log())
		}
	})
	return p
}

// Log is what it has logged so far.
func (p *Program) Log() string { return p.log.String() }

// Await waits until it has logged a text.
func (p *Program) Await(text string) {
	p.tb.Helper()
	p.await(text, 0)
}

// AwaitAnother waits until it logs a text from now on.
func (p *Program) AwaitAnother(text string) {
	p.tb.Helper()
	p.await(text, strings.Count(p.Log(), text))
}

// await waits until it has logged a text more than n times.
func (p *Program) await(text string, n int) {
	p.tb.Helper()
	require.Eventually(p.tb, func() bool { return strings.Count(p.Log(), text) > n }, patience, 10*time.Millisecond, "to log %q", text)
}

// Stop sends it SIGTERM, and expects it to end without an error.
func (p *Program) Stop() {
	p.tb.Helper()
	p.process.Signal(syscall.SIGTERM)
	p.Wait()
}

// Wait expects it to end without an error.
func (p *Program) Wait() {
	p.tb.Helper()
	select {
	case <-p.process.Done():
		require.NoError(p.tb, p.process.Wait())
	case <-time.After(patience):
		require.Fail(p.tb, "it does not end")
	}
}

// Kill ends it with SIGKILL.
func (p *Program) Kill() { p.process.Kill() }

// output is what a process has written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
