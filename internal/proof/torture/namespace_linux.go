package main

import (
	"os"
	"syscall"
)

// ownNamespace starts a process that sees no process but its own, as a container does.
func ownNamespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
}

// ownProc has /proc show this process's own namespace.
func ownProc() error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount("proc", "/proc", "proc", 0, "")
}

// canHaveNamespace tells whether this process may start others in namespaces of their own.
func canHaveNamespace() bool { return os.Geteuid() == 0 }
