package node

import (
	"time"

	"golang.org/x/sys/unix"
)

// elapsed is a clock that never jumps and counts the time in which the machine was suspended. Its zero is of no meaning.
func elapsed() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return monotonic() // a kernel before 2.6.39, or a sandbox: it fails each time or never
	}
	return time.Duration(t.Nano())
}
