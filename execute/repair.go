package execute

import (
	"fmt"
	"time"
)

// MaxCatchUp is the most runs that CATCH_UP leaves behind in one go, whatever CATCH_UP_LIMIT says.
const MaxCatchUp = 1000

// maxMissed is how many missed fires one move deals with. A move that stops there leaves the latest of them, as many
// as may yet run, to the next.
const maxMissed = 3_000_000

// Repair is the move for an execute with fires that nobody ran in time: everything up to now is missed,
// and its misfire policy decides what still runs. Each missed fire ends as a PENDING run, which any node
// that handles the class claims, or in the one SKIPPED row that stands for the rest.
func (e *Execute) Repair(now time.Time) Move {
	return e.miss(now, e.runsAfterMisfire(), func(missed int64, late int) string {
		return fmt.Sprintf("misfire: %d missed, policy %s runs %d of them", missed, e.Misfire, late)
	})
}

// PassOver is the move past all fires up to now, none of which runs: one SKIPPED row stands for them, and says why.
func (e *Execute) PassOver(now time.Time, why string) Move {
	return e.miss(now, 0, func(int64, int) string { return why })
}

// miss is the move past all fires up to now, of which the latest run after all, as many as runs says.
func (e *Execute) miss(now time.Time, runs int, why func(missed int64, late int) string) Move {
	var first, last, lastSkipped time.Time
	var late []time.Time // the latest fires, at most runs
	var missed int64
	more := false
	for fire := range e.upTo(now) {
		if more = missed == maxMissed; more {
			break
		}
		if missed == 0 {
			first = fire
		}
		missed++
		last, late = fire, append(late, fire)
		if len(late) > runs {
			lastSkipped, late = late[0], late[1:]
		}
	}
	if missed == 0 {
		return e.Resume(now)
	}
	if more {
		last, missed, late = lastSkipped, missed-int64(len(late)), nil
	}
	m := e.pass(last, missed)
	if skipped := missed - int64(len(late)); skipped > 0 {
		m.Runs = append(m.Runs, NewRun{
			State: Skipped, FireTime: first, LastFire: lastSkipped, Count: skipped,
			Message: why(missed, len(late)),
		})
	}
	for _, fire := range late {
		m.Runs = append(m.Runs, NewRun{State: Pending, FireTime: fire, Count: 1})
	}
	return m
}

// runsAfterMisfire is how many of the missed fires, the latest, the policy lets run.
func (e *Execute) runsAfterMisfire() int {
	switch e.Misfire {
	case Skip:
		return 0
	case CatchUp:
		return min(max(e.CatchUpLimit, 0), MaxCatchUp)
	default:
		return 1
	}
}
