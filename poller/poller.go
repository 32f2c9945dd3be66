// Package poller turns schedules into runs: it reads what is due, computes every fire within its window,
// claims fires at their times in batches, and starts them. It knows no SQL. Not part of qrtz's API.
package poller

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// Executes is what the poller needs of execute.Store.
type Executes interface {
	Due(ctx context.Context, from, until time.Time, mayBe func(id int64) bool, keep func(id int64, class string) bool) ([]*execute.Execute, error)
	Overdue(ctx context.Context, state execute.State, classes []string, from, until time.Time, limit int) ([]*execute.Execute, error)
	New(ctx context.Context, classes []string, limit int) ([]*execute.Execute, error)
	Changed(ctx context.Context, since, from, until time.Time, limit int) ([]*execute.Execute, error)
	Glance(ctx context.Context, l execute.Look) (execute.Glance, error)
	Adopt(ctx context.Context) error
	MarkPaused(ctx context.Context) error
	Claim(ctx context.Context, who node.Instance, moves []execute.Move) (execute.Applied, error)
	Move(ctx context.Context, who node.Instance, from execute.State, moves []execute.Move) (execute.Applied, error)
	HandBackFires(ctx context.Context, who node.Instance, claims []execute.Move) (again []execute.Move, err error)
}

// Runs is what the poller needs of run.Store.
type Runs interface {
	Pending(ctx context.Context, classes []string, now time.Time, limit int) ([]run.PendingRun, error)
	UrgentPage(ctx context.Context, classes []string, until time.Time, above run.Priority, from run.Place) (run.PendingPage, error)
	PendingPage(ctx context.Context, classes []string, until time.Time, from run.Place) (run.PendingPage, error)
	PendingByID(ctx context.Context, classes []string, ids []int64) (found []run.PendingRun, seen []int64, err error)
	ClaimPending(ctx context.Context, who node.Instance, runs []run.PendingRun) (run.Claimed, error)
	HandBack(ctx context.Context, runs []run.Run) (again []run.Run, err error)
	HandBackPending(ctx context.Context, who node.Instance, runs []run.PendingRun) (again []run.PendingRun, err error)
	LeaveForOthers(ctx context.Context, runs []run.Run) error
}

// stores are what doubts are handed back to.
type stores struct {
	Executes
	Runs
}

// Cluster is what the poller needs to know of the other nodes.
type Cluster interface {
	Now() time.Time                           // the database's time
	Note(reading schema.ClockReading)         // the database's clock, as an answer told it
	Self() node.Instance                      // this process
	Claiming() bool                           // this node may claim
	Switches() (appOn, nodeOn bool)           // as last seen
	SwitchedOn(context.Context) (bool, error) // asks the database now
	PassingOver() bool                        // this node is on again, but has not yet passed over what was due
	TimesOff(class string) []node.TimeOff     // the times, in order, whose fires it then passes over
	Rank(class string, id int64) int          // how many nodes go before this one
	Turn(class string, id int64) (owner string, rank int)
	Alone() bool                          // no other node claims
	Position() (position, of int)         // which of how many live nodes this one is, from 0
	MayOwn() func(id int64) bool          // whether its rank may be 0, the class unknown; nil for always
	Refresh(ctx context.Context) error    // look again now
	PassedOver(ctx context.Context) error // what was due while off has been passed over
}

// Pool is what the poller needs of the pool.
type Pool interface {
	Reserve(n int) int                      // takes free slots
	Release(n int)                          // gives back slots that belong to no class
	Assign(class string, n int) int         // gives reserved slots to a class, as many as it may take
	ReserveFor(class string, n int) int     // takes free slots for a class, as many as it may take
	ReleaseFor(class string, n int)         // gives back slots of a class
	Change(from, to string, n int)          // makes slots of one class slots of another
	Room(class string) int                  // how many more a class may take
	GoOn(class string, f func(next func())) // in a slot of the class, which is then free; f calls next between two runs
	Free() int
	Size() int
	Freed() (freed <-chan struct{}, stop func())
}

const (
	sweepEvery = 500 * time.Millisecond // between looks for what others left lying, and for what is new, of a few nodes (sweepers)
	grace      = 250 * time.Millisecond // the owner's head start: a node of rank k claims no earlier than k × grace after the fire time (mostGraces)
	maxBatch   = 500                    // executes, or pending runs, of one claim; larger ones gain nothing
	maxSwept   = 1000                   // rows of one sweep

	storeTimeout = 10 * time.Second // for one statement or claim
	windowSlack  = time.Second      // a poll looks further than the next poll by this much, which may be late
)

// Config is what a Poller needs to know.
type Config struct {
	Interval     time.Duration // between polls
	MisfireAfter time.Duration // fires later than this are the misfire handler's
	Classes      []string      // that this process has handlers for
	Log          zerolog.Logger

	// Unhandled is told of classes that have fires due and no handler in this process.
	Unhandled func(class string)

	// Claimed is told of runs before they start, and Skipped of fires for which an overlap rule left no room. They must
	// not block; nil is allowed.
	Claimed func([]run.Run)
	Skipped func([]run.SkippedFire)

	// Fresh returns those of the runs that were won that this process has not begun before, and sees to the others. Nil: all.
	Fresh func([]run.Run) []run.Run

	// Run carries out a run in a slot of the pool. It returns when the handler has.
	Run func(r run.Run, startedAt time.Time)
}

// Poller claims and starts the fires of one app on this node.
type Poller struct {
	executes Executes
	runs     Runs
	cluster  Cluster
	pool     Pool
	cfg      Config

	plan     *plan
	launcher *launcher
	doubts   doubts
	pace     pace
	noClaim  atomic.Int64 // until when no claim of fires is made, in nanoseconds by the machine's clock
	ahead    *ahead
	signals  pendingSignals
	wake     chan struct{} // the plan has something new
	poll     chan struct{} // do not wait for the next beat

	lastChange time.Time      // of executes, that the sweep has read
	ownBefore  map[int64]bool // this node's own that the last sweep found overdue (ownFirst)
	uneasy     time.Time      // until when the sweep hurries: an owner has left something
}

// New returns a poller.
func New(executes Executes, runs Runs, cluster Cluster, pool Pool, cfg Config) *Poller {
	if cfg.Claimed == nil {
		cfg.Claimed = func([]run.Run) {}
	}
	if cfg.Fresh == nil {
		cfg.Fresh = func(runs []run.Run) []run.Run { return runs }
	}
	if cfg.Skipped == nil {
		cfg.Skipped = func([]run.SkippedFire) {}
	}
	p := &Poller{
		executes: executes, runs: runs, cluster: cluster, pool: pool, cfg: cfg, plan: newPlan(),
		signals: pendingSignals{wake: make(chan struct{}, 1)},
		wake:    make(chan struct{}, 1), poll: make(chan struct{}, 1),
	}
	p.ahead = newAhead(cluster.Now, func() { signal(p.signals.wake) }, p.signals.hungry.Load)
	p.launcher = newLauncher(cluster.Now, pool, func(r run.Run, at time.Time, next func()) { p.ahead.carryOut(p.cfg.Run, r, at, next) })
	p.launcher.giveUp = func(runs []run.Run) {
		for _, r := range runs {
			p.doubts.unstarted(r)
		}
		signal(p.wake) // the dispatcher hands them back
	}
	return p
}

// Run polls, sweeps and claims until ctx is done. A claim under way is finished. What has been claimed and
// not started is then handed back, for other nodes to take at once; running jobs continue.
func (p *Poller) Run(ctx context.Context) {
	p.launcher.sentry = newSentry(ctx, p.cluster.Now, p.cluster.SwitchedOn, p.cfg.Log)
	var loops sync.WaitGroup
	loops.Go(func() { p.pollLoop(ctx) })
	loops.Go(func() { p.sweepLoop(ctx) })
	loops.Go(func() { p.dispatchLoop(ctx) })
	loops.Go(func() { p.pendingLoop(ctx) })
	loops.Wait()
	p.handBack(context.WithoutCancel(ctx))
	p.launcher.sentry.looks.Wait() // the launcher, which has been stopped, begins no other
}

// Wake makes the poller look at the tables now: this process has just written a schedule.
func (p *Poller) Wake() { signal(p.poll) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pollLoop keeps a steady beat: a poll that takes long does not push the next one back.
func (p *Poller) pollLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pacer := outage.New(p.cfg.Log, "poll")
	beat := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.poll:
		case <-timer.C:
			beat = nextBeat(beat, time.Now(), p.cfg.Interval)
		}
		if ctx.Err() != nil {
			return // select picks at random when several are ready
		}
		err := p.readDue(ctx)
		if ctx.Err() != nil {
			return // and so is the error
		}
		timer.Reset(pacer.Next(err, max(0, time.Until(beat))))
	}
}

// nextBeat is the first beat after now of those an interval apart.
func nextBeat(beat, now time.Time, interval time.Duration) time.Time {
	if now.Before(beat) {
		return beat // a retry, between beats
	}
	return now.Add(interval - now.Sub(beat)%interval)
}

// readDue plans every execute that is ours and fires within the window.
func (p *Poller) readDue(ctx context.Context) error {
	if !p.cluster.Claiming() {
		return outage.ErrIdle
	}
	ctx, cancel := context.WithTimeout(ctx, max(storeTimeout, p.cfg.Interval))
	defer cancel()
	now, mark := p.cluster.Now(), p.plan.mark()
	due, err := p.executes.Due(ctx, now.Add(-p.cfg.MisfireAfter), p.horizon(now), p.cluster.MayOwn(), func(id int64, class string) bool {
		if !p.handles(class) {
			p.cfg.Unhandled(class)
			return false
		}
		return p.cluster.Rank(class, id) == 0
	})
	if err != nil {
		return err
	}
	ready, err := p.prepare(ctx, due, p.entryFor)
	p.plan.replace(ready, mark)
	signal(p.wake)
	return err
}

func (p *Poller) horizon(now time.Time) time.Time { return now.Add(p.cfg.Interval + windowSlack) }

func (p *Poller) handles(class string) bool {
	_, ok := slices.BinarySearch(p.cfg.Classes, class)
	return ok
}

// prepare returns the entries of rows that can be planned. It first moves rows whose schedule is broken, new, or was
// resumed by SQL, and returns them, too, if this node may claim them.
func (p *Poller) prepare(ctx context.Context, rows []*execute.Execute, entryFor func(*execute.Execute) *entry) ([]*entry, error) {
	var ready []*entry
	var moves []execute.Move
	now := p.cluster.Now()
	for _, e := range rows {
		switch {
		case e.Problem != nil:
			p.cfg.Log.Warn().Err(e.Problem).Msg("set to ERROR: its schedule cannot be used")
			moves = append(moves, e.ErrorMove())
		case e.Next.IsZero():
			moves = append(moves, e.BeginMove(now))
		case e.Next.Before(e.ResumedAt):
			moves = append(moves, e.MoveTo(e.ResumedAt))
		default:
			ready = append(ready, entryFor(e))
		}
	}
	for some := range slices.Chunk(moves, maxSwept) {
		moved, err := p.executes.Move(ctx, p.cluster.Self(), execute.Executing, some)
		p.report(moved.Refused)
		if err != nil {
			return ready, err
		}
		for _, e := range moved.Moved {
			if e.State == execute.Executing && !e.Next.After(p.horizon(now)) {
				ready = append(ready, entryFor(e))
			}
		}
	}
	return ready, nil
}

// entryFor plans a claim at the fire's time, or later by the head start of others.
func (p *Poller) entryFor(e *execute.Execute) *entry {
	return &entry{execute: e, at: e.Next.Add(p.headStart(e))}
}

// HandBackDoubts hands back claims in doubt, if they did commit, and what GiveUp was told of.
func (p *Poller) HandBackDoubts(ctx context.Context) error {
	executes, err := p.doubts.resolve(ctx, stores{p.executes, p.runs})
	p.plan.forget(executes)
	return err
}

// GiveUp has a run handed back, as soon as the database answers, that was claimed here and will not be started here. If it
// has been put on record as LOST by then, it stays so.
func (p *Poller) GiveUp(r run.Run) { p.doubts.unstarted(r) }

// handBack gives up everything claimed and not started.
func (p *Poller) handBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	for _, r := range append(p.ahead.stop(), p.launcher.stop()...) {
		p.doubts.unstarted(r)
	}
	if err := p.HandBackDoubts(ctx); err != nil {
		p.cfg.Log.Warn().Err(err).Msg("could not hand back what was claimed and not started; it is tried again before this node leaves")
	}
}

// Leave hands back what could not be when Run ended, before this node leaves the cluster: what is then left will be LOST.
func (p *Poller) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if p.doubts.count() == 0 {
		return
	}
	err := p.HandBackDoubts(ctx)
	if left := p.doubts.count(); left > 0 || err != nil {
		p.cfg.Log.Error().Err(err).Int("runs", left).Msg("could not hand back what was claimed and not started; it will be LOST")
	}
}
