package execute

import (
	"database/sql"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// Move takes an execute from the row that was read to a new one, and leaves rows in QRTZ_RUN.
type Move struct {
	Execute *Execute
	State   State
	Reason  string    // STATE_REASON; only with Error
	Prev    time.Time // zero: none
	Next    time.Time // zero: none
	Fires   int64     // how many fires are behind it now that were not
	Runs    []run.NewRun

	Walked int // how many fires had to be looked at one by one

	token int64 // the CLAIM_TOKEN of the latest attempt to apply this move
}

// claimsOne tells whether the move is a claim of the one fire that it passes, as most are.
func (m *Move) claimsOne() bool {
	return len(m.Runs) == 1 && m.Runs[0].State == run.Running && m.Runs[0].FireTime.Equal(m.Prev)
}

// ClaimMove is the move that makes us run the given fires, which must be the next ones, in order.
func (e *Execute) ClaimMove(fires []time.Time) Move {
	m := e.pass(fires[len(fires)-1], int64(len(fires)))
	for _, fire := range fires {
		m.Runs = append(m.Runs, run.NewRun{State: run.Running, FireTime: fire, Count: 1})
	}
	return m
}

// pass moves on past the fire last, the n-th from here; with the last fire the schedule is complete.
func (e *Execute) pass(last time.Time, n int64) Move {
	m := Move{Execute: e, State: e.State, Prev: last, Next: e.Schedule.After(last, e.Fired+n), Fires: n}
	if m.Next.IsZero() {
		m.State = Complete
	}
	return m
}

// MoveTo is the move to the first fire at or after t. The fires before it are passed over without a
// trace and not counted: the execute was paused, or its app or all its nodes were switched off.
func (e *Execute) MoveTo(t time.Time) Move {
	m := Move{Execute: e, State: e.State, Prev: e.Prev, Next: e.firstFrom(t)}
	if m.Next.IsZero() {
		m.State = Complete
	}
	return m
}

func (e *Execute) firstFrom(t time.Time) time.Time {
	if !e.Next.IsZero() && !e.Next.Before(t) {
		return e.Next
	}
	return e.Schedule.After(t.Add(-time.Nanosecond), e.Fired)
}

// BeginMove is the move that gives an active execute its first fire: one that was added without
// NEXT_FIRE_TIME, or whose NEXT_FIRE_TIME was cleared to have it computed again.
func (e *Execute) BeginMove(now time.Time) Move {
	m := Move{Execute: e, State: e.State, Prev: e.Prev}
	if e.Prev.IsZero() && e.Fired == 0 {
		m.Next = e.Schedule.First(now)
	} else {
		m.Next = e.firstFrom(now)
	}
	if m.Next.IsZero() {
		m.State = Complete
	}
	return m
}

// ErrorMove is the move that takes an execute whose schedule cannot be used out of service.
func (e *Execute) ErrorMove() Move {
	return Move{Execute: e, State: Error, Reason: e.Problem.Error(), Prev: e.Prev, Next: e.Next}
}

// HealMove is the move that brings a corrected execute back; it fires from now on.
func (e *Execute) HealMove(now time.Time) Move {
	m := e.MoveTo(now)
	if m.State == Error {
		m.State = Executing
	}
	return m
}

// moved is the execute as the move left it, ready for its next claim.
func (m Move) moved() *Execute {
	e := *m.Execute
	e.State, e.Prev, e.Next, e.ResumedAt = m.State, m.Prev, m.Next, time.Time{}
	e.Fired = min(e.Fired, mostFired) + m.Fires
	e.guard.prev, e.guard.next = millis(m.Prev, -1), nextMillis(m.Next)
	e.guard.fired = sql.NullInt64{Int64: e.Fired, Valid: true}
	e.guard.token = sql.NullInt64{Int64: m.token, Valid: true}
	return &e
}
