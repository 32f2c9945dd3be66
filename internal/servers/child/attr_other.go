//go:build !linux

package child

import "syscall"

// attr leaves a child in our process group: no signal follows the death of a parent here.
func attr() *syscall.SysProcAttr { return nil }
