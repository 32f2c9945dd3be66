package poller

import (
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

const (
	fewAhead  = 4                      // runs for which it is not worthwhile to claim ahead
	mostAhead = maxBatch               // runs that wait for slots
	aheadFor  = 250 * time.Millisecond // after which the runs of a class are handed back if none of them has been started
	aheadMost = time.Second            // and if one of them has waited for so long
	aheadOver = 2                      // claims that take as long as the last ones: for so long the runs ahead should last
)

// ahead are runs that were claimed before there was a slot for them, because those of their class that go end by themselves faster
// than claims come. A slot whose run ends continues with the next of them, without a claim in between. There are as many as are
// likely to be started while the next claims are under way: none where handlers take long.
type ahead struct {
	now   func() time.Time
	few   func()      // is told when half of them have been started
	yield func() bool // slots are wanted for something else

	mu      sync.Mutex
	stopped bool
	waiting map[string]*waiting // by class; none is empty
	count   int
	half    int                      // of how many there were after the last claim
	ended   map[string]int           // runs of each class, since the last claim
	took    map[string]time.Duration // by them together
	counted time.Time                // since when they are counted
}

// waiting are the runs of one class, in the order in which they were claimed.
type waiting struct {
	runs    []run.Run
	claimed []time.Time
	since   time.Time // when the first of them came, or one was last started
}

// until is when they have waited for too long.
func (w *waiting) until() time.Time {
	started, oldest := w.since.Add(aheadFor), w.claimed[0].Add(aheadMost)
	if oldest.Before(started) {
		return oldest
	}
	return started
}

func newAhead(now func() time.Time, few func(), yield func() bool) *ahead {
	return &ahead{now: now, few: few, yield: yield, waiting: map[string]*waiting{}, ended: map[string]int{}, took: map[string]time.Duration{}}
}

// carryOut carries out a run, and in the same slot what waits for one. It calls further before each of these.
func (a *ahead) carryOut(carryOut func(run.Run, time.Time), r run.Run, at time.Time, further func()) {
	began := time.Now()
	carryOut(r, at)
	for {
		next, ok := a.next(r.Class, time.Since(began))
		if !ok {
			return
		}
		now := a.now()
		if early := next.FireTime.Sub(now); early > 0 { // the clock has been measured again since
			<-time.After(early)
		}
		further()
		began = time.Now()
		carryOut(next, later(now, next.FireTime))
	}
}

// next notes that a run of a class has ended, which took so long, and returns one to continue with.
func (a *ahead) next(class string, took time.Duration) (r run.Run, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended[class]++
	a.took[class] += took
	if a.waiting[class] == nil || a.stopped || a.yield() {
		return r, false
	}
	r = a.pop(class)
	if a.count == a.half {
		a.few()
	}
	return r, true
}

func (a *ahead) pop(class string) run.Run {
	w := a.waiting[class]
	r := w.runs[0]
	w.runs, w.claimed, w.since = w.runs[1:], w.claimed[1:], time.Now()
	if a.count--; len(w.runs) == 0 {
		delete(a.waiting, class)
	}
	return r
}

// room says how many runs of each class may be claimed ahead, by how many have ended since it was last asked. A claim takes so
// long.
func (a *ahead) room(claim time.Duration) map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	rooms := map[string]int{}
	for class, n := range a.ended {
		if a.took[class] > time.Duration(n)*claim {
			continue // they end no faster than claims come
		}
		if past := now.Sub(a.counted); past > 0 {
			n = int(int64(n) * int64(aheadOver*claim) / int64(past))
		}
		n = min(n, mostAhead-a.count)
		if w := a.waiting[class]; w != nil {
			n -= len(w.runs)
		}
		if n >= fewAhead {
			rooms[class] = n
		}
	}
	return rooms
}

// recount counts from zero again.
func (a *ahead) recount() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.ended)
	clear(a.took)
	a.counted = time.Now()
}

// add takes runs that have no slot.
func (a *ahead) add(runs []run.Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, r := range runs {
		w := a.waiting[r.Class]
		if w == nil {
			w = &waiting{since: now}
			a.waiting[r.Class] = w
		}
		w.runs, w.claimed = append(w.runs, r), append(w.claimed, now)
	}
	a.count += len(runs)
	a.half = a.count / 2
}

// take takes those out for which there is a slot.
func (a *ahead) take(reserve func(class string) bool) (runs []run.Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for class := range a.waiting {
		for a.waiting[class] != nil && reserve(class) {
			runs = append(runs, a.pop(class))
		}
	}
	return runs
}

// overdue takes out those of the classes that have waited for too long.
func (a *ahead) overdue(now time.Time) (runs []run.Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for class, w := range a.waiting {
		if w.until().After(now) {
			continue
		}
		runs = append(runs, w.runs...)
		a.count -= len(w.runs)
		delete(a.waiting, class)
	}
	return runs
}

// until is when the first of them will have waited for too long; zero if there are none.
func (a *ahead) until() (at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waiting {
		at = sooner(at, w.until())
	}
	return at
}

func (a *ahead) all() (runs []run.Run) {
	for _, w := range a.waiting {
		runs = append(runs, w.runs...)
	}
	clear(a.waiting)
	a.count = 0
	return runs
}

// drop takes out all of them.
func (a *ahead) drop() []run.Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all()
}

func (a *ahead) waits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// stop returns what has not been started, to be handed back.
func (a *ahead) stop() []run.Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	return a.all()
}
