package poller

import (
	"context"
	"time"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/outage"
)

// The nodes take turns at sweeping: each sweeps in its own phase, the more rarely the more nodes there are, so that however many there
// are the cluster looks about as often. What a sweep finds, its node therefore does not leave to a node that may look much later.
const (
	sweepers     = 4                       // so many nodes sweep every sweepEvery each
	slowestSweep = 1500 * time.Millisecond // a node sees its switch within this time

	uneasyFor  = 15 * time.Second      // a node that found what an owner had left sweeps every sweepEvery for so long
	mostGraces = 2                     // after so many, what is overdue is for any node
	lateLook   = 50 * time.Millisecond // a sweep may be later than its phase by this much
)

func (p *Poller) sweepLoop(ctx context.Context) {
	timer := time.NewTimer(p.untilSweep())
	defer timer.Stop()
	pacer := outage.New(p.cfg.Log, "sweep")
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := p.sweep(ctx)
		if ctx.Err() != nil {
			return // and so is the error
		}
		timer.Reset(pacer.Next(err, p.untilSweep()))
	}
}

// calmPace is how often this node sweeps while no owner leaves anything, and how much later the next node of the cluster does.
func (p *Poller) calmPace() (every, next time.Duration) {
	_, of := p.cluster.Position()
	every = min(max(sweepEvery, sweepEvery*time.Duration(of)/sweepers), slowestSweep)
	return every, every / time.Duration(of)
}

// lookedBefore is when the node before this one looked, or earlier.
func (p *Poller) lookedBefore(now time.Time) time.Time {
	_, next := p.calmPace()
	return now.Add(-next - lateLook)
}

// manyNodes tells whether the owner of what a sweep finds may sweep much later.
func (p *Poller) manyNodes() bool {
	_, of := p.cluster.Position()
	return of > sweepers
}

// untilSweep is how long until this node's next sweep. Its phase is by the database's clock, which all nodes have in common.
func (p *Poller) untilSweep() time.Duration {
	position, of := p.cluster.Position()
	every, _ := p.calmPace()
	now := p.cluster.Now()
	if now.Before(p.uneasy) || p.doubts.count() > 0 || p.cluster.PassingOver() {
		every = sweepEvery
	}
	phase := every * time.Duration(position) / time.Duration(of)
	wait := every - (time.Duration(now.UnixNano())-phase)%every
	if wait < every/8 {
		wait += every // the sweep of this phase has just been made
	}
	return wait
}

// lookAhead is how far a look for pending runs looks ahead: until after the next sweep.
func (p *Poller) lookAhead() time.Duration {
	every, _ := p.calmPace()
	return every + lookSlack
}

// headStart is how long others go first with what is in an execute's row.
func (p *Poller) headStart(e *execute.Execute) time.Duration {
	return time.Duration(min(p.cluster.Rank(e.Class, e.ID), mostGraces)) * grace
}

// nextLooks leaves out what may be claimed no earlier than the next node looks: that will find it if it is still there.
func (p *Poller) nextLooks(now time.Time) func(*execute.Execute) bool {
	_, next := p.calmPace()
	return func(e *execute.Execute) bool { return e.Next.Add(p.headStart(e)).After(now.Add(next)) }
}

// entryForNew plans claims of what has been added or changed by SQL. Others have no head start if this node is the first to see it,
// since no node has looked from then on, and the fire is due before all of them have looked: the owner may not know of it by then.
func (p *Poller) entryForNew(now, from time.Time) func(*execute.Execute) *entry {
	every, _ := p.calmPace()
	return func(e *execute.Execute) *entry {
		if e.Next.Before(now.Add(every+lateLook)) && !e.ChangedAt.Before(from) {
			return &entry{execute: e, at: e.Next}
		}
		return p.entryFor(e)
	}
}
