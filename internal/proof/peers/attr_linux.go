package main

import "syscall"

// attr has a server die with this process, and run as another user if need be.
func attr(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: user}
}
