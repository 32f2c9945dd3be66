//go:build unix

package throwaway_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/throwaway"
)

// childEnv has this test binary be a process that makes a database, says where its server is, and ends in the way it names.
const childEnv = "QRTZ_THROWAWAY_CHILD"

func TestMain(m *testing.M) {
	if how := os.Getenv(childEnv); how != "" {
		end(how)
	}
	os.Exit(m.Run()) // without Stop
}

func end(how string) {
	d, err := throwaway.Create(context.Background())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(d.Config().Addr)
	switch how {
	case "stop":
		if err := throwaway.Stop(); err != nil {
			panic(err)
		}
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	os.Exit(0)
}

func child(t *testing.T, how string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), throwaway.Env+"=", childEnv+"="+how), env...)
	out, err := cmd.Output() // it ends although the guard runs on
	if how == "exit" || how == "stop" {
		require.NoError(t, err, string(out))
	}
	return strings.TrimSpace(string(out))
}

func TestAServerAndItsFilesAreGoneWithTheProcess(t *testing.T) {
	for _, how := range []string{"stop", "exit", "kill"} {
		t.Run(how, func(t *testing.T) {
			socket := child(t, how)
			dir := filepath.Dir(socket)
			require.Contains(t, dir, "qrtz-db-")
			require.Eventually(t, func() bool {
				_, err := os.Stat(dir)
				return os.IsNotExist(err)
			}, 30*time.Second, 20*time.Millisecond, dir)
		})
	}
}

func TestWithoutAServerTheErrorSaysWhatToDo(t *testing.T) {
	why := child(t, "fail", "QRTZ_MYSQLD=/nowhere/mariadbd")
	require.Contains(t, why, "no database to test on: QRTZ_TEST_DSN is not set, and no private server could be started: QRTZ_MYSQLD: ")
	why = child(t, "fail", throwaway.Env+"=here")
	require.Contains(t, why, `QRTZ_TEST_DSN: `)
	require.Contains(t, why, "want for example root:secret@tcp(127.0.0.1:3306)/")
}
