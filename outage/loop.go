package outage

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

// Every does work until ctx is done, for the first time after interval, and then every interval, counted from
// beginning to beginning. Failures are logged once per outage and tried again sooner (Pacer).
func Every(ctx context.Context, log zerolog.Logger, doing string, interval time.Duration, work func(context.Context) error) {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	pacer := New(log, doing)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		err := work(ctx)
		if ctx.Err() != nil {
			return // and so is the error
		}
		timer.Reset(max(0, pacer.Next(err, interval)-time.Since(began)))
	}
}
