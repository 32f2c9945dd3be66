package poller

import (
	"slices"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/execute"
)

// launcher holds runs that were claimed a little before their time and starts each at the instant, never
// before, in order of fire time. Every run it is given has a slot of the pool reserved.
type launcher struct {
	now  func() time.Time
	pool Pool
	run  func(run execute.Run, startedAt time.Time)

	mu      sync.Mutex
	stopped bool
	waiting []*launch // in order of time
	timer   *time.Timer
}

// launch is the runs of one claim with the same fire time.
type launch struct {
	at   time.Time
	runs []*start
}

// start is a run and, if an earlier fire of its execute is launched with it, that one's start, which it waits for.
type start struct {
	run   execute.Run
	after <-chan struct{} // nil: at once
	begun chan struct{}   // nil: nobody waits
}

func newLauncher(now func() time.Time, pool Pool, run func(execute.Run, time.Time)) *launcher {
	return &launcher{now: now, pool: pool, run: run}
}

// launch starts runs, given in order of fire time, each at its time. After stop it only keeps them, to be
// handed back.
func (l *launcher) launch(runs []execute.Run) {
	if len(runs) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, group(runs)...)
	slices.SortStableFunc(l.waiting, func(a, b *launch) int { return a.at.Compare(b.at) })
	l.startDue()
}

// held is how many runs wait for their time.
func (l *launcher) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, one := range l.waiting {
		n += len(one.runs)
	}
	return n
}

// group splits runs by fire time, and chains those of the same execute: a later fire never overtakes an earlier one.
func group(runs []execute.Run) []*launch {
	var groups []*launch
	latest := make(map[int64]*start, len(runs))
	for _, r := range runs {
		if len(groups) == 0 || !groups[len(groups)-1].at.Equal(r.FireTime) {
			groups = append(groups, &launch{at: r.FireTime})
		}
		s := &start{run: r}
		if before := latest[r.ExecuteID]; before != nil && r.ExecuteID != 0 {
			before.begun = make(chan struct{})
			s.after = before.begun
		}
		latest[r.ExecuteID] = s
		last := groups[len(groups)-1]
		last.runs = append(last.runs, s)
	}
	return groups
}

// startDue starts what is due and sets the timer for what is not. The clock decides, not the timer: it may
// have been measured anew since the timer was set.
func (l *launcher) startDue() {
	for !l.stopped && len(l.waiting) > 0 {
		if early := l.waiting[0].at.Sub(l.now()); early > 0 {
			l.wakeIn(early)
			return
		}
		for _, s := range l.waiting[0].runs {
			l.pool.Go(func() { l.begin(s) })
		}
		l.waiting = l.waiting[1:]
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

func (l *launcher) begin(s *start) {
	if s.after != nil {
		<-s.after
	}
	at := l.now()
	if s.begun != nil {
		close(s.begun)
	}
	l.run(s.run, at)
}

// stop starts nothing more, returns what has not been started, and frees its slots.
func (l *launcher) stop() []execute.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
	var unstarted []execute.Run
	for _, one := range l.waiting {
		for _, s := range one.runs {
			unstarted = append(unstarted, s.run)
		}
		l.pool.Release(len(one.runs))
	}
	l.waiting = nil
	return unstarted
}
