// Package pool runs functions on a bounded number of goroutines. Not part of qrtz's API.
package pool

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Pool bounds how many functions run at once, in all and of each class. A slot is reserved first and used or released
// later, so that a node claims only what it can start.
type Pool struct {
	mu    sync.Mutex
	size  int
	taken int             // slots reserved or running
	freed []chan struct{} // each tells one waiter that slots came free
	idle  chan struct{}   // closed when nothing is taken; nil while no goroutine waits for that

	classes  map[string]*class
	reserved int // as Limit was told: 0 for the default, negative for none
	slow     int // slots taken by classes that are not known to be quick
	judged   time.Time
}

// New returns a pool of size slots; size must be positive.
func New(size int) *Pool {
	return &Pool{size: size, classes: map[string]*class{}}
}

// Reserve takes up to n free slots and returns how many it got. Each must be given to a class by Assign, or released.
func (p *Pool) Reserve(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reserve(n)
}

func (p *Pool) reserve(n int) int {
	n = max(0, min(n, p.size-p.taken))
	p.taken += n
	return n
}

// Release gives back n reserved slots that belong to no class.
func (p *Pool) Release(n int) {
	if n <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(n)
}

func (p *Pool) release(n int) {
	p.taken -= n
	p.tellFreed()
	if p.taken == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// Go runs f in a slot of its class, and frees the slot when f returns. f must not panic.
func (p *Pool) Go(name string, f func()) {
	p.GoOn(name, func(func()) { f() })
}

// GoOn is Go for an f that does several things one after the other in the slot, as if each were a function of its class: it calls next
// between two of them.
func (p *Pool) GoOn(name string, f func(next func())) {
	began := p.begin(name)
	go func() {
		defer p.end(name, began)
		f(func() { p.next(name, began) })
	}()
}

// Free is how many slots could be reserved now. It is 0, not negative, while a smaller size is being reached.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.size-p.taken)
}

// Size is how many functions may run at once.
func (p *Pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

// Freed returns a channel for one waiter: it receives when slots came free since it last did, whatever other waiters
// receive. The waiter calls stop when it waits no more.
func (p *Pool) Freed() (freed <-chan struct{}, stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := make(chan struct{}, 1)
	p.freed = append(p.freed, own)
	return own, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.freed = slices.DeleteFunc(slices.Clone(p.freed), func(c chan struct{}) bool { return c == own })
	}
}

// tellFreed never blocks: a waiter that has not received yet knows already.
func (p *Pool) tellFreed() {
	for _, waiter := range p.freed {
		select {
		case waiter <- struct{}{}:
		default:
		}
	}
}

// Resize changes the size. Running functions continue; a smaller size is reached as slots come free.
func (p *Pool) Resize(size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = size
	p.tellFreed()
}

// Drain waits until no slot is taken, or returns the cause of ctx's end. Nothing may be reserved meanwhile.
func (p *Pool) Drain(ctx context.Context) error {
	p.mu.Lock()
	if p.taken == 0 {
		p.mu.Unlock()
		return nil
	}
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	idle := p.idle
	p.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
