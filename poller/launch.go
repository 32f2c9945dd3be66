package poller

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// launcher holds runs that were claimed before their time and starts each at the instant, never before, in order of fire
// time. What was claimed more than a moment ago starts only when the switches have been looked at again (sentry). A run that was
// claimed to keep others company gets its slot of the pool when it starts; all others have one reserved.
type launcher struct {
	now    func() time.Time
	pool   Pool
	run    func(r run.Run, startedAt time.Time, next func())
	sentry *sentry              // nil: nothing is held that it would have to look at
	giveUp func(runs []run.Run) // is told of runs that will not be started here; it must not block

	mu      sync.Mutex
	stopped bool
	held    []*launch        // in order of time
	latest  map[int64]*start // of each execute, until it has begun
	timer   *time.Timer
	short   bool // a run that is due has found no slot
}

// launch is the runs of one claim with the same fire time.
type launch struct {
	at   time.Time
	sure bool      // the switches were seen on a moment before that time
	ends time.Time // when, by this process's clock, that is a moment no more; zero: never
	runs []*start
}

// start is a run. It waits for the start of its execute's fire before it, should that not have begun yet: a process that
// was held up finds both due at once, and goroutines run in any order.
type start struct {
	run      run.Run
	slotless bool            // it has no slot yet
	after    <-chan struct{} // nil: at once
	begun    chan struct{}
}

func newLauncher(now func() time.Time, pool Pool, carryOut func(r run.Run, at time.Time, next func())) *launcher {
	return &launcher{now: now, pool: pool, run: carryOut, latest: map[int64]*start{}, giveUp: func([]run.Run) {}}
}

// launch starts runs, given in order of fire time, each at its time, and of those with the same time the more urgent first. After stop it only keeps them, to be
// handed back.
func (l *launcher) launch(runs []run.Run) {
	l.hold(runs, func(run.Run) bool { return false }, time.Time{})
}

// hold is launch for runs of which some have no slot yet. What is due after sure needs another look at the switches; if sure is
// zero, nothing does.
func (l *launcher) hold(runs []run.Run, slotless func(run.Run) bool, sure time.Time) {
	if len(runs) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	groups := l.group(runs)
	for _, g := range groups {
		if g.sure = l.sentry == nil || sure.IsZero() || !g.at.After(sure); g.sure && !sure.IsZero() {
			g.ends = time.Now().Add(sureFor)
		}
		for _, s := range g.runs {
			s.slotless = slotless(s.run)
		}
	}
	l.held = append(l.held, groups...)
	slices.SortStableFunc(l.held, func(a, b *launch) int { return a.at.Compare(b.at) })
	l.startDue()
}

// countHeld is how many runs wait for their time in a slot.
func (l *launcher) countHeld() (n int) {
	l.each(func(s *start) {
		if !s.slotless {
			n++
		}
	})
	return n
}

// slotless is how many runs of each class wait for their time without a slot, and how many in all.
func (l *launcher) slotless() (byClass map[string]int, all int) {
	byClass = map[string]int{}
	l.each(func(s *start) {
		if s.slotless {
			byClass[s.run.Class]++
			all++
		}
	})
	return byClass, all
}

func (l *launcher) each(f func(*start)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, group := range l.held {
		for _, s := range group.runs {
			f(s)
		}
	}
}

// hungry tells whether a run that is due has found no slot.
func (l *launcher) hungry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.short
}

// slotsFreed starts what has found no slot before.
func (l *launcher) slotsFreed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) > 0 {
		l.startDue()
	}
}

// group splits runs by fire time, and chains those of the same execute: a later fire never overtakes an earlier one.
func (l *launcher) group(runs []run.Run) []*launch {
	var groups []*launch
	for _, r := range runs {
		if len(groups) == 0 || !groups[len(groups)-1].at.Equal(r.FireTime) {
			groups = append(groups, &launch{at: r.FireTime})
		}
		s := &start{run: r, begun: make(chan struct{})}
		if r.ExecuteID != 0 {
			l.chain(s)
		}
		last := groups[len(groups)-1]
		last.runs = append(last.runs, s)
	}
	for _, g := range groups {
		slices.SortStableFunc(g.runs, func(a, b *start) int { return cmp.Compare(b.run.Options.Priority, a.run.Options.Priority) })
	}
	return groups
}

// chain has a start wait for the one before it. A further attempt of an old fire waits for none: what is due later may
// yet be handed back.
func (l *launcher) chain(s *start) {
	before := l.latest[s.run.ExecuteID]
	switch {
	case before == nil:
	case before.run.FireTime.Before(s.run.FireTime):
		s.after = before.begun
	default:
		return
	}
	l.latest[s.run.ExecuteID] = s
}

// startDue starts what is due, and sets the timer for what is not. The clock decides, not the timer: it may
// have been measured again since the timer was set.
func (l *launcher) startDue() {
	if l.stopped {
		return
	}
	now, due := l.now(), 0
	for _, group := range l.held {
		if group.at.After(now) {
			break
		}
		due++
		if !group.ends.IsZero() && time.Now().After(group.ends) {
			group.sure, group.ends = false, time.Time{} // the process was frozen, the clock was set back, or there was no slot
		}
		if group.sure {
			l.startGroup(group, now.Sub(group.at))
		}
	}
	left := slices.DeleteFunc(l.held[:due:due], func(g *launch) bool { return len(g.runs) == 0 })
	if l.held = l.held[due:]; len(left) > 0 {
		l.held = slices.Concat(left, l.held)
	}
	noSlot := slices.ContainsFunc(left, func(g *launch) bool { return g.sure })
	l.short = noSlot && l.pool.Free() == 0 // else their classes are at their limits
	wait := l.look(now)
	if noSlot {
		wait = min(wait, grace) // at the latest, if no slot comes free
	}
	if len(l.held) > len(left) {
		wait = min(wait, l.held[len(left)].at.Sub(now))
	}
	if len(l.held) > 0 {
		l.wakeIn(wait)
	}
}

// startGroup starts the runs of a group that is due, as far as there are slots. What has waited for one for so long that other nodes would have
// claimed it, too, is left to them.
func (l *launcher) startGroup(group *launch, late time.Duration) {
	group.runs = slices.DeleteFunc(group.runs, func(s *start) bool {
		switch {
		case !s.slotless || l.pool.ReserveFor(s.run.Class, 1) == 1:
			l.pool.GoOn(s.run.Class, func(next func()) { l.begin(s, next) })
			return true
		case late >= grace:
			l.drop(s)
			l.giveUp([]run.Run{s.run})
			return true
		default:
			return false
		}
	})
}

// look has the sentry look at the switches if it is time to, and says how long until then.
func (l *launcher) look(now time.Time) time.Duration {
	if l.sentry == nil {
		return idle
	}
	for i, group := range l.held {
		if !group.sure {
			return l.sentry.look(group.at.Sub(now), l.crowdFrom(i), l.looked)
		}
	}
	return idle
}

// crowdFrom tells whether a crowd is due together with the group at i.
func (l *launcher) crowdFrom(i int) bool {
	n, until := 0, l.held[i].at.Add(lookMost)
	for _, group := range l.held[i:] {
		if n += len(group.runs); n >= crowd || group.at.After(until) {
			break
		}
	}
	return n >= crowd
}

// looked is told what the sentry has seen. What is due not after until has been looked at in time.
func (l *launcher) looked(on bool, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	if !on {
		l.giveUp(l.dropAll())
		return
	}
	for _, group := range l.held {
		if !group.at.After(until) {
			group.sure, group.ends = true, time.Now().Add(sureFor)
		}
	}
	l.startDue()
}

func (l *launcher) wakeIn(d time.Duration) {
	if l.timer != nil {
		l.timer.Reset(d)
		return
	}
	l.timer = time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.startDue()
	})
}

func (l *launcher) begin(s *start, next func()) {
	if s.after != nil {
		<-s.after
	}
	at := later(l.now(), s.run.FireTime) // measured again since it was due, the clock may be further behind the database's
	close(s.begun)
	l.forget(s)
	l.run(s.run, at, next)
}

// forget takes a start that has begun, or never will, out of the chain.
func (l *launcher) forget(s *start) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unchain(s)
}

func (l *launcher) unchain(s *start) {
	if l.latest[s.run.ExecuteID] == s {
		delete(l.latest, s.run.ExecuteID)
	}
}

// drop gives up a start: nothing waits for it any more.
func (l *launcher) drop(s *start) {
	close(s.begun)
	l.unchain(s)
	if !s.slotless {
		l.pool.ReleaseFor(s.run.Class, 1)
	}
}

func (l *launcher) dropAll() []run.Run {
	var unstarted []run.Run
	for _, group := range l.held {
		for _, s := range group.runs {
			l.drop(s)
			unstarted = append(unstarted, s.run)
		}
	}
	l.held, l.short = nil, false
	return unstarted
}

// giveBack returns what has not been started, and frees its slots.
func (l *launcher) giveBack() []run.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropAll()
}

// stop starts nothing more, returns what has not been started, and frees its slots.
func (l *launcher) stop() []run.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
	return l.dropAll()
}
