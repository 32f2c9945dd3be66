package bench

import (
	"syscall"
	"time"
)

// pause waits, more exactly than a timer of Go's, which an idle process rounds up to the next millisecond.
func pause(d time.Duration) {
	if d > 0 {
		left := syscall.NsecToTimespec(d.Nanoseconds())
		for syscall.Nanosleep(&left, &left) == syscall.EINTR { // the rest is in left
		}
	}
}
