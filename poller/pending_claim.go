package poller

import (
	"context"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

const (
	gatherFor = time.Millisecond      // how long a claim waits for more slots when few are free
	yieldFor  = 20 * time.Millisecond // how long pending runs leave all slots to fires that are due
)

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
	if _, held := l.launcher.slotless(); held > 0 { // fires that were claimed without slots rely on finding some
		if wanted = min(wanted, max(0, l.pool.Free()-held)+sum(rooms)); wanted == 0 {
			return 0, grace
		}
	}
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
