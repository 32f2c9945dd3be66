//go:build unix

package node

import (
	"errors"
	"syscall"
)

// processLives tells whether a process of this machine is there. A false yes only means that a restarted
// node waits for its old heartbeat to expire, or takes another id.
func processLives(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
