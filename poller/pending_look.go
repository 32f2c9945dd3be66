package poller

import (
	"context"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

const (
	lookFast  = 12 * time.Millisecond  // between looks for pending runs while many are found
	dearRead  = 50 * time.Millisecond  // a look that takes longer and finds few runs had the server pass over many rows
	fewFound  = 100                    // runs of such a look
	dearPause = 4                      // times as long as such a look took, there is no further one
	lookSlack = 100 * time.Millisecond // a look also reads what will be available this long after the next sweep
	lookFor   = 100 * time.Millisecond // after which a look that reads on and on first sees to what this process has enqueued
	pageFor   = sweepEvery             // how long what a look has read is claimed from

	runBlock     = 16                     // runs with consecutive ids that one node claims first
	stalledAfter = 750 * time.Millisecond // an owner that has left its oldest run lying for longer loses its head start
	ownPages     = 4                      // pages without a run of its own after which a node takes others'
	mostOthers   = 4000                   // runs of others that it keeps in mind

	byAgeOnce  = 8           // of so many looks, one is by age alone
	scoutEvery = time.Second // between looks for urgent runs behind what has been read
)

// findExpected looks for the runs that this process has added.
func (l *pendingLoop) findExpected(ctx context.Context) (tried bool, err error) {
	ids, tooMany := l.signals.expected.due(time.Now())
	if tooMany {
		l.lookNoLater(time.Now())
	}
	if len(ids) == 0 {
		return false, nil
	}
	slices.Sort(ids)
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	found, seen, err := l.runs.PendingByID(ctx, l.cfg.Classes, ids)
	if err != nil {
		return true, err
	}
	l.signals.expected.found(seen)
	now := l.cluster.Now()
	for _, r := range found {
		switch {
		case r.AvailableAt.After(now):
			l.Look(r.AvailableAt)
		case r.Limited():
			l.Look(now) // it may not be the first in line
		default:
			l.asked = append(l.asked, r)
		}
	}
	return true, nil
}

// look reads on, if there is room for what it finds: from the front if it is time for a new look, else until there are enough
// runs of this node's own.
func (l *pendingLoop) look(ctx context.Context, rooms map[string]int) (tried bool, err error) {
	now := time.Now()
	for class := range l.parked {
		if l.hasRoom(class) {
			l.lookNoLater(now)
		}
	}
	if !l.began.IsZero() && now.Sub(l.began) > pageFor && !l.readsOn() {
		old := l.available()
		if old > 0 || l.more {
			l.lookNoLater(now)
		}
		l.own, l.others, l.more, l.began = l.own[old:], nil, false, time.Time{}
	}
	if l.lookDue(now) {
		told := l.signals.lookAt.Swap(0) != 0
		_, oftenAnyway := l.rate.pause(now)
		l.swept = l.signals.swept.Swap(false) && !oftenAnyway
		l.next = time.Time{}
		l.forgetPage()
		l.began, l.more = now, true
		l.last, l.pause = now, lookFast
		l.spent, l.found = 0, 0
		l.looks++
		l.chooseClasses(told)
		tried = true
	}
	enough := min(maxBatch, max(1, l.pool.Free()+sum(rooms)))
	for l.more && l.available() < enough && l.barren < ownPages+1 && time.Since(now) < lookFor {
		if l.barren >= ownPages && len(l.others) > 0 {
			break // none of its own for long: first others'
		}
		tried = true
		if err := l.read(ctx); err != nil {
			l.forget()
			l.lookNoLater(now)
			return tried, err
		}
	}
	if l.more && !l.byAge() && !now.Before(l.scout) {
		l.scout = now.Add(scoutEvery)
		return true, l.findUrgent(ctx)
	}
	return tried, nil
}

// readsOn tells whether the look under way has found nothing yet, and continues: from the front it would find no more.
func (l *pendingLoop) readsOn() bool {
	return l.more && l.available()+len(l.others) == 0 && l.barren < ownPages+1
}

// byAge tells whether runs are claimed by age alone: after one look in some, so that no run waits for ever for more urgent ones.
func (l *pendingLoop) byAge() bool { return l.looks%byAgeOnce == 0 }

// findUrgent looks, behind what has been read, for runs of this node's own that are more urgent than some of that.
func (l *pendingLoop) findUrgent(ctx context.Context) error {
	due := l.own[:l.available()]
	if len(due) == 0 {
		return nil
	}
	least := slices.MaxFunc(due, run.ByPriority).Priority
	if least == run.PriorityHigh {
		return nil
	}
	if l.urgent.IsFront() {
		l.urgent = l.place
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	page, err := l.runs.UrgentPage(ctx, l.classes, l.cluster.Now(), least, l.urgent)
	if err != nil {
		return err
	}
	l.urgent = page.Next
	var urgent []run.PendingRun
	for _, r := range page.Runs {
		if _, rank := l.cluster.Turn(r.Class, r.ID/runBlock); rank == 0 {
			urgent = append(urgent, r)
		}
	}
	l.own = append(urgent, l.own...)
	return nil
}

// chooseClasses has the look read the classes with room, so that however much is pending of the others, it is in the way of
// nothing. What is pending of these is looked for when they have room.
func (l *pendingLoop) chooseClasses(told bool) {
	l.classes = l.withRoom()
	for _, class := range l.cfg.Classes {
		if slices.Contains(l.classes, class) {
			delete(l.parked, class)
		} else if told {
			l.parked[class] = true
		}
	}
}

func (l *pendingLoop) forgetPage() {
	l.own, l.others = nil, nil
	l.more, l.place, l.barren = false, run.Place{}, 0
}

// lookDue tells whether it is time for a new look. While there is something left of the last one, that comes first.
func (l *pendingLoop) lookDue(now time.Time) bool {
	if l.more || l.available() > 0 || len(l.others) > 0 {
		return false
	}
	if now.Before(l.soonest()) {
		return false
	}
	at := l.signals.lookAt.Load()
	return at != 0 && at <= now.UnixNano() || !l.next.IsZero() && !l.next.After(now)
}

// soonest is when the next look may be made.
func (l *pendingLoop) soonest() time.Time { return l.last.Add(l.pause) }

// available is how many of this node's own runs can be claimed now.
func (l *pendingLoop) available() int {
	now := l.cluster.Now()
	n, _ := slices.BinarySearchFunc(l.own, now, func(r run.PendingRun, now time.Time) int {
		if r.AvailableAt.After(now) {
			return 1
		}
		return -1
	})
	return n
}

// front is the oldest run of an owner, and since when it is.
type front struct {
	id    int64
	since time.Time
}

// read reads a page, and parts it into what this node goes first for and what others have left lying.
func (l *pendingLoop) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now, first, began := l.cluster.Now(), l.place.IsFront(), time.Now()
	page, err := l.runs.PendingPage(ctx, l.classes, now.Add(l.lookAhead()), l.place)
	if err != nil {
		return err
	}
	l.spent += time.Since(began)
	l.found += len(page.Runs)
	if l.spent > dearRead && l.found < fewFound {
		l.pause = max(l.pause, dearPause*l.spent)
	}
	l.place, l.more = page.Next, page.More
	seen := map[string]front{}
	own := len(l.own)
	for _, r := range page.Runs {
		owner, rank := l.cluster.Turn(r.Class, r.ID/runBlock)
		wait := time.Duration(rank) * grace
		switch {
		case rank == 0:
			l.own = append(l.own, r)
			continue
		case r.AvailableAt.After(now):
			continue
		case l.swept && !page.More && len(page.Runs) < fewFound: // its owner may sweep much later
			l.own = append(l.own, r)
			continue
		case first && seen[owner].id == 0:
			seen[owner] = l.frontOf(owner, r.ID)
		}
		if f, ok := l.fronts[owner]; ok && time.Since(f.since) >= stalledAfter+wait-grace {
			l.own = append(l.own, r)
		} else if !r.AvailableAt.Add(wait).After(now) {
			l.others = append(l.others, r)
		}
	}
	switch {
	case len(l.own) > own:
		l.barren = 0
	case len(page.Runs) > 0: // else all of it was of jobs without a slot, and is left out from now on
		l.barren++
	}
	l.others = l.others[max(0, len(l.others)-mostOthers):]
	if first {
		l.fronts = seen
	}
	return nil
}

// frontOf notes the oldest run of an owner. An owner that works claims its oldest first.
func (l *pendingLoop) frontOf(owner string, id int64) front {
	if f, ok := l.fronts[owner]; ok && f.id == id {
		return f
	}
	f := front{id, time.Now()}
	l.fronts[owner] = f
	return f
}
