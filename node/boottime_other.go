//go:build !linux

package node

import "time"

// elapsed is a clock that never jumps. Whether it counts the time in which the machine was suspended, the system decides.
func elapsed() time.Duration { return monotonic() }
