package poller

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// launcher holds runs that were claimed a little before their time and starts each at the instant, never
// before, in order of fire time. Every run it is given has a slot of the pool reserved.
type launcher struct {
	now  func() time.Time
	pool Pool
	run  func(r run.Run, startedAt time.Time, next func())

	mu      sync.Mutex
	stopped bool
	held    []*launch        // in order of time
	latest  map[int64]*start // of each execute, until it has begun
	timer   *time.Timer
}

// launch is the runs of one claim with the same fire time.
type launch struct {
	at   time.Time
	runs []*start
}

// start is a run. It waits for the start of its execute's fire before it, should that not have begun yet: a process that
// was held up finds both due at once, and goroutines run in any order.
type start struct {
	run   run.Run
	after <-chan struct{} // nil: at once
	begun chan struct{}
}

func newLauncher(now func() time.Time, pool Pool, carryOut func(r run.Run, at time.Time, next func())) *launcher {
	return &launcher{now: now, pool: pool, run: carryOut, latest: map[int64]*start{}}
}

// launch starts runs, given in order of fire time, each at its time, and of those with the same time the more urgent first. After stop it only keeps them, to be
// handed back.
func (l *launcher) launch(runs []run.Run) {
	if len(runs) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, l.group(runs)...)
	slices.SortStableFunc(l.held, func(a, b *launch) int { return a.at.Compare(b.at) })
	l.startDue()
}

// countHeld is how many runs wait for their time.
func (l *launcher) countHeld() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, group := range l.held {
		n += len(group.runs)
	}
	return n
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

// startDue starts what is due and sets the timer for what is not. The clock decides, not the timer: it may
// have been measured again since the timer was set.
func (l *launcher) startDue() {
	for !l.stopped && len(l.held) > 0 {
		if early := l.held[0].at.Sub(l.now()); early > 0 {
			l.wakeIn(early)
			return
		}
		for _, s := range l.held[0].runs {
			l.pool.GoOn(s.run.Class, func(next func()) { l.begin(s, next) })
		}
		l.held = l.held[1:]
	}
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
	if l.latest[s.run.ExecuteID] == s {
		delete(l.latest, s.run.ExecuteID)
	}
}

// stop starts nothing more, returns what has not been started, and frees its slots.
func (l *launcher) stop() []run.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
	var unstarted []run.Run
	for _, group := range l.held {
		for _, s := range group.runs {
			unstarted = append(unstarted, s.run)
			l.pool.ReleaseFor(s.run.Class, 1)
		}
	}
	l.held = nil
	return unstarted
}
