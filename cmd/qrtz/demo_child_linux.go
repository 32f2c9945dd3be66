package main

import "syscall"

// childAttr keeps a node out of reach of the terminal's Ctrl-C, which the demo passes on in its own way,
// and makes it die with the demo, however that ends.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
