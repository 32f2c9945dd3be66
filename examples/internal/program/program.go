// Package program runs an example as its users do, as a process of its own, and reads what it logs. Import it from the
// tests of examples only.
package program

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/child"
)

// patience is how long Await and Wait wait.
const patience = 30 * time.Second

// Build builds the example in the test's directory.
func Build(tb testing.TB) (binary string) {
	tb.Helper()
	binary = filepath.Join(tb.TempDir(), "example")
	out, err := exec.CommandContext(tb.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(tb, err, string(out))
	return binary
}

// Program is an example that has been started.
type Program struct {
	tb      testing.TB
	process *child.Process
	log     output
}

// Start starts an example on a database. What still runs when the test ends is killed.
func Start(tb testing.TB, binary, dsn string) *Program {
	tb.Helper()
	p := &Program{tb: tb}
	cmd := exec.Command(binary) //nolint:noctx // it ends by signals
	cmd.Env = append(os.Environ(), "QRTZ_DSN="+dsn, "NO_COLOR=1")
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	var err error
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
	require.Eventually(p.tb, func() bool { return strings.Contains(p.Log(), text) }, patience, 10*time.Millisecond, "to log %q", text)
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
