//go:build unix

package child_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/child"
)

func TestProcess(t *testing.T) {
	p, err := child.Start(exec.CommandContext(t.Context(), "sleep", "60"))
	require.NoError(t, err)
	assert.True(t, p.Running())
	assert.Positive(t, p.PID())
	p.Signal(syscall.SIGTERM)
	var exit *exec.ExitError
	require.ErrorAs(t, p.Wait(), &exit)
	assert.Equal(t, syscall.SIGTERM, exit.Sys().(syscall.WaitStatus).Signal())
	assert.False(t, p.Running())
	p.Kill() // is no harm now
}

func TestAProgramThatIsNotThere(t *testing.T) {
	_, err := child.Start(exec.CommandContext(t.Context(), "/nowhere/at-all"))
	require.Error(t, err)
}
