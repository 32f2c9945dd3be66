package poller

import (
	"sync/atomic"
	"time"
)

// pendingSignals are what others tell the loop.
type pendingSignals struct {
	expected expected
	wake     chan struct{}
	lookAt   atomic.Int64 // when something is to be found, in nanoseconds by the machine's clock; 0: not known
	hungry   atomic.Bool  // fires are due for which there was no slot
	swept    atomic.Bool  // this node's sweep has found some, and the next one of their owner may be much later
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
	if wait > p.lookAhead() {
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
