package poller

import (
	"context"
	"errors"
	"time"

	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/run"
)

// pendingLoop claims PENDING runs: what was enqueued, is to be tried again or recovered, waits in a queue, or is run late by its
// misfire policy. It looks as often as there is something to find (rate), and keeps what it has read in memory for a short
// while, to claim from it whenever slots come free. All fields but signals belong to its goroutine.
type pendingLoop struct {
	*Poller

	asked  []run.PendingRun // runs that this process has added: claimed here, also those of other owners
	own    []run.PendingRun // runs that this node goes first for, in order; the last ones may not be available yet
	others []run.PendingRun // runs whose owners did not claim them in time, in order

	looks  int       // that have been made
	urgent run.Place // how far the look for urgent runs behind has come, over several looks
	swept  bool      // the look is made because this node's sweep has found some, while few come
	scout  time.Time // when that is made next

	place  run.Place // how far the look has come
	more   bool      // there is more behind it
	barren int       // pages, one after the other, without a run of this node's own
	fronts map[string]front

	began   time.Time       // when the look was begun; zero: none is under way
	last    time.Time       // when the last look was begun
	pause   time.Duration   // from there to the next one, at least
	spent   time.Duration   // on reading, by the look under way
	found   int             // runs that it has found
	next    time.Time       // when to look again; zero: when told
	classes []string        // that the look reads: those with room
	parked  map[string]bool // classes whose runs are pending, but had no room
	short   time.Time       // since when there are fewer slots than could be claimed; zero: there are enough
	yields  time.Time       // since when slots are left to fires; zero: they are not
	rate    rate
}

func (p *Poller) pendingLoop(ctx context.Context) {
	l := &pendingLoop{Poller: p, fronts: map[string]front{}, parked: map[string]bool{}}
	timer := time.NewTimer(idle)
	defer timer.Stop()
	pacer := outage.New(p.cfg.Log, "claim pending runs")
	slots, stop := p.pool.Freed()
	defer stop()
	var wake, freed <-chan struct{} = p.signals.wake, nil
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-wake:
		case <-freed:
		}
		if ctx.Err() != nil {
			return
		}
		wait, err := l.step(ctx)
		if ctx.Err() != nil {
			return // and so is the error
		}
		timer.Reset(pacer.Next(err, wait))
		wake, freed = p.signals.wake, nil
		switch {
		case err != nil && !errors.Is(err, outage.ErrIdle):
			wake = nil // only the pause ends a pause
		case l.known():
			freed = slots
		}
	}
}

// known tells whether there is something to claim that waits for slots.
func (l *pendingLoop) known() bool {
	return len(l.asked)+len(l.own)+len(l.others)+len(l.parked)+l.ahead.waits() > 0 || l.more || !l.next.IsZero() || l.signals.lookAt.Load() != 0 || l.signals.expected.any()
}

// step claims what can be claimed now, in one claim, and says how long until there is more to do.
func (l *pendingLoop) step(ctx context.Context) (time.Duration, error) {
	if !l.cluster.Claiming() {
		l.forget()
		for _, r := range l.ahead.drop() { // a slot may come free for it long after the switch was thrown
			l.doubts.unstarted(r)
		}
		l.signals.expected.forget()
		l.signals.lookAt.Store(0)
		return idle, outage.ErrIdle // the sweep tells when there is something to claim
	}
	rooms := l.aheadRooms()
	if l.pool.Free() == 0 && len(rooms) == 0 {
		return l.untilOverdue(), outage.ErrIdle // a slot that comes free wakes us
	}
	tried := false
	if found, err := l.findExpected(ctx); found || err != nil {
		if err != nil {
			return 0, err
		}
		tried = true
	}
	if looked, err := l.look(ctx, rooms); looked || err != nil {
		if err != nil {
			return 0, err
		}
		tried = true
	}
	wanted, wait := l.wanted(rooms)
	if wanted > 0 {
		if batch, slots, asked := l.take(wanted, rooms); len(batch) > 0 {
			return 0, l.claim(ctx, batch, slots, asked)
		}
	}
	wait = min(wait, l.untilNext(), l.untilOverdue())
	if !tried {
		return wait, outage.ErrIdle
	}
	return wait, nil
}

// aheadRooms starts what waits for slots, as far as there are some, hands back what waits for too long, and says how many runs of
// each class may be claimed ahead of their slots.
func (l *pendingLoop) aheadRooms() map[string]int {
	l.launcher.launch(l.ahead.take(func(class string) bool { return l.pool.ReserveFor(class, 1) == 1 }))
	overdue := l.ahead.overdue(time.Now())
	for _, r := range overdue {
		l.doubts.unstarted(r)
	}
	if len(overdue) > 0 {
		l.ahead.recount()
	}
	if l.signals.hungry.Load() || !l.pace.known() {
		return nil
	}
	return l.ahead.room(l.pace.claim())
}

func sum(rooms map[string]int) (n int) {
	for _, room := range rooms {
		n += room
	}
	return n
}

func (l *pendingLoop) untilOverdue() time.Duration {
	if at := l.ahead.until(); !at.IsZero() {
		return max(0, time.Until(at))
	}
	return idle
}

// forget drops what has been read.
func (l *pendingLoop) forget() {
	l.asked, l.own, l.others = nil, nil, nil
	l.more, l.began, l.place, l.barren = false, time.Time{}, run.Place{}, 0
}

// untilNext is how long until there is something to do for which no slot is missing.
func (l *pendingLoop) untilNext() time.Duration {
	now, wait := time.Now(), idle
	sooner := func(at time.Time) { wait = min(wait, max(0, at.Sub(now))) }
	if at, ok := l.signals.expected.next(); ok {
		sooner(at)
	}
	if l.readsOn() {
		return 0
	}
	if l.available()+len(l.others) > 0 || l.more {
		return wait // a slot that comes free wakes us
	}
	if pause, worthwhile := l.rate.pause(now); worthwhile && l.next.IsZero() {
		l.next = later(now, l.began.Add(pause))
	}
	if !l.next.IsZero() {
		sooner(later(l.next, l.soonest()))
	}
	if at := l.signals.lookAt.Load(); at != 0 {
		sooner(later(time.Unix(0, at), l.soonest()))
	}
	if len(l.own) > 0 {
		wait = min(wait, max(0, l.own[0].AvailableAt.Sub(l.cluster.Now())))
	}
	return wait
}
