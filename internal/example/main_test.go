package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// The README shows this program, to the letter.
func TestREADMEShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(program), "\n") // without the package comment
	require.Contains(t, string(readme), "```go\n"+code+"```\n")
}

// It does what it says, in a database that has nothing, and again in one that has its tables.
func TestItGreets(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "example")
	out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	dsn := testdb.DSN(t)
	for range 2 {
		greetOnce(t, binary, dsn)
	}
}

func greetOnce(t *testing.T, binary, dsn string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), "DSN="+dsn)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	giveUp := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer giveUp.Stop()
	lines := bufio.NewScanner(stderr)
	greeted := false
	for lines.Scan() && !greeted {
		greeted = strings.Contains(lines.Text(), "hello world, due at ")
	}
	require.True(t, greeted)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait(), "it stops when asked")
}
