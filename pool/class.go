package pool

import (
	"math"
	"time"
)

const (
	slowAfter  = time.Second           // a class whose functions last longer than this is slow
	judgeEvery = 10 * time.Millisecond // between looks at how long those under way have lasted
)

// class is what the pool knows of the functions of one class.
type class struct {
	limit int // how many run at once; 0 for any number
	taken int // slots reserved or running

	ended   bool          // one of them has
	average time.Duration // of those that have ended, a moving one
	oldest  *running      // of those under way, in order of their start
	newest  *running

	verdict verdict // as it was last judged, and as Pool.slow counts it
}

// running is a function under way.
type running struct {
	began         time.Time
	before, after *running
}

// verdict says how long the functions of a class last.
type verdict int

const (
	unknown verdict = iota // none has ended yet
	quick
	slow
)

// Limit sets how many functions of each class run at once, and how many slots slow classes leave to the others: 0 means an
// eighth of the size, at least one if there are four; a negative number means none. The names are those of all classes.
func (p *Pool) Limit(names []string, limits map[string]int, reserved int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.classes {
		c.limit = 0
	}
	for _, name := range names {
		p.class(name).limit = limits[name]
	}
	p.reserved = reserved
	p.tellFreed()
}

// Assign gives up to n slots that are reserved to a class, as many as it may take, and returns how many. Each must be given
// to Go or ReleaseFor.
func (p *Pool) Assign(name string, n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.assign(p.class(name), n)
}

func (p *Pool) assign(c *class, n int) int {
	n = max(0, min(n, p.room(c)))
	p.count(c, n)
	return n
}

// ReserveFor takes up to n free slots for a class, as many as it may take, and returns how many it got. Each must be given to Go
// or ReleaseFor.
func (p *Pool) ReserveFor(name string, n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.assign(p.class(name), min(n, p.reserve(min(n, p.room(p.class(name))))))
}

// ReleaseFor gives back n slots of a class unused.
func (p *Pool) ReleaseFor(name string, n int) {
	if n <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(p.class(name), -n)
	p.release(n)
}

// Change makes n slots of one class slots of another, whatever the other may take: what was claimed turned out to be of it.
func (p *Pool) Change(from, to string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(p.class(from), -n)
	p.count(p.class(to), n)
	p.tellFreed()
}

// Room is how many more slots a class may take, if so many are free.
func (p *Pool) Room(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.room(p.class(name))
}

func (p *Pool) room(c *class) int {
	room := math.MaxInt
	if c.limit > 0 {
		room = c.limit - c.taken
	}
	if share := p.share(); share > 0 {
		p.judgeAll(time.Now())
		if c.verdict != quick && p.mayBeQuick(c) {
			left := p.size - share - p.slow
			if c.verdict == unknown && c.taken == 0 {
				left = max(left, 1) // how long it takes, only a first one can tell
			}
			room = min(room, left)
		}
	}
	return max(0, room)
}

// share is how many slots are kept for what is quick.
func (p *Pool) share() int {
	switch {
	case p.reserved < 0 || p.reserved == 0 && p.size < 4:
		return 0
	case p.reserved == 0:
		return max(1, p.size/8)
	default:
		return min(p.reserved, p.size-1)
	}
}

// mayBeQuick tells whether there is a class, other than c, that is not known to be slow.
func (p *Pool) mayBeQuick(c *class) bool {
	for _, other := range p.classes {
		if other != c && other.verdict != slow {
			return true
		}
	}
	return false
}

// judgeAll judges all classes, if that was not done just before.
func (p *Pool) judgeAll(now time.Time) {
	if now.Sub(p.judged) < judgeEvery {
		return
	}
	p.judged = now
	for _, c := range p.classes {
		p.judge(c, now)
	}
}

func (p *Pool) judge(c *class, now time.Time) {
	taken := c.taken
	p.count(c, -taken)
	switch {
	case c.oldest != nil && now.Sub(c.oldest.began) >= slowAfter, c.average >= slowAfter:
		c.verdict = slow
	case c.ended:
		c.verdict = quick
	default:
		c.verdict = unknown
	}
	p.count(c, taken)
}

// count notes that a class takes n slots more.
func (p *Pool) count(c *class, n int) {
	c.taken += n
	if c.verdict != quick {
		p.slow += n
	}
}

func (p *Pool) class(name string) *class {
	c := p.classes[name]
	if c == nil {
		c = &class{}
		p.classes[name] = c
	}
	return c
}

func (p *Pool) begin(name string) *running {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &running{}
	p.class(name).begin(r, time.Now())
	return r
}

func (c *class) begin(r *running, now time.Time) {
	*r = running{began: now, before: c.newest}
	if r.before != nil {
		r.before.after = r
	} else {
		c.oldest = r
	}
	c.newest = r
}

// next notes that what was under way has ended, and that the next has begun in its slot.
func (p *Pool) next(name string, r *running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, now := p.class(name), time.Now()
	c.end(r, now)
	c.begin(r, now)
	p.judge(c, now)
}

func (p *Pool) end(name string, r *running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, now := p.class(name), time.Now()
	c.end(r, now)
	p.judge(c, now)
	p.count(c, -1)
	p.release(1)
}

func (c *class) end(r *running, now time.Time) {
	if r.before != nil {
		r.before.after = r.after
	} else {
		c.oldest = r.after
	}
	if r.after != nil {
		r.after.before = r.before
	} else {
		c.newest = r.before
	}
	if took := now.Sub(r.began); c.ended {
		c.average += (took - c.average) / 8
	} else {
		c.ended, c.average = true, took
	}
}
