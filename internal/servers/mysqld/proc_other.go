//go:build !unix

package mysqld

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// lockServer fails: private servers need Unix sockets and inherited locks.
func lockServer(string) (*os.File, error) {
	return nil, errors.New("private servers run on Unix systems only: give the DSN of a running server")
}

func ownedByUs(fs.FileInfo) bool { return false }

func sysProcAttr(bool, *account) *syscall.SysProcAttr { return nil }
