package main

import (
	"cmp"
	"slices"
)

// What a process does to start runs, and to end them.

// poll writes results that have not been written, follows the switches, and carries out what is due.
func (m *model) poll(p *proc) {
	if !m.measure(p) || !m.flush(p) {
		return
	}
	var appOn, nodeOn bool
	if !m.statement(func() {
		n := m.node(p.node)
		appOn, nodeOn = m.app.on, n != nil && n.on
	}) {
		return
	}
	me := p.view.self()
	if p.view.appOn != appOn || (me != nil && me.on) != nodeOn {
		if !m.refresh(p) {
			return
		}
		me = p.view.self()
	}
	claiming := false
	if p.view.appOn && me != nil && me.on && !me.passedOver() {
		if !m.passOver(p) {
			return
		}
	} else {
		claiming = m.claiming(p)
	}
	if !m.handBackDoubts(p) || !claiming {
		return
	}
	for m.claimDue(p) {
	}
}

// passOver passes over what was due in the times in which the process could not claim, since something was off.
func (m *model) passOver(p *proc) bool {
	for _, class := range p.classes {
		for _, off := range p.view.timesOff(class) {
			for range 10 {
				var rows []exec
				if !m.read(&rows, executing, []string{class}, func(e *exec) bool { return e.next >= 1 && e.next < off.until }) {
					return false
				}
				if len(rows) == 0 {
					break
				}
				var moves []move
				for i := range rows {
					switch e := &rows[i]; {
					case e.spec.broken():
						moves = append(moves, e.breaks())
					case e.due() < off.from:
						moves = append(moves, e.misfires(off.from-1))
					case e.due() < off.seen:
						moves = append(moves, e.moveTo(off.seen))
					default:
						moves = append(moves, e.misses(off.until-1, 0))
					}
				}
				m.claims++
				claim, moved := m.claims, []exec(nil)
				if !m.statement(func() { _, moved = m.apply(p, executing, false, moves, claim) }) {
					return false
				}
				if len(moved) == 0 {
					return true // not done; the next poll tries again
				}
			}
		}
	}
	return m.statement(func() {
		if n := m.node(p.node); n.instance == p.instance && n.on {
			n.offSince, n.offSeen, n.appOffSince, n.appSeen = 0, 0, 0, 0
		}
	}) && m.refresh(p)
}

// claimDue claims the next fire of each execute that is due, and what is pending, and carries it out. It tells whether there was
// anything.
func (m *model) claimDue(p *proc) bool {
	now := p.clock
	if !m.adopt() || !m.markPaused() {
		return false
	}
	var rows []exec
	classes := append([]string{""}, p.classes...)
	if !m.read(&rows, executing, classes, func(e *exec) bool { return e.next < 1 }) ||
		!m.read(&rows, executing, classes, func(e *exec) bool { return e.next >= 1 && e.next >= now-misfireAfter && e.next <= now }) {
		return false
	}
	ready, ok := m.prepare(p, rows, now)
	if !ok {
		return false
	}
	var moves []move
	for i := range ready {
		if e := &ready[i]; e.due() != never && e.due() <= now && e.due() >= now-misfireAfter {
			moves = append(moves, e.claims())
		}
	}
	slices.SortFunc(moves, func(a, b move) int { return cmp.Compare(a.was.id, b.was.id) })
	won, moved, ok := m.claimFires(p, moves)
	if ok {
		var more []held
		more, ok = m.claimPending(p, now)
		won = append(won, more...)
	}
	slices.SortStableFunc(won, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.fire, b.fire), cmp.Compare(b.opts.priority, a.opts.priority))
	})
	if !ok {
		p.giveUp(won)
		return false
	}
	for i, r := range won {
		if !m.carryOut(p, r) {
			p.giveUp(won[i+1:])
			return false
		}
	}
	return len(won) > 0 || moved
}

// prepare sets executes to ERROR that cannot be used, gives new ones their first fire, and moves those that were resumed by SQL past
// their pause.
func (m *model) prepare(p *proc, rows []exec, now ms) (ready []exec, ok bool) {
	var moves []move
	for i := range rows {
		switch e := &rows[i]; {
		case e.spec.broken():
			moves = append(moves, e.breaks())
		case e.due() == never:
			moves = append(moves, e.begin(now))
		case e.due() < e.resumedAt():
			moves = append(moves, e.moveTo(e.resumedAt()))
		default:
			ready = append(ready, *e)
		}
	}
	if len(moves) == 0 {
		return ready, true
	}
	m.claims++
	claim, moved := m.claims, []exec(nil)
	ok = m.statement(func() { _, moved = m.apply(p, executing, false, moves, claim) })
	for _, e := range moved {
		if e.state == executing && e.next <= now+windowAhead {
			ready = append(ready, e)
		}
	}
	return ready, ok
}

// claimFires claims fires, and starts those of limited jobs for which there is a slot.
func (m *model) claimFires(p *proc, moves []move) (won []held, moved, ok bool) {
	if len(moves) == 0 {
		return nil, false, true
	}
	m.claims++
	claim := m.claims
	var exclusive []held
	ok = m.statement(func() {
		left, execs := m.apply(p, executing, true, moves, claim)
		moved = len(execs) > 0
		for _, e := range execs {
			j := m.job(e.job)
			h := held{job: e.job, exec: e.id, fire: e.prev, claim: claim, instance: p.instance, attempt: 1}
			if j != nil {
				h.class, h.opts = j.class, j.opts
			}
			for _, seq := range left {
				if r := m.run(seq); r.exec == e.id {
					h.seq = seq
				}
			}
			switch {
			case h.seq == 0 && (j == nil || j.opts.hasRow()): // it has a run from before
			case h.seq == 0:
				h.opts.history, h.opts.recovery, h.opts.attempts = "NONE", false, 1
				won = append(won, h)
			case m.run(h.seq).state == pending:
				exclusive = append(exclusive, h)
			default:
				won = append(won, h)
			}
		}
	})
	if !ok {
		d := doubt{kind: "fires", instance: p.instance, claim: claim}
		for _, mv := range moves {
			d.execs, d.fires = append(d.execs, mv.was.id), append(d.fires, mv.leaves[0].fire)
		}
		p.doubts = append(p.doubts, d)
		return nil, false, false
	}
	started, ok := m.startExclusive(p, exclusive)
	won = append(won, started...)
	slices.SortStableFunc(won, func(a, b held) int { return cmp.Or(cmp.Compare(a.fire, b.fire), cmp.Compare(a.seq, b.seq)) })
	return won, moved, ok
}

// free is how many more runs of a limited job may start.
func (m *model) free(job int64, slots int) int {
	for _, r := range m.runs {
		if r.job == job && r.slot != 0 {
			slots--
		}
	}
	return max(slots, 0)
}

// startExclusive starts those of the runs just claimed for which their job has a slot, and does with the others what its rule says.
func (m *model) startExclusive(p *proc, runs []held) (won []held, ok bool) {
	slices.SortFunc(runs, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.fire, b.fire), cmp.Compare(a.seq, b.seq))
	})
	left := runs
	for try := 0; try < 3 && len(left) > 0; try++ {
		candidates, ok := m.candidates(left)
		if !ok {
			return won, false
		}
		m.claims++
		claim := m.claims
		var started []held
		d := doubt{kind: "pending", instance: p.instance, claim: claim}
		for _, h := range candidates {
			d.seqs, d.before = append(d.seqs, h.seq), append(d.before, h.claim)
		}
		if len(candidates) > 0 {
			if !m.statement(func() {
				n := m.node(p.node)
				if n == nil || n.instance != p.instance || !n.on || !m.app.on {
					return
				}
				for _, h := range candidates {
					if r := m.run(h.seq); r != nil && r.state == pending && r.claim == h.claim && m.free(r.job, h.opts.slots()) > 0 {
						r.state, r.slot, r.host, r.instance, r.claimedAt, r.claim = running, 1, p.node, p.instance, m.now, claim
						h.claim = claim
						started = append(started, h)
					}
				}
			}) {
				p.doubts = append(p.doubts, d)
				return won, false
			}
		}
		won = append(won, started...)
		isStarted := func(h held) bool { return slices.ContainsFunc(started, func(o held) bool { return o.seq == h.seq }) }
		left = slices.DeleteFunc(slices.Clone(left), isStarted)
		undecided := slices.DeleteFunc(slices.Clone(candidates), func(h held) bool { return isStarted(h) || h.opts.slots() == 1 })
		if len(undecided) == 0 || try == 2 {
			left = slices.DeleteFunc(left, func(h held) bool {
				return slices.ContainsFunc(undecided, func(o held) bool { return o.seq == h.seq })
			})
			break
		}
	}
	for _, h := range left {
		if !m.noRoom(h) {
			return won, false
		}
	}
	return won, true
}

// candidates are those of the runs, in order, that may have a slot: unless their rule is to skip, none overtakes runs of its job that
// have been pending for longer.
func (m *model) candidates(runs []held) (some []held, ok bool) {
	for len(runs) > 0 {
		n := slices.IndexFunc(runs, func(h held) bool { return h.job != runs[0].job })
		if n < 0 {
			n = len(runs)
		}
		mine := runs[:n]
		runs = runs[n:]
		slots := 1
		if s := mine[0].opts.slots(); s > 1 && !m.statement(func() { slots = m.free(mine[0].job, s) }) {
			return nil, false
		}
		if slots == 0 || mine[0].opts.overlap == "SKIP" {
			some = append(some, mine[:min(slots, len(mine))]...)
			continue
		}
		var line []run
		if !m.statement(func() { line = m.line(mine[0].job) }) {
			return nil, false
		}
		if len(line) == 0 {
			some = append(some, mine[:min(slots, len(mine))]...)
			continue
		}
		line = line[:min(slots, len(line))]
		for _, h := range mine {
			if slices.ContainsFunc(line, func(r run) bool { return r.seq == h.seq }) {
				some = append(some, h)
			}
		}
	}
	return some, true
}

// line are the pending runs of a job that are due, or will be in a second, the first in line first.
func (m *model) line(job int64) (line []run) {
	for _, r := range m.runs {
		if r.job == job && r.state == pending && r.available <= m.now+1000 {
			line = append(line, r)
		}
	}
	slices.SortStableFunc(line, func(a, b run) int { return cmp.Compare(a.available, b.available) })
	return line
}

// noRoom does with a fire of a limited job that found no slot what its rule says.
func (m *model) noRoom(h held) bool {
	skip := func(seq int) bool {
		return m.statement(func() {
			if r := m.run(seq); r != nil && r.state == pending {
				r.state, r.finished = skipped, m.now
			}
		})
	}
	switch h.opts.overlap {
	case "SKIP":
		return skip(h.seq)
	case "ALLOW":
		return true
	}
	var queue []run
	if !m.statement(func() {
		queue = slices.DeleteFunc(m.line(h.job), func(r run) bool { return r.exec == 0 || r.attempt != 1 })
	}) {
		return false
	}
	slices.SortFunc(queue, func(a, b run) int { return cmp.Or(cmp.Compare(b.fire, a.fire), cmp.Compare(b.seq, a.seq)) })
	for _, r := range queue[min(len(queue), h.opts.queueLimit):] {
		if !skip(r.seq) {
			return false
		}
	}
	return true
}

// claimPending claims the pending runs that are due, the oldest first; of a limited job as many as it has slots.
func (m *model) claimPending(p *proc, now ms) (won []held, ok bool) {
	var found []run
	if !m.statement(func() {
		for _, r := range m.runs {
			j := m.job(r.job)
			if r.state == pending && r.available <= now && r.fire <= now && j != nil && slices.Contains(p.classes, j.class) {
				found = append(found, r)
			}
		}
	}) {
		return nil, false
	}
	if len(found) == 0 {
		return nil, true
	}
	slices.SortStableFunc(found, func(a, b run) int { return cmp.Compare(a.available, b.available) })
	opts := map[int64]options{}
	free := map[int64]int{}
	if !m.statement(func() {
		for _, r := range found {
			if j := m.job(r.job); j != nil {
				opts[r.job], free[r.job] = j.opts, m.free(r.job, j.opts.slots())
			}
		}
	}) {
		return nil, false
	}
	var toClaim, toEnd []run
	for _, r := range found {
		switch {
		case r.cancelAt != 0:
			toEnd = append(toEnd, r)
		case !opts[r.job].limited():
			toClaim = append(toClaim, r)
		case free[r.job] > 0:
			free[r.job]--
			toClaim = append(toClaim, r)
		}
	}
	if len(toEnd) > 0 && !m.statement(func() {
		for _, r := range toEnd {
			if r := m.run(r.seq); r != nil && r.state == pending && r.cancelAt != 0 {
				r.state, r.finished = cancelled, m.now
				r.release()
			}
		}
	}) {
		return nil, false
	}
	if len(toClaim) == 0 {
		return nil, true
	}
	slices.SortFunc(toClaim, func(a, b run) int { return cmp.Compare(a.seq, b.seq) })
	m.claims++
	claim := m.claims
	// The engine claims some in one packet. How many depends on how quick the server was, so any run may be the first of a packet.
	for i, was := range toClaim {
		if !m.statement(func() {
			if h, mine := m.claimRun(p, was, opts[was.job], claim); mine {
				won = append(won, h)
			}
		}) {
			d := doubt{kind: "pending", instance: p.instance, claim: claim}
			for _, r := range toClaim[i:] {
				d.seqs, d.before = append(d.seqs, r.seq), append(d.before, r.claim)
			}
			p.doubts = append(p.doubts, d)
			return slices.DeleteFunc(won, func(h held) bool { return h.seq == was.seq }), false
		}
	}
	slices.SortStableFunc(won, func(a, b held) int { return cmp.Or(cmp.Compare(a.fire, b.fire), cmp.Compare(a.seq, b.seq)) })
	return won, true
}

// claimRun claims a pending run that is as it was read, if the switches are on and, of a limited job, there is a slot.
func (m *model) claimRun(p *proc, was run, opts options, claim int) (h held, mine bool) {
	n := m.node(p.node)
	if n == nil || n.instance != p.instance || !n.on || !m.app.on {
		return h, false
	}
	r, j := m.run(was.seq), m.job(was.job)
	if r == nil || r.state != pending || r.claim != was.claim || r.cancelAt != 0 || opts.limited() && m.free(r.job, opts.slots()) == 0 {
		return h, false
	}
	r.state, r.host, r.instance, r.claimedAt, r.claim = running, p.node, p.instance, m.now, claim
	if opts.limited() {
		r.slot = 1
	}
	if r.fire < 1 {
		r.fire = m.now
	}
	if r.available < 1 {
		r.available = m.now
	}
	h = held{seq: r.seq, job: r.job, exec: r.exec, fire: r.fire, claim: claim, instance: p.instance, attempt: r.attempt, recov: r.recoveries, saved: r.saved}
	if j != nil {
		h.class, h.opts = j.class, r.options(j.opts)
	}
	return h, true
}

// options are the job's, but for what the run has of its own.
func (r *run) options(o options) options {
	if r.ownTimeout >= 0 {
		o.timeout = r.ownTimeout
	}
	if r.ownTries > 0 {
		o.attempts = r.ownTries
	}
	if r.ownPrio != noPrio {
		o.priority = r.ownPrio
	}
	if r.once {
		o.history = "ALL"
	}
	return o
}

// release frees the key of a run that ends; one of Once is kept by its row.
func (r *run) release() {
	if !r.once {
		r.keyLive = false
	}
}

// carryOut starts a run. Its handler returns at once, unless runs of its class are held.
func (m *model) carryOut(p *proc, h held) bool {
	h.started = p.clock
	if p.holding[h.class] {
		p.held = append(p.held, h)
		return true
	}
	m.end(p, h)
	return m.flush(p)
}

// end notes the result of a run whose handler returns.
func (m *model) end(p *proc, h held) {
	mode := m.modes[h.class]
	err := mode == "fail" || mode == "noretry" || mode == "retry5" || mode == "obey" && h.cause != ""
	r := result{held: h, state: succeeded, finished: p.clock}
	spent := max(1, h.attempt-h.recov)
	switch {
	case !err:
	case h.cause == "fenced":
		return
	case h.cause == "drained" && mode != "noretry":
		r.state, r.recovery = lost, true
		if (h.opts.recovery || h.opts.attempts > 1) && h.recov < maxRecoveries {
			r.retryAt = p.clock
		}
	case h.cause == "cancelled":
		r.state = cancelled
	default:
		r.state = failed
		switch {
		case mode == "noretry" || spent >= h.opts.attempts:
		case mode == "retry5":
			r.retryAt = p.clock + 5000
		default:
			r.retryAt = p.clock + h.opts.pause(spent)
		}
	}
	if h.seq != 0 {
		p.results = append(p.results, r)
	}
}

// flush writes the results: first those that keep their rows, then those that lose them, then those with a further attempt.
func (m *model) flush(p *proc) bool {
	kind := func(r result) int {
		switch {
		case r.retryAt != 0:
			return 2
		case r.opts.keeps(r.state):
			return 0
		}
		return 1
	}
	for k := range 3 {
		var some []result
		for _, r := range p.results {
			if kind(r) == k {
				some = append(some, r)
			}
		}
		if len(some) == 0 {
			continue
		}
		slices.SortFunc(some, func(a, b result) int { return cmp.Compare(a.seq, b.seq) })
		if !m.statement(func() {
			for _, r := range some {
				m.write(r)
			}
		}) {
			return false
		}
		p.results = slices.DeleteFunc(p.results, func(r result) bool { return kind(r) == k })
	}
	return true
}

// write writes a result, if the run is still as the process claimed it.
func (m *model) write(res result) {
	r := m.run(res.seq)
	if r == nil || r.state != running || r.instance != res.instance || r.claim != res.claim {
		return
	}
	was := *r
	further := res.retryAt != 0 && r.cancelAt == 0 && m.job(r.job) != nil
	passed := further && r.keyLive
	if res.opts.keeps(res.state) {
		r.state, r.started, r.finished, r.slot = res.state, res.started, res.finished, 0
		if r.state == lost && r.cancelAt != 0 {
			r.state = cancelled
		}
		if passed {
			r.keyLive = false
		} else {
			r.release()
		}
		if res.state == succeeded {
			r.saved = ""
		}
	} else {
		m.deleteRun(res.seq)
	}
	if further {
		m.further(was, res.retryAt, res.recovery, passed)
	}
}

func (p *proc) giveUp(runs []held) {
	for _, r := range runs {
		p.doubts = append(p.doubts, doubt{kind: "runs", runs: []held{r}})
	}
}

// handBackDoubts gives back what the process does not know to have claimed, and what it has claimed and will not start.
func (m *model) handBackDoubts(p *proc) bool {
	var open []doubt
	all := doubt{kind: "runs"}
	for _, d := range p.doubts {
		if d.kind == "runs" {
			all.runs = append(all.runs, d.runs...)
		} else {
			open = append(open, d)
		}
	}
	if len(all.runs) > 0 {
		open = append(open, all)
	}
	p.doubts = nil
	for i, d := range open {
		if !m.resolve(p, d) {
			p.doubts = append(p.doubts, open[i+1:]...)
			return false
		}
	}
	return true
}

func (r *run) handBack(m *model) {
	m.claims++
	r.state, r.instance, r.host, r.claimedAt, r.slot, r.claim = pending, 0, "", 0, 0, m.claims
}

func (m *model) resolve(p *proc, d doubt) bool {
	switch d.kind {
	case "fires":
		ok := m.statement(func() {
			for i, id := range d.execs {
				e := m.exec(id)
				if e == nil {
					continue
				}
				if e.claim == d.claim && m.fireRun(id, d.fires[i]) == nil {
					m.insert(run{exec: id, job: e.job, fire: d.fires[i], attempt: 1, state: pending, available: d.fires[i], count: 1, ownTimeout: -1, ownPrio: noPrio})
				}
				if r := m.fireRun(id, d.fires[i]); r != nil && r.state == running && r.claim == d.claim && r.instance == d.instance {
					r.handBack(m)
				}
				if e.claim == d.claim {
					m.claims++
					e.claim = m.claims
				}
			}
		})
		if !ok {
			p.doubts = append(p.doubts, d)
		}
		return ok
	case "pending":
		ok := m.statement(func() {
			for i, seq := range d.seqs {
				r := m.run(seq)
				if r != nil && (r.state == pending && r.claim == d.before[i] || r.state == running && r.claim == d.claim && r.instance == d.instance) {
					r.handBack(m)
				}
			}
		})
		if !ok {
			p.doubts = append(p.doubts, d)
		}
		return ok
	}
	rowless := slices.DeleteFunc(slices.Clone(d.runs), func(h held) bool { return h.seq != 0 })
	rows := slices.DeleteFunc(slices.Clone(d.runs), func(h held) bool { return h.seq == 0 })
	again := func() {
		if len(rows) > 0 {
			p.doubts = append(p.doubts, doubt{kind: "runs", runs: rows})
		}
	}
	if len(rowless) > 0 && !m.statement(func() {
		for _, h := range rowless {
			if m.fireRun(h.exec, h.fire) == nil {
				m.insert(run{exec: h.exec, job: h.job, fire: h.fire, attempt: 1, state: pending, available: h.fire, count: 1, ownTimeout: -1, ownPrio: noPrio})
			}
		}
	}) {
		again()
		return false
	}
	if len(rows) == 0 {
		return true
	}
	ok := m.statement(func() {
		for _, h := range rows {
			if r := m.run(h.seq); r != nil && r.state == running && r.claim == h.claim && r.instance == h.instance {
				r.handBack(m)
			}
		}
	})
	if !ok {
		again()
	}
	return ok
}

// attend writes when the longer runs have started, and ends the contexts of those that are to be cancelled or have timed out.
func (m *model) attend(p *proc) {
	if !m.measure(p) {
		return
	}
	for i := range p.held {
		if h := &p.held[i]; h.opts.timeout > 0 && p.clock >= h.started+h.opts.timeout && h.cause == "" {
			h.cause = "timedout"
		}
	}
	old := func(h *held) bool { return h.seq != 0 && h.started < p.clock-attendAfter }
	if news := slices.ContainsFunc(p.held, func(h held) bool { return old(&h) && !h.said }); news && m.statement(func() {
		for _, h := range p.held {
			if r := m.run(h.seq); old(&h) && !h.said && r != nil && r.state == running && r.instance == h.instance && r.claim == h.claim {
				r.started = h.started
			}
		}
	}) {
		for i := range p.held {
			if h := &p.held[i]; old(h) {
				h.said = true
			}
		}
	}
	var asked []int
	if m.statement(func() {
		for _, h := range p.held {
			if r := m.run(h.seq); old(&h) && r != nil && r.cancelAt != 0 {
				asked = append(asked, h.seq)
			}
		}
	}) {
		for i := range p.held {
			if h := &p.held[i]; h.seq != 0 && slices.Contains(asked, h.seq) && h.cause == "" {
				h.cause = "cancelled"
			}
		}
	}
}

// releases has the handlers of a class return.
func (m *model) releases(p *proc, class string) {
	delete(p.holding, class)
	held, left := p.held, p.held[:0:0]
	p.held = nil
	for _, h := range held {
		if h.class != class {
			left = append(left, h)
		}
	}
	p.held = left
	for _, h := range held {
		if h.class == class {
			m.end(p, h)
			m.flush(p)
		}
	}
}

// stop ends a process in order.
func (m *model) stop(p *proc) {
	p.endRuns("drained")
	held := p.held
	p.held, p.holding = nil, map[string]bool{}
	for _, h := range held {
		m.end(p, h)
	}
	m.flush(p)
	if len(p.doubts) > 0 {
		m.handBackDoubts(p)
	}
	m.leave(p)
	p.alive = false
}
