//go:build unix && !linux

package node

import (
	"errors"
	"os"
	"syscall"
)

// whoAmI is the identity of this process. Here a process id has one meaning on the whole machine, which its host name tells;
// when a process started cannot be told.
func whoAmI() identity { return identity{pid: int64(os.Getpid()), known: true} }

// processLives tells whether a process of this machine is there.
func processLives(pid int64) bool {
	if pid < 1 || pid > 1<<31-1 {
		return true // that is no process: a person wrote it there
	}
	err := syscall.Kill(int(pid), 0)
	return !errors.Is(err, syscall.ESRCH)
}

func processStart(int64) (int64, bool) { return 0, false }
