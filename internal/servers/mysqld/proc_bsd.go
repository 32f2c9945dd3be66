//go:build unix && !linux

package mysqld

import "syscall"

// sysProcAttr gives a detached server a session of its own. A throwaway server
// stays in our process group here, as no signal follows the death of a parent.
func sysProcAttr(detached bool, as *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: detached, Credential: as.credential()}
}
