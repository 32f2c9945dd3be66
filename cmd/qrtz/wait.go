package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"
)

var errStillRunning = errors.New("gave up waiting after --timeout: it is still running")

// waitFlags are --wait and --timeout.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

func (w *waitFlags) add(f *pflag.FlagSet, until string) {
	f.BoolVar(&w.wait, "wait", false, "wait until "+until)
	f.DurationVar(&w.timeout, "timeout", 0, "with --wait: for at most this long (default without end)")
}

// within is a context that ends when --timeout is over.
func (w *waitFlags) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, w.timeout, errStillRunning)
}

// every calls attempt at once and then every so often until it reports true, fails or ctx ends.
func every(ctx context.Context, pause time.Duration, attempt func() (bool, error)) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		done, err := attempt()
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx) // which says why
		}
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
