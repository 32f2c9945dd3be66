package mysqld

import "syscall"

// sysProcAttr gives a detached server a session of its own, out of reach of the
// terminal's signals, and makes any other die with this process. A throwaway server has
// its own process group, so that it is stopped by us and not by a Ctrl-C.
func sysProcAttr(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
