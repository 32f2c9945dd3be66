package mysqld_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
)

// userDir, when set, makes this test binary a user of the kept server there: it
// prints the server's process id and holds the lease until its input ends.
const userDir = "QRTZ_TEST_SHARED_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(userDir); dir != "" {
		if err := use(dir); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func use(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lease, err := mysqld.Shared(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Println(lease.PID())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return lease.Release(ctx)
}

// user is another process with a lease.
type user struct {
	cmd    *exec.Cmd
	input  io.Closer
	output *bufio.Reader
}

func startUser(t *testing.T, dir string) *user {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), userDir+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &user{cmd: cmd, input: in, output: bufio.NewReader(out)}
}

// server waits until the user has its lease and returns the server's process id.
func (u *user) server(t *testing.T) (pid int) {
	t.Helper()
	_, err := fmt.Fscanln(u.output, &pid)
	require.NoError(t, err)
	return pid
}

func (u *user) release(t *testing.T) {
	t.Helper()
	require.NoError(t, u.input.Close())
	require.NoError(t, u.cmd.Wait())
}

// running reports whether a server holds the directory's lock.
func running(t *testing.T, dir string) bool {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, "server.lock"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true
	}
	require.NoError(t, err)
	return false
}

func TestSharedRunsFromTheFirstUserToTheLast(t *testing.T) {
	dir := t.TempDir()
	a, b := startUser(t, dir), startUser(t, dir)
	pid := a.server(t)
	assert.Positive(t, pid)
	assert.Equal(t, pid, b.server(t), "both came at once and share one server")
	a.release(t)
	assert.True(t, running(t, dir), "the second still uses it")
	b.release(t)
	assert.False(t, running(t, dir), "the last one stopped it")
}

func TestSharedServerOutlivesAKilledUserAndIsAdopted(t *testing.T) {
	dir := t.TempDir()
	a := startUser(t, dir)
	pid := a.server(t)
	require.NoError(t, a.cmd.Process.Kill())
	require.Error(t, a.cmd.Wait())
	require.True(t, running(t, dir), "left over")
	b := startUser(t, dir)
	assert.Equal(t, pid, b.server(t), "adopted")
	b.release(t)
	assert.False(t, running(t, dir), "a killed user's claim does not leak")
}

func TestSharedUnderManyUsersComingAndGoing(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 5 {
				u := startUser(t, dir)
				var pid int
				_, err := fmt.Fscanln(u.output, &pid)
				assert.NoError(t, err)
				assert.NoError(t, syscall.Kill(pid, 0), "the server of a lease runs")
				assert.NoError(t, u.input.Close())
				assert.NoError(t, u.cmd.Wait())
			}
		})
	}
	wg.Wait()
	assert.False(t, running(t, dir), "no user of it is left")
}
