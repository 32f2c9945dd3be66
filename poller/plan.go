package poller

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/execute"
)

// entry is an execute that this node means to claim.
type entry struct {
	execute *execute.Execute
	at      time.Time // when to claim: at its next fire, or later if other nodes go first
	index   int       // in the heap; -1 while its claim is under way
	touched uint64    // the plan's change number when it was last set
}

// plan holds what this node will claim within its window, the earliest first. It stands between those
// who read the tables and the one who claims: a row that was read before our own claim of it is stale
// and must not overwrite what the claim left.
type plan struct {
	mu      sync.Mutex
	entries map[int64]*entry
	gone    map[int64]departure // executes that have been forgotten a short while ago
	early   queue               // claimed a little before their time
	exact   queue               // claimed at it: while their job's last run is under way there is no room for them
	changes uint64
}

func (p *plan) queueOf(e *entry) *queue {
	if e.execute.Exclusive {
		return &p.exact
	}
	return &p.early
}

// departure is when an execute was forgotten: a row that was read before must not bring it back.
type departure struct {
	change uint64
	at     time.Time
}

// longestRead is more than a read of the tables may take.
const longestRead = 2 * time.Minute

func newPlan() *plan { return &plan{entries: map[int64]*entry{}, gone: map[int64]departure{}} }

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
			heap.Remove(p.queueOf(e), e.index)
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
		heap.Remove(p.queueOf(old), old.index)
	}
	if p.gone[e.execute.ID].change > asOf {
		return
	}
	e.touched = p.changes
	p.entries[e.execute.ID] = e
	heap.Push(p.queueOf(e), e)
}

// take removes up to n entries to be claimed at now: those due by then, and those due not after until that may be
// claimed early. Each must be put back.
func (p *plan) take(now, until time.Time, n int) []*entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	batch := p.exact.pop(nil, now, n)
	return p.early.pop(batch, until, n)
}

// putBack plans a taken entry again as its claim left it, or forgets it if next is nil.
func (p *plan) putBack(e *entry, next *execute.Execute) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes++
	if next == nil {
		delete(p.entries, e.execute.ID)
		p.gone[e.execute.ID] = departure{p.changes, time.Now()}
		return
	}
	e.execute, e.at, e.touched = next, next.Next, p.changes
	heap.Push(p.queueOf(e), e)
}

// forget drops executes whose rows have changed since they were read. Claims of them that are under way are left alone.
func (p *plan) forget(ids []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes++
	for _, id := range ids {
		p.gone[id] = departure{p.changes, time.Now()}
		if e := p.entries[id]; e != nil && e.index >= 0 {
			heap.Remove(p.queueOf(e), e.index)
			delete(p.entries, id)
		}
	}
}

// earliest is when the next fire is due that may be claimed early, and the next that may not; zero if there is none.
func (p *plan) earliest() (early, exact time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.early.first(), p.exact.first()
}

// crowded tells whether at least n entries that may be claimed early are due not after until. It looks at no more than 2n of them.
func (p *plan) crowded(until time.Time, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	stack := []int{0}
	for len(stack) > 0 && count < n {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if i < len(p.early) && !p.early[i].at.After(until) {
			count++
			stack = append(stack, 2*i+1, 2*i+2)
		}
	}
	return count >= n
}

// clear forgets everything but the claims under way.
func (p *plan) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range slices.Concat(p.early, p.exact) {
		delete(p.entries, e.execute.ID)
	}
	p.early, p.exact = nil, nil
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

// pop moves entries due not after until to batch, while that has fewer than n.
func (q *queue) pop(batch []*entry, until time.Time, n int) []*entry {
	for len(batch) < n && len(*q) > 0 && !(*q)[0].at.After(until) {
		batch = append(batch, heap.Pop(q).(*entry))
	}
	return batch
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
