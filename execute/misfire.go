package execute

import (
	"fmt"
	"math"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// maxCatchUp is the most runs that CATCH_UP leaves behind in one go, whatever CATCH_UP_LIMIT says.
const maxCatchUp = 1000

// maxWalked is how many missed fires of a cron schedule one move deals with. A move that stops there leaves the latest
// of them, as many as may yet run, to the next. It must exceed maxCatchUp, or such a move would get nowhere.
const maxWalked = 100_000

// maxCount is the most that FIRE_COUNT can say; MESSAGE says the true number.
const maxCount = math.MaxInt32

// MisfireMove is the move for an execute with fires that no node ran in time: everything up to now is missed,
// and its misfire policy decides what still runs. Each missed fire ends as a PENDING run, which any node
// that handles the class claims, or in the one SKIPPED row that stands for the rest.
//
// A move deals with any number of missed fires of a fixed rate at once. The fires of a cron schedule have to be walked
// through: a move that comes to its limit records those before as skipped, and leaves the execute overdue.
func (e *Execute) MisfireMove(now time.Time) Move {
	return e.miss(now, e.runsAfterMisfire(), func(missed int64, late int) string {
		return fmt.Sprintf("misfire: %d missed, policy %s runs %d of them", missed, e.Misfire, late)
	})
}

// PassOverMove is the move past all fires up to now, none of which runs: one SKIPPED row stands for them, and says why.
func (e *Execute) PassOverMove(now time.Time, why string) Move {
	return e.miss(now, 0, func(int64, int) string { return why })
}

// miss is the move past all fires up to now, of which the latest run after all, as many as runs says.
func (e *Execute) miss(now time.Time, runs int, why func(missed int64, late int) string) Move {
	found := e.missed(now, runs)
	if found.count == 0 {
		return e.MoveTo(now)
	}
	if found.rest {
		found.count -= int64(len(found.late))
		found.last, found.late = found.lastEarly, nil
	}
	m := e.pass(found.last, found.count)
	m.Walked = found.walked
	if skipped := found.count - int64(len(found.late)); skipped > 0 {
		m.Runs = append(m.Runs, run.NewRun{
			State: run.Skipped, FireTime: e.Next, LastFire: found.lastEarly, Count: min(skipped, maxCount),
			Message: why(found.count, len(found.late)),
		})
	}
	for _, fire := range found.late {
		m.Runs = append(m.Runs, run.NewRun{State: run.Pending, FireTime: fire, Count: 1})
	}
	return m
}

// missedFires are the fires of an execute up to a time.
type missedFires struct {
	count     int64
	last      time.Time   // the latest of all
	late      []time.Time // the latest, as many as were asked for, in order
	lastEarly time.Time   // the latest of those before them; zero if there are none
	walked    int         // how many were looked at one by one
	rest      bool        // there are more fires than one move deals with
}

// missed finds the fires not after now: by arithmetic if they are evenly spaced, else by walking through them.
func (e *Execute) missed(now time.Time, runs int) missedFires {
	if rate, ok := e.Schedule.rule.(rateRule); ok {
		return e.missedOfRate(rate, now, runs)
	}
	return e.walkMissed(now, runs)
}

func (e *Execute) walkMissed(now time.Time, runs int) (m missedFires) {
	for fire := range e.upTo(now) {
		if m.rest = m.walked == maxWalked; m.rest {
			break
		}
		m.walked++
		m.last, m.late = fire, append(m.late, fire)
		if len(m.late) > runs {
			m.lastEarly, m.late = m.late[0], m.late[1:]
		}
	}
	m.count = int64(m.walked)
	return m
}

// missedOfRate computes what upTo would walk through: the next fire, which may be off the grid if a person wrote it by
// SQL, and then the grid behind it, as far as now, the schedule's end and its count allow.
func (e *Execute) missedOfRate(rate rateRule, now time.Time, runs int) (m missedFires) {
	if e.Next.IsZero() || e.Next.After(now) {
		return m
	}
	m.count = 1
	grid := e.Schedule.After(e.Next, e.Fired+1)
	until := now
	if end := e.Schedule.end; !end.IsZero() && end.Before(until) {
		until = end
	}
	every := rate.every.Milliseconds()
	if !grid.IsZero() && !grid.After(until) {
		m.count += (until.UnixMilli()-grid.UnixMilli())/every + 1
		if repeat := int64(e.Schedule.repeat); repeat >= 0 {
			m.count = min(m.count, repeat-e.Fired)
		}
	}
	fire := func(n int64) time.Time { // the n-th of them, from 0 on
		if n == 0 {
			return e.Next
		}
		return e.Schedule.in(time.UnixMilli(grid.UnixMilli() + (n-1)*every))
	}
	early := max(m.count-int64(runs), 0)
	for n := early; n < m.count; n++ {
		m.late = append(m.late, fire(n))
	}
	m.last = fire(m.count - 1)
	if early > 0 {
		m.lastEarly = fire(early - 1)
	}
	return m
}

// runsAfterMisfire is how many of the missed fires, the latest, the policy lets run.
func (e *Execute) runsAfterMisfire() int {
	switch e.Misfire {
	case Skip:
		return 0
	case CatchUp:
		return min(max(e.CatchUpLimit, 0), maxCatchUp)
	default:
		return 1
	}
}
