//go:build linux || darwin || freebsd || netbsd || openbsd

package switchboard

import (
	"os"
	"syscall"
)

// board maps the file of points into memory: what is noted there stays, however the process ends, and child processes note
// theirs beside it.
func board(path string) []byte {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		panic(err)
	}
	points, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return points
}
