package poller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/run"
)

const (
	crowd   = 200         // so many claims due within crowdIn are claimed early, in large batches
	crowdIn = time.Second // the earliest a fire is ever claimed

	firstClaim = 5 * time.Millisecond   // how long a claim takes, until measured
	maxLead    = 100 * time.Millisecond // how early a fire is claimed when few are due
	idle       = time.Minute            // a dispatcher with nothing planned is woken, not timed

	// When few are due, a claim takes along fires of the next second, until there are so many: a claim of one costs the database as much
	// as one of many. A node that is killed loses so many more.
	companyOf = 16
	companyIn = crowdIn
	fewNodes  = 4
)

// companySize is how many fires a claim takes together, and results a write, of one of so many nodes. Many nodes would else make many small
// transactions.
func companySize(nodes int) int { return companyOf * max(1, nodes/fewNodes) }

// pace is how long a claim takes, as a moving average.
type pace struct{ nanos atomic.Int64 }

func (p *pace) note(took time.Duration) {
	old := p.claim()
	p.nanos.Store(int64(old + (took-old)/8))
}

func (p *pace) claim() time.Duration {
	if n := p.nanos.Load(); n > 0 {
		return time.Duration(n)
	}
	return firstClaim
}

func (p *pace) known() bool { return p.nanos.Load() > 0 }

func (p *Poller) dispatchLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pacer := outage.New(p.cfg.Log, "claim")
	slots, stop := p.pool.Freed()
	defer stop()
	var wake, freed <-chan struct{} = p.wake, slots
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
		p.launcher.slotsFreed()
		wait, err := p.dispatch(ctx)
		timer.Reset(pacer.Next(err, wait))
		if wake, freed = p.wake, slots; err != nil && !errors.Is(err, outage.ErrIdle) {
			wake, freed = nil, nil // only the pause ends a pause: slots that a failed claim gives back do not
		}
	}
}

// dispatch claims what is due, as much as the pool can start, and says how long until there is more.
func (p *Poller) dispatch(ctx context.Context) (time.Duration, error) {
	if p.doubts.count() > 0 { // a node that is off has things to give back, too
		if err := p.resolveDoubts(ctx); err != nil {
			return 0, err
		}
	}
	if !p.cluster.Claiming() {
		return sweepEvery, outage.ErrIdle
	}
	if wait := p.untilNext(); wait > 0 {
		p.signals.hungry.Store(p.launcher.hungry())
		return wait, outage.ErrIdle // without touching the pool: slots given back wake us
	}
	if wait := p.backingOff(); wait > 0 {
		p.signals.hungry.Store(p.launcher.hungry())
		return wait, outage.ErrIdle
	}
	lead, now := p.lead(), p.cluster.Now()
	// What comes due while this claim is under way could not be claimed before it ends: take it along.
	until := now.Add(2 * lead)
	wanted := p.claimsAtOnce() * maxBatch
	if lead > maxLead {
		wanted = min(wanted, max(1, p.spareForEarly()))
	}
	slots := p.pool.Reserve(wanted)
	if slots == 0 {
		p.signals.hungry.Store(true)
		return idle, outage.ErrIdle // a slot that comes free wakes us
	}
	taken := p.plan.take(p.due(now, until), slots, func(class string) bool { return p.pool.Assign(class, 1) == 1 })
	more := slots - len(taken)
	batch := p.inTime(taken)
	moves, further := p.movesFor(batch, until, more)
	p.pool.Release(more - further)
	if len(batch) > 0 && lead <= maxLead {
		for _, e := range p.company(now, len(batch)) {
			batch, moves = append(batch, e), append(moves, e.execute.ClaimMove(e.execute.Fires(e.execute.Next, 1)))
		}
	}
	began := time.Now()
	err := p.claimAll(ctx, batch, moves)
	p.backOff(time.Since(began))
	if err != nil {
		return 0, err
	}
	wait := p.untilNext()
	p.signals.hungry.Store(wait == 0 || p.launcher.hungry())
	return wait, nil
}

// company takes fires of the next second to be claimed together with so many that are due. They get their slots when they start: until then
// these are there for others. So only as many are taken as will find slots then, by all likelihood.
func (p *Poller) company(now time.Time, due int) []*entry {
	byClass, held := p.launcher.slotless()
	_, nodes := p.cluster.Position()
	n := min(companySize(nodes)-due, (p.pool.Free()-held)/2)
	if n <= 0 {
		return nil
	}
	return p.plan.company(now.Add(companyIn), n, func(class string) bool {
		if p.pool.Room(class) < 2*(byClass[class]+1) {
			return false
		}
		byClass[class]++
		return true
	})
}

// due is what a claim takes. What is half as late as a misfire goes by age, so that none waits for ever.
func (p *Poller) due(now, until time.Time) due {
	return due{now: now, until: until, old: now.Add(-p.cfg.MisfireAfter / 2)}
}

// inTime forgets what has waited so long, for a slot or for the database, that its misfire policy decides, and frees its slot.
func (p *Poller) inTime(batch []*entry) []*entry {
	misfired := p.cluster.Now().Add(-p.cfg.MisfireAfter)
	return slices.DeleteFunc(batch, func(e *entry) bool {
		gone := e.execute.Next.Before(misfired)
		if gone {
			p.pool.ReleaseFor(e.execute.Class, 1)
			p.plan.putBack(e, nil)
		}
		return gone
	})
}

func (p *Poller) resolveDoubts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return p.HandBackDoubts(ctx)
}

// lead is how long before its time a fire is claimed, so that its handler starts at the instant: the time a
// claim takes when few are due; up to a second when there is a crowd, which takes many claims.
func (p *Poller) lead() time.Duration {
	if p.early(p.cluster.Now().Add(crowdIn)) {
		return crowdIn / 2
	}
	return min(p.pace.claim(), maxLead)
}

// early tells whether what is due not after until is a crowd that may be claimed early. What was claimed early holds
// slots until its time: never more than seven eighths of the pool, for there are others.
// It waits until there is room for a good batch of them, or slots that come free one by one would make claims of one.
func (p *Poller) early(until time.Time) bool {
	return p.spareForEarly() >= max(1, min(crowd, p.mostEarly()/2)) && p.plan.crowded(until, crowd)
}

func (p *Poller) mostEarly() int     { return p.pool.Size() * 7 / 8 }
func (p *Poller) spareForEarly() int { return p.mostEarly() - p.launcher.countHeld() }

// untilNext is how long until the next claim begins: at the time of what must not be claimed early, and the lead before
// what may.
func (p *Poller) untilNext() time.Duration {
	now, wait := p.cluster.Now(), idle
	early, exact := p.plan.earliest(p.hasRoom)
	if !exact.IsZero() {
		wait = min(wait, exact.Sub(now))
	}
	if !early.IsZero() {
		lead := min(p.pace.claim(), maxLead)
		if p.early(early.Add(crowdIn / 2)) {
			lead = crowdIn / 2
		}
		wait = min(wait, early.Add(-lead).Sub(now))
	}
	return max(0, wait)
}

func (p *Poller) hasRoom(class string) bool { return p.pool.Room(class) > 0 }

// movesFor builds the moves that claim a batch, of whose executes each has a slot: their due fires, in order. It gives out
// some of more slots, and says how many: an execute that is behind has further fires due.
func (p *Poller) movesFor(batch []*entry, until time.Time, more int) (moves []execute.Move, further int) {
	for _, e := range batch {
		spare := 1 + more - further
		if e.execute.Exclusive {
			spare = 1 // the others might only find the first one running
		}
		due := e.execute.Fires(later(until, e.execute.Next), spare)
		if len(due) > 1 {
			due = due[:1+p.pool.Assign(e.execute.Class, len(due)-1)]
		}
		moves = append(moves, e.execute.ClaimMove(due))
		further += len(due) - 1
	}
	return moves, further
}

// later keeps the fire an entry is there for within the limit: an entry taken is claimed.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// claimsAtOnce is how many claims a node makes at a time when more is due than one takes. A node that is alone makes two: while
// the server carries out one, or waits for the disk, this process prepares another. Several nodes fill each other's gaps;
// more claims than that contend for the server's latches (eight nodes started a tenth less).
func (p *Poller) claimsAtOnce() int {
	if p.cluster.Alone() {
		return 2
	}
	return 1
}

// claimAll claims a batch, in parts at once if it is too large for one claim. They have no execute in common, and all have
// ended before the next batch is taken: a later fire of an execute is never claimed beside an earlier one.
func (p *Poller) claimAll(ctx context.Context, batch []*entry, moves []execute.Move) error {
	if len(moves) == 0 {
		return nil
	}
	parts := (len(moves) + maxBatch - 1) / maxBatch
	size := (len(moves) + parts - 1) / parts
	var all sync.WaitGroup
	errs := make([]error, parts)
	for i := range parts {
		from, to := i*size, min((i+1)*size, len(moves))
		all.Go(func() { errs[i] = p.claim(ctx, batch[from:to], moves[from:to]) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// claim claims a batch and starts what it won. It is finished also when ctx ends meanwhile: a claim that
// committed and was never read would sit until this node is declared dead.
func (p *Poller) claim(ctx context.Context, batch []*entry, moves []execute.Move) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	slots, company := map[string]int{}, map[int64]bool{}
	for i, m := range moves {
		if company[m.Execute.ID] = batch[i].company; !batch[i].company {
			slots[m.Execute.Class] += len(m.Runs)
		}
	}
	slotless := func(r run.Run) bool { return company[r.ExecuteID] }
	who, began, sure := p.cluster.Self(), time.Now(), p.cluster.Now().Add(2*min(p.pace.claim(), maxLead))
	won, err := p.executes.Claim(ctx, who, moves)
	p.pace.note(time.Since(began))
	p.cluster.Note(won.Clock)
	p.keepSlots(slots, without(won.Runs, slotless))
	p.doubts.fires(who, won.InDoubt)
	p.doubts.pending(who, won.PendingInDoubt)
	p.report(won.Refused)
	if len(won.Moved) > 0 {
		p.launcher.looked(true, sure) // a claim looks at the switches, too
	}
	p.start(won, slotless, sure)
	p.putBack(batch, won.Moved)
	return err
}

// without are those of some runs for which it does not hold.
func without(runs []run.Run, holds func(run.Run) bool) []run.Run {
	if !slices.ContainsFunc(runs, holds) {
		return runs
	}
	return slices.DeleteFunc(slices.Clone(runs), holds)
}

// keepSlots gives back the slots, of those given out by class, that the runs that were won do not need. The class of a job may
// have been changed since its slot was given out.
func (p *Poller) keepSlots(slots map[string]int, won []run.Run) {
	var others []string
	for _, r := range won {
		if slots[r.Class] > 0 {
			slots[r.Class]--
		} else {
			others = append(others, r.Class)
		}
	}
	for class, n := range slots {
		for ; n > 0 && len(others) > 0; n, others = n-1, others[1:] {
			p.pool.Change(class, others[0], 1)
		}
		p.pool.ReleaseFor(class, n)
	}
}

// report says which executes can be moved no more.
func (p *Poller) report(refused []execute.RefusedMove) {
	for _, r := range refused {
		p.cfg.Log.Error().Err(r.Err).Int64("execute", r.Execute.ID).Msg("set to ERROR: the server refuses its next state")
	}
}

// start starts the runs of what was won, of which some have no slots. For what is due not after sure, the claim is the look at the switches.
func (p *Poller) start(won execute.Applied, slotless func(run.Run) bool, sure time.Time) {
	slots := map[string]int{}
	for _, r := range without(won.Runs, slotless) {
		slots[r.Class]++
	}
	runs := p.cfg.Fresh(won.Runs)
	p.keepSlots(slots, without(runs, slotless))
	p.cfg.Claimed(runs)
	p.cfg.Skipped(won.Skipped)
	p.launcher.hold(runs, slotless, sure)
}

// putBack plans again what this node has won and what fires again within the window, and forgets the rest.
func (p *Poller) putBack(batch []*entry, moved []*execute.Execute) {
	next := make(map[int64]*execute.Execute, len(moved))
	horizon := p.horizon(p.cluster.Now())
	for _, e := range moved {
		if e.State == execute.Executing && !e.Next.After(horizon) {
			next[e.ID] = e
		}
	}
	for _, e := range batch {
		p.plan.putBack(e, next[e.execute.ID])
	}
}
