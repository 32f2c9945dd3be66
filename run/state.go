package run

// State is how far a run has come.
type State string

// The states of a run.
const (
	Pending   State = "PENDING"   // to be claimed at AVAILABLE_AT
	Running   State = "RUNNING"   // claimed by an instance, which alone may write its result
	Succeeded State = "SUCCEEDED" // the handler returned nil
	Failed    State = "FAILED"    // the handler returned an error, or panicked
	Lost      State = "LOST"      // its node died, or stopped before it had ended
	Cancelled State = "CANCELLED" // stopped on request
	Skipped   State = "SKIPPED"   // a recorded misfire
)
