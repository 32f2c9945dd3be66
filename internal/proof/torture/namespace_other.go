//go:build !linux

package main

import (
	"errors"
	"syscall"
)

func ownNamespace() *syscall.SysProcAttr { return nil }

func ownProc() error { return errors.New("there are no namespaces of process ids here") }

func canHaveNamespace() bool { return false }
