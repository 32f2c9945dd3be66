//go:build !linux

package bench

import (
	"context"
	"time"
)

// pause waits, perhaps a millisecond longer.
func pause(d time.Duration) { sleep(context.Background(), d) }
