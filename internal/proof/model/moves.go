package main

import (
	"cmp"
	"slices"
)

// What becomes of an execute (docs/concepts.md, docs/schedules.md).

// move takes an execute from the row that was read to a new one.
type move struct {
	was    exec // as it was read
	state  string
	reason bool
	prev   ms
	next   ms
	fires  int64
	leaves []leaves
}

// leaves is a row that a move leaves in QRTZ_RUN.
type leaves struct {
	state    string
	fire     ms
	lastFire ms
	count    int64
}

// due is the next fire of an execute as its row and its schedule say; a time that the schedule does not allow is none.
func (e *exec) due() ms {
	if e.next < 1 || !e.spec.allows(e.next, e.fired) {
		return never
	}
	return e.next
}

// resumedAt is when an execute was resumed by SQL after a pause that a node has seen; 0 if it was not.
func (e *exec) resumedAt() ms {
	if e.state == executing && e.pausedAt != 0 {
		return e.changed
	}
	return 0
}

func (e *exec) moveTo(t ms) move {
	mv := move{was: *e, state: e.state, prev: e.prev, next: e.firstFrom(t)}
	if mv.next == never {
		mv.state = complete
	}
	return mv
}

func (e *exec) firstFrom(t ms) ms {
	if due := e.due(); due != never && due >= t {
		return due
	}
	return e.spec.from(t, e.fired)
}

// begin gives an execute its first fire.
func (e *exec) begin(now ms) move {
	mv := e.moveTo(now)
	if e.prev <= 0 && e.fired == 0 {
		mv.next = e.spec.first(now)
	}
	mv.state = e.state
	if mv.next == never {
		mv.state = complete
	}
	return mv
}

func (e *exec) breaks() move {
	return move{was: *e, state: failing, reason: true, prev: e.prev, next: e.next}
}

func (e *exec) heals(now ms) move {
	mv := e.moveTo(now)
	if mv.state == failing {
		mv.state = executing
	}
	return mv
}

// pass moves past a fire, the n-th from here.
func (e *exec) pass(last ms, n int64) move {
	mv := move{was: *e, state: e.state, prev: last, next: e.spec.after(last, e.fired+n), fires: n}
	if mv.next == never {
		mv.state = complete
	}
	return mv
}

// claims is the claim of the next fire.
func (e *exec) claims() move {
	mv := e.pass(e.due(), 1)
	mv.leaves = []leaves{{state: running, fire: e.due(), count: 1}}
	return mv
}

// misses is the move past all fires up to a time, of which the latest run after all.
func (e *exec) misses(until ms, runs int) move {
	var fires []ms
	for fire := e.due(); fire != never && fire <= until; fire = e.spec.after(fire, e.fired+int64(len(fires))) {
		fires = append(fires, fire)
	}
	if len(fires) == 0 {
		return e.moveTo(until)
	}
	mv := e.pass(fires[len(fires)-1], int64(len(fires)))
	early := max(len(fires)-runs, 0)
	if early > 0 {
		mv.leaves = append(mv.leaves, leaves{state: skipped, fire: fires[0], lastFire: fires[early-1], count: int64(early)})
	}
	for _, fire := range fires[early:] {
		mv.leaves = append(mv.leaves, leaves{state: pending, fire: fire, count: 1})
	}
	return mv
}

// misfires is what the misfire policy makes of all fires up to a time.
func (e *exec) misfires(until ms) move {
	switch e.misfire {
	case "SKIP":
		return e.misses(until, 0)
	case "CATCH_UP":
		return e.misses(until, e.catchUp)
	default:
		return e.misses(until, 1)
	}
}

// apply carries out moves of executes that are as they were read. It returns the rows that they left, as runs, and the executes
// that it moved.
func (m *model) apply(p *proc, from string, switches bool, moves []move, claim int) (left []int, moved []exec) {
	n := m.node(p.node)
	if n == nil || n.instance != p.instance || p.instance == 0 || switches && (!n.on || !m.app.on) {
		return nil, nil
	}
	slices.SortFunc(moves, func(a, b move) int { return cmp.Compare(a.was.id, b.was.id) })
	for _, mv := range moves {
		e := m.exec(mv.was.id)
		if e == nil || e.state != from || e.prev != mv.was.prev || e.next != mv.was.next || e.fired != mv.was.fired || e.claim != mv.was.claim || e.spec != mv.was.spec {
			continue
		}
		if mv.state != from {
			e.changed = m.now
		}
		if from != paused {
			e.pausedAt = 0
		}
		e.state, e.reason, e.prev, e.next, e.claim = mv.state, mv.reason, mv.prev, mv.next, claim
		e.fired += mv.fires
		moved = append(moved, *e)
		j := m.job(e.job)
		for _, l := range mv.leaves {
			if l.state == running && (j != nil && !j.opts.hasRow()) {
				continue
			}
			if m.fireRun(e.id, l.fire) != nil {
				continue // the fire has its run already
			}
			r := run{
				exec: e.id, job: e.job, fire: l.fire, attempt: 1, state: l.state, available: l.fire, claim: claim, lastFire: l.lastFire, count: l.count,
				ownTimeout: -1, ownPrio: noPrio,
			}
			if l.state == running && j != nil && j.opts.limited() {
				r.state = pending
			}
			switch r.state {
			case running:
				r.host, r.instance, r.claimedAt = p.node, p.instance, m.now
			case skipped:
				r.claimedAt, r.finished = m.now, m.now
			}
			left = append(left, m.insert(r).seq)
		}
	}
	return left, moved
}
