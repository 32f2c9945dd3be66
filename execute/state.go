package execute

import (
	"fmt"
	"slices"

	"github.com/qrtz-go/qrtz/internal/text"
)

// State is what an execute, and derived from its executes a job, is in.
type State string

// The states of jobs and executes. A job's is derived from its executes by the misfire handler:
// ERROR if any is in ERROR, else EXECUTING, else PAUSED, else COMPLETE.
const (
	Init      State = "INIT"      // not started
	Executing State = "EXECUTING" // active: its fires are due
	Paused    State = "PAUSED"    // by an operator; its fires are passed over
	Complete  State = "COMPLETE"  // its last fire has been claimed
	Error     State = "ERROR"     // its schedule cannot be used; STATE_REASON says why
)

// Misfire is what happens to fires that no node ran within MisfireAfter.
type Misfire string

// The misfire policies.
const (
	FireOnce Misfire = "FIRE_ONCE" // the latest of them runs once, now; the rest are recorded as skipped
	Skip     Misfire = "SKIP"      // all of them are recorded as skipped
	CatchUp  Misfire = "CATCH_UP"  // all of them run, the latest CATCH_UP_LIMIT at most
)

// Validate refuses a policy that is none of the three.
func (m Misfire) Validate() error {
	all := []Misfire{FireOnce, Skip, CatchUp}
	if !slices.Contains(all, m) {
		return fmt.Errorf("misfire policy %q: want one of %s", string(m), text.List(all))
	}
	return nil
}
