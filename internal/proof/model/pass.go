package main

import (
	"cmp"
	"slices"
)

// The misfire handler's pass.

// pass makes one if the lock-time window lets it, if the last one left something undone, or if it is to be made whatever they say.
func (m *model) pass(p *proc, anyway bool) {
	if !m.measure(p) {
		return
	}
	mine := false
	var was app
	if !m.statement(func() { was = m.app }) {
		return
	}
	if left := was.next - p.clock; left <= misfireEvery*3/10 || left > 2*misfireEvery {
		if !m.statement(func() {
			if m.app.next == was.next && m.app.pre == was.pre {
				m.app.pre, m.app.next, mine = p.clock, p.clock+misfireEvery, true
			}
		}) {
			return
		}
	}
	if !mine && !p.unfinished && !anyway {
		return
	}
	all := true
	step := func(ok bool) { all = ok && all }
	step(m.syncSwitches(p))
	step(m.failOver(p))
	seen := m.refresh(p)
	step(seen)
	now := p.clock
	if seen {
		step(m.adopt())
		step(m.markPaused())
		step(m.beginNew(p, now))
		handled := p.view.classesClaimed()
		step(m.walk(p, executing, handled, now-misfireAfter, func(e *exec) move {
			if resumed := e.resumedAt(); e.due() < resumed {
				return e.moveTo(resumed)
			}
			return e.misfires(now)
		}))
		step(m.walk(p, executing, p.view.classesOff(), p.view.at, func(e *exec) move {
			if since := p.view.offSince(m.classOf(e.job)); e.due() < since {
				return e.misfires(since - 1)
			}
			return e.moveTo(p.view.at + 1)
		}))
		step(m.walk(p, paused, nil, now, func(e *exec) move { return e.moveTo(now + 1) }))
		step(m.heal(p, now))
		step(m.endCancelled(now))
	}
	step(m.deriveJobStates())
	step(m.cleanHistory())
	p.unfinished = !all
}

// failOver declares dead who has been watched for all of NodeTimeout without a heartbeat, and puts runs on record as LOST that no
// node holds any more.
func (m *model) failOver(p *proc) bool {
	ok := m.look(p)
	if me := p.view.self(); ok && me != nil && me.instance == p.instance && p.holds() {
		for _, n := range p.view.nodes {
			if !n.isDead() || n.id == p.node {
				continue
			}
			gone := !n.row
			sent := true
			if n.row {
				sent = m.statement(func() {
					if b, there := m.beats[n.instance]; there && b.count == n.beat.count {
						delete(m.beats, n.instance)
					}
				}) && m.statement(func() {
					_, there := m.beats[n.instance]
					gone = !there
				})
			}
			if sent && gone {
				sent = m.statement(func() {
					if row := m.node(n.id); row.instance == n.instance {
						row.instance = 0
					}
				})
			}
			ok = sent && ok
		}
	}
	ok = m.freeSlotsOfEnded() && ok
	var abandoned []int
	if !m.statement(func() {
		for _, r := range m.runs {
			if r.state == running && r.instance != 0 && !slices.ContainsFunc(m.nodes, func(n node) bool { return n.instance == r.instance }) &&
				!slices.Contains(abandoned, r.instance) {
				abandoned = append(abandoned, r.instance)
			}
		}
	}) {
		return false
	}
	for _, instance := range abandoned {
		ok = m.lose(instance) && ok
	}
	return ok
}

// lose puts the runs of an instance that is gone on record as LOST. Those whose job asks for it are recovered in the same transaction.
func (m *model) lose(instance int) bool {
	var seqs []int
	if !m.statement(func() {
		for _, r := range m.runs {
			if r.state == running && r.instance == instance {
				seqs = append(seqs, r.seq)
			}
		}
	}) {
		return false
	}
	for _, seq := range seqs { // the engine loses several in one packet, as it claims pending ones
		if !m.statement(func() { m.loseRun(seq, instance) }) {
			return false
		}
	}
	return true
}

// loseRun puts one of them on record.
func (m *model) loseRun(seq, instance int) {
	r := m.run(seq)
	if r == nil || r.state != running || r.instance != instance {
		return
	}
	j := m.job(r.job)
	recovers := j != nil && j.opts.recovery && r.recoveries < maxRecoveries && r.cancelAt == 0
	r.state, r.finished, r.slot = lost, m.now, 0
	was := *r
	passed := recovers && r.keyLive
	if passed || !r.once {
		r.keyLive = false
	}
	if recovers {
		m.further(was, m.now, true, passed)
	}
}

// further inserts the next attempt of a run, unless it is there.
func (m *model) further(was run, available ms, recovery, keyLive bool) *run {
	for i := range m.runs {
		if r := &m.runs[i]; r.exec == was.exec && r.fire == was.fire && r.request == was.request && r.attempt == was.attempt+1 {
			return nil
		}
	}
	next := run{
		exec: was.exec, fire: was.fire, request: was.request, job: was.job, attempt: was.attempt + 1, state: pending, available: available, count: 1,
		claim: was.claim, recoveries: was.recoveries, key: was.key, keyLive: keyLive, once: was.once,
		ownTimeout: was.ownTimeout, ownTries: was.ownTries, ownPrio: was.ownPrio, saved: was.saved,
	}
	if recovery {
		next.recovers = was.seq
		next.recoveries++
	}
	return m.insert(next)
}

// freeSlotsOfEnded frees the slots of runs that a person has ended by SQL.
func (m *model) freeSlotsOfEnded() bool {
	return m.statement(func() {
		for i := range m.runs {
			if m.runs[i].state != running {
				m.runs[i].slot = 0
			}
		}
	})
}

// adopt has executes that name no app belong to that of their job.
func (m *model) adopt() bool {
	return m.statement(func() {
		for i := range m.execs {
			if e := &m.execs[i]; !e.adopted && m.job(e.job) != nil {
				e.adopted, e.changed = true, m.now
			}
		}
	})
}

// markPaused notes when executes were paused by SQL.
func (m *model) markPaused() bool {
	return m.statement(func() {
		for i := range m.execs {
			if e := &m.execs[i]; e.adopted && e.state == paused && e.pausedAt == 0 {
				e.pausedAt = e.changed
			}
		}
	})
}

// read reads executes: those of the app in a state, of some classes, for which it holds.
func (m *model) read(into *[]exec, state string, classes []string, which func(*exec) bool) bool {
	return m.statement(func() {
		for i := range m.execs {
			e := m.execs[i]
			if j := m.job(e.job); e.adopted && e.state == state && j != nil && (classes == nil || slices.Contains(classes, j.class)) && which(&e) {
				*into = append(*into, e)
			}
		}
		slices.SortFunc(*into, func(a, b exec) int { return cmp.Or(cmp.Compare(a.next, b.next), cmp.Compare(a.id, b.id)) })
	})
}

func (m *model) beginNew(p *proc, now ms) bool {
	var rows []exec
	classes := append([]string{""}, p.view.classesHandled()...)
	if !m.read(&rows, executing, classes, func(e *exec) bool { return e.next < 1 }) {
		return false
	}
	return m.moveAll(p, executing, rows, func(e *exec) move { return e.begin(now) })
}

// moveAll makes moves of executes, or sets them to ERROR if their schedules cannot be used.
func (m *model) moveAll(p *proc, from string, rows []exec, to func(*exec) move) bool {
	if len(rows) == 0 {
		return true
	}
	var moves []move
	for i := range rows {
		if rows[i].spec.broken() {
			moves = append(moves, rows[i].breaks())
		} else {
			moves = append(moves, to(&rows[i]))
		}
	}
	m.claims++
	claim := m.claims
	return m.statement(func() { m.apply(p, from, false, moves, claim) })
}

// walk moves all executes in a state that are due by a time, as often as it takes.
func (m *model) walk(p *proc, state string, classes []string, until ms, to func(*exec) move) bool {
	if state == executing {
		classes = append([]string{""}, classes...)
	}
	for range 10 {
		var rows []exec
		if !m.read(&rows, state, classes, func(e *exec) bool { return e.next >= 1 && e.next <= until }) {
			return false
		}
		if !m.moveAll(p, state, rows, to) {
			return false
		}
		if !slices.ContainsFunc(rows, func(e exec) bool {
			mv := e.breaks()
			if !e.spec.broken() {
				mv = to(&e)
			}
			return mv.state == state && mv.next <= until
		}) {
			return true
		}
	}
	return true
}

// heal brings executes back whose schedules have been corrected.
func (m *model) heal(p *proc, now ms) bool {
	var rows []exec
	if !m.read(&rows, failing, nil, func(e *exec) bool { return e.reason && !e.spec.broken() }) || len(rows) == 0 {
		return len(rows) == 0
	}
	return m.moveAll(p, failing, rows, func(e *exec) move { return e.heals(now) })
}

// endCancelled ends pending runs that are to be cancelled, whenever they are due, and those that are due and have no job.
func (m *model) endCancelled(now ms) bool {
	end := func(which func(*run) bool) bool {
		return m.statement(func() {
			for i := range m.runs {
				if r := &m.runs[i]; r.state == pending && which(r) {
					r.state, r.finished = cancelled, now
					r.release()
				}
			}
		})
	}
	asked := end(func(r *run) bool { return r.cancelAt != 0 })
	return end(func(r *run) bool { return m.job(r.job) == nil && r.available <= now }) && asked
}

// deriveJobStates has the states of jobs follow from their executes.
func (m *model) deriveJobStates() bool {
	return m.statement(func() {
		for i := range m.jobs {
			j := &m.jobs[i]
			states := map[string]bool{}
			for _, e := range m.execs {
				if e.job == j.id && e.adopted {
					states[e.state] = true
				}
			}
			switch {
			case len(states) == 0:
			case states[failing]:
				j.state = failing
			case states[executing]:
				j.state = executing
			case states[paused]:
				j.state = paused
			case states[complete] && len(states) == 1:
				j.state = complete
			default:
				j.state = initial
			}
		}
	})
}

// cleanHistory deletes the oldest of the runs that have ended beyond KEEP_RUNS, first those of jobs that keep the fewest.
func (m *model) cleanHistory() bool {
	ok := true
	jobs := slices.Clone(m.jobs)
	slices.SortFunc(jobs, func(a, b job) int {
		return cmp.Or(cmp.Compare(a.opts.keepRuns, b.opts.keepRuns), cmp.Compare(a.id, b.id))
	})
	for _, j := range jobs {
		if j.opts.keepRuns == 0 {
			continue
		}
		ok = m.statement(func() {
			var ended []int
			for _, r := range m.runs {
				if r.job == j.id && !r.live() {
					ended = append(ended, r.seq)
				}
			}
			for len(ended) > j.opts.keepRuns {
				m.deleteRun(ended[0])
				ended = ended[1:]
			}
		}) && ok
	}
	return ok
}
