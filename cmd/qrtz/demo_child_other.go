//go:build !linux

package main

import "syscall"

// childAttr leaves a node in the demo's process group: no signal follows the death of a parent here.
func childAttr() *syscall.SysProcAttr { return nil }
