package execute

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/internal/outage"
)

const (
	// flushEvery is how long a result may wait to be written with others. A process killed within it
	// leaves the run RUNNING, and so LOST, though its handler had returned.
	flushEvery = 25 * time.Millisecond
	flushBatch = 500

	flushTimeout  = 10 * time.Second // for one statement
	flushMaxPause = 2 * time.Second  // between tries while the database is away
	lastFlush     = 10 * time.Second // for what is left when stopping
)

// Results collects the results of runs and writes them in batches. What cannot be written is kept
// until the database is back.
type Results struct {
	complete func(context.Context, []Result) (late int, err error)
	log      zerolog.Logger

	full chan struct{} // a batch is full

	mu      sync.Mutex
	waiting []Result
}

// NewResults returns a collector that writes with complete.
func NewResults(complete func(context.Context, []Result) (late int, err error), log zerolog.Logger) *Results {
	return &Results{complete: complete, log: log, full: make(chan struct{}, 1)}
}

// Add takes a result to be written, if its run has a row. It never blocks.
func (r *Results) Add(result Result) {
	if result.Run.ID == 0 {
		return
	}
	r.mu.Lock()
	r.waiting = append(r.waiting, result)
	full := len(r.waiting) == flushBatch
	r.mu.Unlock()
	if full {
		select {
		case r.full <- struct{}{}:
		default: // Run knows already
		}
	}
}

// Run writes results until ctx is done, and then what is left, for at most ten seconds.
func (r *Results) Run(ctx context.Context) {
	pacer := outage.New(r.log, "write results")
	timer := time.NewTimer(flushEvery)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.full:
		case <-timer.C:
		}
		timer.Reset(r.pause(pacer, r.Flush(context.WithoutCancel(ctx))))
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
	defer cancel()
	for err := r.Flush(last); err != nil; err = r.Flush(last) {
		select {
		case <-last.Done():
			r.log.Error().Err(err).Int("results", r.left()).Msg("stopped before the database took all results; their runs will be LOST")
			return
		case <-time.After(r.pause(pacer, err)):
		}
	}
}

func (r *Results) pause(pacer *outage.Pacer, err error) time.Duration {
	if err == nil {
		return pacer.Next(nil, flushEvery)
	}
	return pacer.Next(err, flushMaxPause)
}

// Flush writes everything that waits; what could not be written waits on. What comes in meanwhile is left to the next
// flush, or a steady stream would be written in batches of one.
func (r *Results) Flush(ctx context.Context) error {
	for left := r.left(); left > 0; {
		batch := r.take()
		left -= len(batch)
		late, err := r.write(ctx, batch)
		if err != nil {
			r.putBack(batch)
			return err
		}
		if late > 0 {
			r.log.Warn().Int("results", late).Msg("results came too late: their runs had been taken from this instance")
		}
	}
	return nil
}

func (r *Results) write(ctx context.Context, batch []Result) (late int, err error) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	return r.complete(ctx, batch)
}

func (r *Results) take() []Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.waiting), flushBatch)
	batch := r.waiting[:n:n]
	r.waiting = r.waiting[n:]
	return batch
}

func (r *Results) putBack(batch []Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(batch, r.waiting...)
}

func (r *Results) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}
