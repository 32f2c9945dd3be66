package poller

import (
	"cmp"
	"container/heap"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/run"
)

// entry is an execute that this node means to claim.
type entry struct {
	execute *execute.Execute
	at      time.Time // when to claim: at its next fire, or later if other nodes go first
	in      *queue    // that holds it, or held it last
	index   int       // in that queue; -1 while its claim is under way
	parked  bool      // its class had no room
	company bool      // it is claimed because others are, and has no slot
	touched uint64    // the plan's change number when it was last set
}

// plan holds what this node will claim within its window, the earliest first. It stands between those
// who read the tables and the one who claims: a row that was read before our own claim of it is stale
// and must not overwrite what the claim left.
type plan struct {
	mu      sync.Mutex
	entries map[int64]*entry
	gone    map[int64]departure // executes that have been forgotten a short while ago
	open    lane                // what may be taken, as far as is known
	parked  map[string]*lane    // by class: what was due while its class had no room
	changes uint64
}

// lane holds entries in queues of one priority each.
type lane struct {
	early [priorities]queue // claimed a little before their time
	exact [priorities]queue // claimed at it: while their job's last run is under way there may be no room for them
}

const priorities = int(run.PriorityHigh-run.PriorityLow) + 1

func (l *lane) put(e *entry) {
	queues := &l.early
	if e.execute.Exclusive {
		queues = &l.exact
	}
	e.in = &queues[e.execute.Priority-run.PriorityLow]
	e.parked = false
	heap.Push(e.in, e)
}

func (l *lane) empty() bool {
	for i := range priorities {
		if len(l.early[i])+len(l.exact[i]) > 0 {
			return false
		}
	}
	return true
}

// departure is when an execute was forgotten: a row that was read before must not bring it back.
type departure struct {
	change uint64
	at     time.Time
}

// longestRead is more than a read of the tables may take.
const longestRead = 2 * time.Minute

func newPlan() *plan {
	return &plan{entries: map[int64]*entry{}, gone: map[int64]departure{}, parked: map[string]*lane{}}
}

// mark is the plan's change number. Rows read after it may be merged as of it.
func (p *plan) mark() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes
}

// add merges executes that were read as of a mark: those that have been claimed since are left alone.
func (p *plan) add(read []*entry, asOf uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes++ // a poll under way that does not know them must not forget them
	for _, e := range read {
		p.put(e, asOf)
	}
}

// replace is add, and forgets what is not among the executes read: it has moved on, or to another node.
func (p *plan) replace(read []*entry, asOf uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := make(map[int64]bool, len(read))
	for _, e := range read {
		keep[e.execute.ID] = true
		p.put(e, asOf)
	}
	for id, e := range p.entries {
		if !keep[id] && e.index >= 0 && e.touched <= asOf {
			heap.Remove(e.in, e.index)
			delete(p.entries, id)
		}
	}
	for id, d := range p.gone {
		if time.Since(d.at) > longestRead {
			delete(p.gone, id)
		}
	}
}

func (p *plan) put(e *entry, asOf uint64) {
	if old, ok := p.entries[e.execute.ID]; ok {
		if old.index < 0 || old.touched > asOf {
			return
		}
		heap.Remove(old.in, old.index)
	}
	if p.gone[e.execute.ID].change > asOf {
		return
	}
	e.touched = p.changes
	p.entries[e.execute.ID] = e
	p.open.put(e)
}

// due says which entries are to be taken, and in what order.
type due struct {
	now   time.Time // entries that are due by now are taken
	until time.Time // and those due not after until that may be claimed early
	old   time.Time // what has been due since before goes by age, whatever its priority
}

// take removes up to n entries to be claimed, as many of each class as admit says when it is asked for each. Each must be put
// back. Entries of a class that has no room are parked, so that they are not in the way of others.
func (p *plan) take(d due, n int, admit func(class string) bool) (batch []*entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	full := map[string]bool{}
	for len(batch) < n {
		e := p.next(d, full)
		if e == nil {
			break
		}
		class := e.execute.Class
		switch {
		case !full[class] && admit(class):
			heap.Remove(e.in, e.index)
			batch = append(batch, e)
		case e.parked:
			full[class] = true
		default:
			full[class] = true
			heap.Remove(e.in, e.index)
			p.park(e)
		}
	}
	for class, l := range p.parked {
		if l.empty() {
			delete(p.parked, class)
		}
	}
	return batch
}

// company removes up to n entries of this node's own that are due not after until and may be claimed early, the earliest first, of the classes
// that admit lets pass. Each must be put back.
func (p *plan) company(until time.Time, n int, admit func(class string) bool) (batch []*entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []*entry
	for len(batch) < n && len(left) < maxBatch {
		var e *entry
		for i := range p.open.early {
			if q := p.open.early[i]; len(q) > 0 && !q[0].at.After(until) && (e == nil || q[0].at.Before(e.at)) {
				e = q[0]
			}
		}
		if e == nil {
			break
		}
		heap.Remove(e.in, e.index)
		if e.company = e.at.Equal(e.execute.Next) && admit(e.execute.Class); e.company {
			batch = append(batch, e)
		} else {
			left = append(left, e)
		}
	}
	for _, e := range left {
		heap.Push(e.in, e)
	}
	return batch
}

// next is the entry to be claimed next; nil if there is none. Classes that are full are passed over, but for what is not parked yet.
func (p *plan) next(d due, full map[string]bool) *entry {
	best := p.open.next(d, nil)
	for class, l := range p.parked {
		if !full[class] {
			best = l.next(d, best)
		}
	}
	return best
}

// next is the entry of the lane to be claimed next, or best if that goes before it.
func (l *lane) next(d due, best *entry) *entry {
	for i := range priorities {
		if q := l.early[i]; len(q) > 0 && !q[0].at.After(d.until) && (best == nil || d.before(q[0], best)) {
			best = q[0]
		}
		if q := l.exact[i]; len(q) > 0 && !q[0].at.After(d.now) && (best == nil || d.before(q[0], best)) {
			best = q[0]
		}
	}
	return best
}

// before tells whether a is claimed before b: what is old goes by age, what is due by priority, and what is claimed early by time.
func (d due) before(a, b *entry) bool {
	if c := cmp.Compare(d.group(a), d.group(b)); c != 0 {
		return c < 0
	}
	first, second := cmp.Compare(b.execute.Priority, a.execute.Priority), a.at.Compare(b.at)
	if d.group(a) != dueNow {
		first, second = second, first
	}
	return cmp.Or(first, second, cmp.Compare(a.execute.ID, b.execute.ID)) < 0
}

// The groups of entries, in the order in which they are claimed.
const (
	dueLong = iota
	dueNow
	dueSoon
)

func (d due) group(e *entry) int {
	switch {
	case e.at.Before(d.old):
		return dueLong
	case e.at.After(d.now):
		return dueSoon
	default:
		return dueNow
	}
}

func (p *plan) park(e *entry) {
	l := p.parked[e.execute.Class]
	if l == nil {
		l = &lane{}
		p.parked[e.execute.Class] = l
	}
	l.put(e)
	e.parked = true
}

// putBack plans a taken entry again as its claim left it, or forgets it if next is nil.
func (p *plan) putBack(e *entry, next *execute.Execute) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes++
	e.company = false
	if next == nil {
		delete(p.entries, e.execute.ID)
		p.gone[e.execute.ID] = departure{p.changes, time.Now()}
		return
	}
	e.execute, e.at, e.touched = next, next.Next, p.changes
	p.open.put(e)
}

// forget drops executes whose rows have changed since they were read. Claims of them that are under way are left alone.
func (p *plan) forget(ids []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes++
	for _, id := range ids {
		p.gone[id] = departure{p.changes, time.Now()}
		if e := p.entries[id]; e != nil && e.index >= 0 {
			heap.Remove(e.in, e.index)
			delete(p.entries, id)
		}
	}
}

// earliest is when the next fire is due that may be claimed early, and the next that may not; zero if there is none. Of what is
// parked it looks at classes that have room again.
func (p *plan) earliest(hasRoom func(class string) bool) (early, exact time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	early, exact = p.open.first()
	for class, l := range p.parked {
		if hasRoom(class) {
			e, x := l.first()
			early, exact = sooner(early, e), sooner(exact, x)
		}
	}
	return early, exact
}

func (l *lane) first() (early, exact time.Time) {
	for i := range priorities {
		early, exact = sooner(early, l.early[i].first()), sooner(exact, l.exact[i].first())
	}
	return early, exact
}

// sooner is the earlier of two times, of which zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// crowded tells whether at least n entries that may be claimed early are due not after until. It looks at no more than 2n of them.
func (p *plan) crowded(until time.Time, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for _, early := range p.open.early {
		stack := []int{0}
		for len(stack) > 0 && count < n {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if i < len(early) && !early[i].at.After(until) {
				count++
				stack = append(stack, 2*i+1, 2*i+2)
			}
		}
	}
	return count >= n
}

// clear forgets everything but the claims under way.
func (p *plan) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, e := range p.entries {
		if e.index >= 0 {
			delete(p.entries, id)
		}
	}
	p.open, p.parked = lane{}, map[string]*lane{}
}

// queue orders entries by time, and by id among equals.
type queue []*entry

// first is when the first entry is due; zero if there is none.
func (q queue) first() time.Time {
	if len(q) == 0 {
		return time.Time{}
	}
	return q[0].at
}

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if c := q[i].at.Compare(q[j].at); c != 0 {
		return c < 0
	}
	return q[i].execute.ID < q[j].execute.ID
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	e.index = -1
	return e
}
