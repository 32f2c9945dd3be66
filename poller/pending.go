package poller

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/run"
)

const (
	lookFast  = 12 * time.Millisecond             // between looks for pending runs while many are found
	dearRead  = 50 * time.Millisecond             // a page that takes longer and has few runs had the server pass over many rows
	fewFound  = 100                               // runs of such a page
	dearPause = 4                                 // times as long as such a page took, there is no further look
	lookAhead = sweepEvery + 100*time.Millisecond // a look also reads what will be available within this time
	lookFor   = 100 * time.Millisecond            // after which a look that reads on and on first sees to what this process has enqueued
	pageFor   = sweepEvery                        // how long what a look has read is claimed from

	runBlock     = 16                     // runs with consecutive ids that one node claims first
	stalledAfter = 750 * time.Millisecond // an owner that has left its oldest run lying for longer loses its head start
	ownPages     = 4                      // pages without a run of its own after which a node takes others'
	mostOthers   = 4000                   // runs of others that it keeps in mind

	byAgeOnce  = 8           // of so many looks, one is by age alone
	scoutEvery = time.Second // between looks for urgent runs behind what has been read

	gatherFor = time.Millisecond      // how long a claim waits for more slots when few are free
	yieldFor  = 20 * time.Millisecond // how long pending runs leave all slots to fires that are due
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
	scout  time.Time // when that is made next

	place  run.Place // how far the look has come
	more   bool      // there is more behind it
	barren int       // pages, one after the other, without a run of this node's own
	fronts map[string]front

	began   time.Time       // when the look was begun; zero: none is under way
	last    time.Time       // when the last look was begun
	pause   time.Duration   // from there to the next one, at least
	next    time.Time       // when to look again; zero: when told
	classes []string        // that the look reads: those with room
	parked  map[string]bool // classes whose runs are pending, but had no room
	short   time.Time       // since when there are fewer slots than could be claimed; zero: there are enough
	yields  time.Time       // since when slots are left to fires; zero: they are not
	rate    rate
}

// front is the oldest run of an owner, and since when it is.
type front struct {
	id    int64
	since time.Time
}

// rate is how many runs a look finds, in runs a second, as an average over the last seconds.
type rate struct {
	perSecond float64
	at        time.Time
}

const (
	rateOver    = 4 * time.Second
	looksPerRun = 20
)

func (r *rate) found(n int, now time.Time) {
	r.perSecond = r.now(now) + float64(n)/rateOver.Seconds()
	r.at = now
}

func (r *rate) now(now time.Time) float64 {
	return r.perSecond * math.Exp(-float64(now.Sub(r.at))/float64(rateOver))
}

// pause is how long to wait for the next look: a twentieth of the time in which a run is to be expected.
func (r *rate) pause(now time.Time) (pause time.Duration, worthwhile bool) {
	perSecond := r.now(now)
	if perSecond*looksPerRun*sweepEvery.Seconds() < 1 {
		return 0, false // the sweep looks as often
	}
	return max(lookFast, time.Duration(float64(time.Second)/(looksPerRun*perSecond))), true
}

// pendingSignals are what others tell the loop.
type pendingSignals struct {
	expected expected
	wake     chan struct{}
	lookAt   atomic.Int64 // when something is to be found, in nanoseconds by the machine's clock; 0: not known
	hungry   atomic.Bool  // fires are due for which there was no slot
}

// Enqueued tells of runs that this process has added: they are claimed at once, not at the next sweep. Those that cannot be seen
// yet are looked for again, for a few seconds.
func (p *Poller) Enqueued(ids ...int64) {
	p.signals.expected.add(time.Now(), ids)
	signal(p.signals.wake)
}

// Look tells that a pending run will be available at a time by the database's clock: it is looked for then.
func (p *Poller) Look(at time.Time) {
	wait := max(0, at.Sub(p.cluster.Now()))
	if wait > lookAhead {
		return // a sweep sees it in time
	}
	p.lookNoLater(time.Now().Add(wait))
	signal(p.signals.wake)
}

func (p *Poller) lookNoLater(at time.Time) {
	for n := at.UnixNano(); ; {
		old := p.signals.lookAt.Load()
		if old != 0 && old <= n || p.signals.lookAt.CompareAndSwap(old, n) {
			return
		}
	}
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
		l.next = time.Time{}
		l.forgetPage()
		l.began, l.more = now, true
		l.last, l.pause = now, lookFast
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

// read reads a page, and parts it into what this node goes first for and what others have left lying.
func (l *pendingLoop) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now, first, began := l.cluster.Now(), l.place.IsFront(), time.Now()
	page, err := l.runs.PendingPage(ctx, l.classes, now.Add(lookAhead), l.place)
	if err != nil {
		return err
	}
	if took := time.Since(began); took > dearRead && len(page.Runs) < fewFound {
		l.pause = max(l.pause, dearPause*took)
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

// wanted is how many runs to claim now. When fires are due that found no slot, it leaves them all slots for a short while, and
// then most. When few are free, it waits a little for more: slots come free one by one, and claims of one row are dear.
func (l *pendingLoop) wanted(rooms map[string]int) (n int, wait time.Duration) {
	wanted := min(maxBatch, len(l.asked)+l.available())
	if wanted == 0 && (l.barren >= ownPages || !l.more) {
		wanted = min(maxBatch, len(l.others))
	}
	if wanted == 0 {
		l.short = time.Time{}
		return 0, idle
	}
	if l.signals.hungry.Load() {
		if l.yields.IsZero() {
			l.yields = time.Now()
		}
		if left := yieldFor - time.Since(l.yields); left > 0 {
			return 0, min(left, gatherFor)
		}
		wanted = min(wanted, max(1, l.pool.Size()/8))
	}
	l.yields = time.Time{}
	if free := l.pool.Free() + sum(rooms); free < min(wanted, l.pool.Size()/4) {
		if l.short.IsZero() {
			l.short = time.Now()
		}
		if left := gatherFor - time.Since(l.short); left > 0 {
			return 0, left
		}
	}
	l.short = time.Time{}
	return wanted, idle
}

// take takes up to n runs to be claimed, with the slots that it gave them, by class: of each priority those this process has added,
// then this node's own (all of its own first, if this look is by age). If it has none left, it takes those that others have left
// lying: from the end, since their owners begin at the front.
func (l *pendingLoop) take(n int, rooms map[string]int) (batch []run.PendingRun, slots map[string]int, asked int) {
	slots = map[string]int{}
	full := false // no slot is free, of whatever class
	admit := func(r run.PendingRun) {
		switch {
		case l.pool.ReserveFor(r.Class, 1) == 1:
			slots[r.Class]++
			batch = append(batch, r)
		case rooms[r.Class] > 0 && r.Free():
			rooms[r.Class]--
			batch = append(batch, r)
		case l.pool.Free() == 0:
			full = true
		default:
			l.parked[r.Class] = true
		}
	}
	fill := func(from []run.PendingRun, least run.Priority) (left []run.PendingRun) {
		for len(from) > 0 && len(batch) < n && from[0].Priority >= least {
			if admit(from[0]); full {
				break
			}
			from = from[1:]
		}
		return from
	}
	due := l.available()
	left := l.own[:due]
	if l.byAge() {
		left = fill(left, run.PriorityLow)
	}
	slices.SortStableFunc(l.asked, run.ByPriority)
	slices.SortStableFunc(left, run.ByPriority)
	for least := run.PriorityHigh; least >= run.PriorityLow; least-- {
		before := len(batch)
		l.asked = fill(l.asked, least)
		asked += len(batch) - before
		left = fill(left, least)
	}
	l.own = l.own[due-len(left):]
	for len(batch) == 0 && len(l.others) > 0 && !full {
		from := max(0, len(l.others)-n)
		left := fill(l.others[from:], run.PriorityLow)
		l.others = append(l.others[:from], left...)
	}
	slices.SortFunc(batch, run.ByID)
	return batch, slots, asked
}

// claim claims a batch, in slots reserved by class, and starts what it won. It is finished also when ctx ends meanwhile.
func (l *pendingLoop) claim(ctx context.Context, batch []run.PendingRun, slots map[string]int, asked int) error {
	if err := l.resolveDoubts(ctx); err != nil {
		l.keepSlots(slots, nil)
		return err
	}
	batch = slices.CompactFunc(batch, func(a, b run.PendingRun) bool { return a.ID == b.ID })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	who, began := l.cluster.Self(), time.Now()
	l.ahead.recount()
	claimed, err := l.runs.ClaimPending(ctx, who, batch)
	l.pace.note(time.Since(began))
	l.cluster.Note(claimed.Clock)
	l.doubts.pending(who, claimed.InDoubt)
	for _, r := range claimed.Refused {
		l.cfg.Log.Error().Err(r.Err).Int64("run", r.Run.ID).Bool("ended", r.Stored).Msg("the server refuses the claim of this run")
	}
	l.rate.found(max(0, len(claimed.Runs)-asked), time.Now())
	l.startIn(slots, claimed.Runs)
	return err
}

// startIn starts the runs that were won in the slots given out by class, and keeps those ahead for which there is none.
func (l *pendingLoop) startIn(slots map[string]int, won []run.Run) {
	var now, later []run.Run
	runs := l.cfg.Fresh(won)
	for _, r := range runs {
		if slots[r.Class] > 0 {
			slots[r.Class]--
			now = append(now, r)
		} else {
			later = append(later, r) // also if its job's class has been changed meanwhile
		}
	}
	l.keepSlots(slots, nil)
	l.cfg.Claimed(runs)
	l.ahead.add(later)
	l.launcher.launch(now)
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
