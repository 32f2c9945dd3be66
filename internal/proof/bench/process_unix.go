//go:build unix

package bench

import (
	"os"
	"syscall"
	"time"
)

// freeze and thaw are signals that stop a process and let it continue.
var freeze, thaw os.Signal = syscall.SIGSTOP, syscall.SIGCONT

// ownTime is the processor time of this process.
func ownTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
