//go:build unix && !linux

package main

import "syscall"

// attr has a server run as another user if need be. It stays in our process group: no signal follows the death of a parent here.
func attr(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: user}
}
