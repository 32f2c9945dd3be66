package qrtz

import (
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// lookOn has the poller look for what can start now that results are written: the next run in line of a job of which only some may go
// at a time, and further attempts.
func (s *session) lookOn(results []run.Result) {
	var next time.Time
	for _, r := range results {
		at := r.RetryAt
		if r.Run.Options.Limited() {
			at = s.clock.Now()
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if !next.IsZero() {
		s.poller.Look(next)
	}
}
