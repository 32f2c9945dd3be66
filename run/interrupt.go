package run

import (
	"time"

	"github.com/qrtz-go/qrtz/internal/text"
)

// An orderly stop of a node interrupts the runs whose handlers have not ended by then. A handler that obeys its context has not
// failed: its run is LOST, as that of a node that died is, and the node that stops hands it on itself.

const interrupted = "interrupted: its node stopped before it had ended"

// Interrupt is how a run ends whose handler returned an error because its node stops. It is handed on, from a time on, if its job
// has asked for recovery or for more than one attempt, and as often as a run is recovered.
func (r Result) Interrupt(said string, from time.Time) Result {
	r.State, r.Recovery = Lost, true
	r.Message = text.Clip(interrupted+": "+said, MaxMessage)
	switch o := r.Run.Options; {
	case !o.Recovery && o.Attempts <= 1:
	case r.Run.Recovered >= maxRecoveries:
		r = r.noting("not handed on: it has been recovered as often as a run may be")
	default:
		r.RetryAt = from
	}
	return r
}

// Spent is how many of its job's attempts have been spent with this one. One whose node died or stopped is not spent.
func (r Run) Spent() int { return max(1, r.Attempt-r.Recovered) }
