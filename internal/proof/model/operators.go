package main

import (
	"cmp"
	"slices"
)

// What people and programs do.

func (m *model) switchApp(on bool) {
	if m.app.there && m.app.on != on {
		m.app.on, m.app.switched = on, m.now
	}
}

func (m *model) switchNode(id string, on bool) {
	if n := m.node(id); n != nil && n.on != on {
		n.on, n.switched = on, m.now
	}
}

func (m *model) pauseBySQL(id int64) {
	if e := m.exec(id); e != nil && e.state == executing {
		e.state, e.changed = paused, m.now
	}
}

func (m *model) resumeBySQL(id int64) {
	if e := m.exec(id); e != nil && (e.state == paused || e.state == initial) {
		e.state, e.changed = executing, m.now
	}
}

// pauseJob pauses the schedules of a job through the API.
func (m *model) pauseJob(id int64) {
	for i := range m.execs {
		if e := &m.execs[i]; e.job == id && e.state == executing {
			e.state, e.pausedAt, e.changed = paused, m.now, m.now
		}
	}
}

// resumeJob has the schedules of a job fire from now on. It fails, and changes nothing, if one of them cannot be used.
func (m *model) resumeJob(id int64) (ok bool) {
	for _, e := range m.execs {
		if e.job == id && (e.state == paused || e.state == initial) && e.spec.broken() {
			return false
		}
	}
	for i := range m.execs {
		e := &m.execs[i]
		if e.job != id || e.state != paused && e.state != initial {
			continue
		}
		mv := e.moveTo(m.now)
		switch {
		case e.state == initial && e.due() == never:
			mv = e.begin(m.now)
		case e.state == initial:
			mv.state, mv.next = e.state, e.due()
		}
		if mv.state != complete {
			mv.state = executing
		}
		e.state, e.next, e.pausedAt, e.changed = mv.state, mv.next, 0, m.now
	}
	return true
}

// setCron changes the expression of a cron schedule by SQL.
func (m *model) setCron(id int64, expr string) {
	if e := m.exec(id); e != nil && e.spec.cron != "" && e.spec.cron != expr {
		e.spec.cron, e.changed = expr, m.now
	}
}

// enqueue asks for a run. If its key is taken it returns the request that has it.
func (m *model) enqueue(job int64, at ms, key string, once bool, tries, prio int, timeout ms) (request int, taken bool) {
	if key != "" {
		for i := range m.runs {
			r := &m.runs[i]
			if r.job != job || r.key != key || !r.keyLive {
				continue
			}
			if r.live() || r.once {
				return r.request, true
			}
			r.keyLive = false // a person ended the run by SQL
		}
	}
	m.requests++
	due := at
	if due == 0 {
		due = m.now
	}
	m.insert(run{
		request: m.requests, job: job, fire: due, available: due, attempt: 1, state: pending, count: 1, key: key, keyLive: key != "", once: once && key != "",
		ownTimeout: timeout, ownTries: tries, ownPrio: prio,
	})
	return m.requests, false
}

// insertBySQL asks for a run by SQL.
func (m *model) insertBySQL(job int64) {
	m.requests++
	m.insert(run{request: m.requests, job: job, attempt: 1, state: pending, count: 1, ownTimeout: -1, ownPrio: noPrio})
}

// name names a run through all its attempts.
type name struct {
	exec    int64
	fire    ms
	request int
}

func (r *run) name() name {
	if r.exec == 0 {
		return name{request: r.request}
	}
	return name{exec: r.exec, fire: r.fire}
}

// attempts are those of a run that are on record.
func (m *model) attempts(of name) (all []*run) {
	for i := range m.runs {
		if m.runs[i].name() == of {
			all = append(all, &m.runs[i])
		}
	}
	slices.SortFunc(all, func(a, b *run) int { return cmp.Compare(a.attempt, b.attempt) })
	return all
}

func (m *model) cancel(of name) (ok bool) {
	for _, r := range m.attempts(of) {
		switch r.state {
		case pending:
			r.state, r.finished, ok = cancelled, m.now, true
			r.release()
		case running:
			if ok = true; r.cancelAt == 0 {
				r.cancelAt = m.now
			}
		}
	}
	return ok
}

func (m *model) cancelBySQL(of name) {
	for _, r := range m.attempts(of) {
		if r.live() {
			r.cancelAt = m.now
		}
	}
}

// retry adds a further attempt of a run that did not succeed.
func (m *model) retry(of name) (ok bool) {
	all := m.attempts(of)
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1]
	for _, r := range all {
		if r.live() {
			last = r
		}
	}
	if last.state != failed && last.state != lost && last.state != cancelled {
		return false
	}
	if m.job(last.job) == nil {
		return false
	}
	for i := range m.runs {
		if r := &m.runs[i]; last.key != "" && r.seq != last.seq && r.job == last.job && r.key == last.key && r.keyLive {
			return false
		}
	}
	was := *last
	last.keyLive = false
	next := m.further(was, m.now, false, was.key != "")
	if was.state == lost {
		next.recovers = was.seq
	}
	return true
}

// endBySQL ends a run that goes, as a person should not. Its key and its slot stay until someone looks.
func (m *model) endBySQL(of name) {
	for _, r := range m.attempts(of) {
		if r.state == running {
			r.state = cancelled
		}
	}
}

// limit changes how many runs of a job go at a time, and how often it is tried.
func (m *model) limit(id int64, maxRunning, attempts int) {
	if j := m.job(id); j != nil {
		j.opts.maxRunning, j.opts.attempts = maxRunning, attempts
	}
}

// edit changes when an execute ends, and how often it fires, by SQL, and perhaps has its next fire computed again.
func (m *model) edit(id, repeat int64, end ms, again bool) {
	e := m.exec(id)
	if e == nil {
		return
	}
	was := *e
	e.spec.repeat, e.spec.end = repeat, end
	if again {
		e.next = never
	}
	if *e != was {
		e.changed = m.now
	}
}

// deleteJob deletes a job and its schedules. What is pending is cancelled.
func (m *model) deleteJob(id int64) (ok bool) {
	if m.job(id) == nil {
		return false
	}
	m.jobs = slices.DeleteFunc(m.jobs, func(j job) bool { return j.id == id })
	m.execs = slices.DeleteFunc(m.execs, func(e exec) bool { return e.job == id })
	for i := range m.runs {
		if r := &m.runs[i]; r.job == id && r.state == pending {
			r.state, r.finished = cancelled, m.now
			r.release()
		}
	}
	return true
}
