package mysqld

import "syscall"

// sysProcAttr gives a detached server a session of its own, out of reach of the
// terminal's signals, and makes any other die with this process. A throwaway server has
// its own process group, so that it is stopped by us and not by a Ctrl-C.
// (The kernel forgets the signal when a process changes its user: as is changed before.)
func sysProcAttr(detached bool, as *account) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true, Credential: as.credential()}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: as.credential()}
}
