package main

import "slices"

// A process in the cluster: its heartbeat, what it sees of the others, and the switches (docs/concepts.md, "Who is alive, and who is
// who" and "Switched off and on again").

// view is the cluster as a process saw it last.
type view struct {
	at          ms
	appOn       bool
	appSwitched ms
	nodes       []seenNode
	me          int // its own row among nodes; -1: it is no longer this instance's
}

type seenNode struct {
	node
	beat            beat
	row             bool // it has a heartbeat
	silent, watched ms
	beaten, doubted bool
}

func (n *seenNode) switchedOn() bool { return n.on || n.byApp }
func (n *seenNode) passedOver() bool { return n.offSince == 0 && n.appOffSince == 0 }
func (n *seenNode) handles(class string) bool {
	return slices.Contains(n.classes, class)
}

func (n *seenNode) isAlive() bool {
	return n.instance != 0 && !n.doubted && n.watched <= nodeTimeout
}
func (n *seenNode) isDead() bool { return n.instance != 0 && n.watched > nodeTimeout }

func (v *view) claims(n *seenNode) bool { return v.appOn && n.on && n.passedOver() && n.isAlive() }

// self is its own row, which is alive for itself.
func (v *view) self() *seenNode {
	if v.me < 0 {
		return nil
	}
	me := v.nodes[v.me]
	me.silent, me.watched, me.doubted = 0, 0, false
	return &me
}

// claiming tells whether the process may claim.
func (m *model) claiming(p *proc) bool {
	me := p.view.self()
	return me != nil && p.view.claims(me) && me.instance == p.instance && p.holds()
}

// holds tells whether its lease lasts.
func (p *proc) holds() bool { return !p.fencedOff && p.clock-p.lease < leaseTime }

// look reads the cluster, and notes whose heartbeats have changed.
func (m *model) look(p *proc) bool {
	return m.statement(func() {
		v := view{at: m.now, appOn: m.app.on, appSwitched: m.app.switched, me: -1}
		before, cutOff := p.lastLook, p.clock-p.lastLook > 2*beatEvery
		p.lastLook = p.clock
		seen := map[int]sighting{}
		for _, n := range m.nodes {
			s := seenNode{node: n}
			s.beat, s.row = m.beats[n.instance]
			if !s.row {
				s.beat = beat{n.joined, n.joined}
			}
			if n.instance != 0 {
				was, known := p.seen[n.instance]
				switch {
				case !known:
					was = sighting{beats: s.beat.count, row: s.row, since: p.clock}
					if age := m.now - s.beat.at; age >= -2000 && age <= nodeTimeout {
						was.beat = p.clock - max(0, age)
					}
				case was.row == s.row && was.beats != s.beat.count || !was.row && s.row:
					age := max(0, min(m.now-s.beat.at, p.clock-before))
					was = sighting{beats: s.beat.count, row: s.row, since: p.clock, beat: p.clock - age, beaten: true}
				case cutOff:
					was.since = p.clock
				}
				seen[n.instance] = was
				s.silent, s.watched, s.beaten, s.doubted = p.clock-was.beat, p.clock-was.since, was.beaten, was.beat == 0
			}
			if n.id == p.node && n.instance == p.instance && n.instance != 0 {
				v.me = len(v.nodes)
			}
			v.nodes = append(v.nodes, s)
		}
		p.seen, p.view = seen, v
	})
}

// measure asks the server for the time.
func (m *model) measure(p *proc) bool { return m.statement(func() { p.clock = m.now }) }

// refresh looks, brings its own switch in line with the app's, and notes since when it is off.
func (m *model) refresh(p *proc) bool {
	if !m.look(p) {
		return false
	}
	wrote, ok := m.tidy(p)
	if !wrote {
		return ok
	}
	return m.look(p) && ok
}

func (m *model) tidy(p *proc) (wrote, ok bool) {
	me := p.view.self()
	if me == nil {
		return false, true
	}
	if me.byApp && p.view.appOn || me.on && !p.view.appOn {
		wrote = true
		if !m.sync(p) || !m.look(p) {
			return true, false
		}
	}
	if me = p.view.self(); me == nil {
		return wrote, true
	}
	var own, app ms
	if !me.switchedOn() {
		own = max(me.switched, me.offSince, 1)
	}
	if !p.view.appOn {
		app = max(p.view.appSwitched, me.appOffSince, 1)
	}
	if own == 0 && app == 0 {
		return wrote, true
	}
	at := p.view.at
	return true, m.statement(func() {
		n := m.node(p.node)
		if n == nil || n.instance != p.instance {
			return
		}
		if own != 0 {
			n.offSince, n.offSeen = own, at
		}
		if app != 0 {
			n.appOffSince, n.appSeen = app, at
		}
	})
}

// sync brings the switches of the nodes that differ in line with the app's.
func (m *model) sync(p *proc) (ok bool) {
	ok = true
	for _, n := range p.view.nodes {
		on := p.view.appOn
		stop, start, forget := n.on && !on, !n.on && n.byApp && on, n.on && n.byApp && on
		if !stop && !start && !forget {
			continue
		}
		ok = m.statement(func() {
			row := m.node(n.id)
			switch {
			case stop && row.on && !m.app.on:
				row.on, row.byApp = false, true
			case start && !row.on && row.byApp && m.app.on:
				row.on, row.byApp = true, false
			case forget && row.on && row.byApp && m.app.on:
				row.byApp = false
			}
		}) && ok
	}
	return ok
}

func (m *model) syncSwitches(p *proc) bool {
	if !m.refresh(p) {
		return false
	}
	for _, n := range p.view.nodes {
		on := p.view.appOn
		if n.on && (!on || n.byApp) || !n.on && n.byApp && on {
			return m.sync(p)
		}
	}
	return true
}

// classes are those of the nodes for which it holds, each once.
func (v *view) classes(which func(*seenNode) bool) (all []string) {
	for i := range v.nodes {
		if which(&v.nodes[i]) {
			all = append(all, v.nodes[i].classes...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (v *view) classesClaimed() []string { return v.classes(v.claims) }
func (v *view) classesHandled() []string { return v.classes((*seenNode).isAlive) }

// classesOff are those of all nodes if the app is off, else those of which every node that handles them is off.
func (v *view) classesOff() []string {
	if !v.appOn {
		return v.classes(func(*seenNode) bool { return true })
	}
	on := v.classes((*seenNode).switchedOn)
	off := v.classes(func(n *seenNode) bool { return !n.switchedOn() })
	return slices.DeleteFunc(off, func(c string) bool { return slices.Contains(on, c) })
}

// timeOff is a time in which something was off: for certain from from until seen.
type timeOff struct{ from, seen, until ms }

func (o timeOff) lasts() bool { return o.from < o.until }

func (v *view) timeOff(from, seen, until ms) timeOff {
	until = min(until, v.at)
	if until-seen <= fresh {
		seen = until
	}
	return timeOff{from, max(from, seen), until}
}

func (v *view) appOffSince() ms { return max(v.appSwitched, 1) }

// nodesOff is the latest time in which all nodes that handle a class were off by their own switches.
func (v *view) nodesOff(class string) timeOff {
	all := timeOff{1, v.at, v.at}
	for i := range v.nodes {
		n := &v.nodes[i]
		if !n.handles(class) {
			continue
		}
		off := timeOff{}
		switch {
		case !n.switchedOn():
			off = timeOff{max(n.switched, 1), v.at, v.at}
		case n.offSince != 0:
			off = v.timeOff(n.offSince, n.offSeen, n.switched)
		}
		all = timeOff{max(all.from, off.from), min(all.seen, off.seen), min(all.until, off.until)}
	}
	all.seen = max(all.seen, all.from)
	return all
}

// offSince is since when a class that is off has been.
func (v *view) offSince(class string) ms {
	nodes := v.nodesOff(class)
	if v.appOn || nodes.lasts() && nodes.from < v.appOffSince() {
		return nodes.from
	}
	return v.appOffSince()
}

// timesOff are the times whose fires the process passes over now that it is on again.
func (v *view) timesOff(class string) (times []timeOff) {
	me := v.self()
	if me.appOffSince != 0 {
		seen := me.appSeen
		for _, n := range v.nodes {
			if n.appOffSince == me.appOffSince {
				seen = max(seen, n.appSeen)
			}
		}
		times = append(times, v.timeOff(me.appOffSince, seen, v.appSwitched))
	}
	if nodes := v.nodesOff(class); me.offSince != 0 && nodes.lasts() {
		times = append(times, nodes)
	}
	slices.SortFunc(times, func(a, b timeOff) int {
		if a.from != b.from {
			return int(a.from - b.from)
		}
		return int(a.until - b.until)
	})
	return times
}

// fence ends what a process runs that has lost its place.
func (p *proc) fence() {
	if !p.fencedOff {
		p.fencedOff = true
		p.endRuns("fenced")
	}
}

func (p *proc) endRuns(cause string) {
	for i := range p.held {
		if p.held[i].cause == "" {
			p.held[i].cause = cause
		}
	}
}

// beat sends a heartbeat. A process that finds itself taken for dead gives up its runs and joins again.
func (m *model) beat(p *proc) {
	if !m.measure(p) {
		return
	}
	p.beatsSent++
	sent := p.beatsSent
	wrote := m.statement(func() {
		if _, there := m.beats[p.instance]; there {
			m.beats[p.instance] = beat{sent, m.now}
		}
	})
	if !wrote || !m.look(p) {
		return
	}
	me := p.view.self()
	if me == nil || !me.row {
		p.fence()
	}
	if !p.fencedOff {
		p.lease = p.clock
		return
	}
	if !m.handBackDoubts(p) || !m.flush(p) {
		return
	}
	m.leave(p)
	m.join(p)
}

func (m *model) leave(p *proc) {
	ok := m.statement(func() {
		if n := m.node(p.node); n != nil && n.instance == p.instance {
			n.instance, n.joined = 0, 0
		}
	})
	if ok {
		m.statement(func() { delete(m.beats, p.instance) })
	}
}

// join takes the row of a node that no instance has.
func (m *model) join(p *proc) {
	m.measure(p)
	m.look(p)
	m.instances++
	instance := m.instances
	m.statement(func() { m.beats[instance] = beat{1, m.now} })
	m.statement(func() {
		if m.node(p.node) == nil {
			m.nodes = append(m.nodes, node{id: p.node, on: true})
			slices.SortFunc(m.nodes, func(a, b node) int { return slices.Compare([]byte(a.id), []byte(b.id)) })
		}
	})
	m.statement(func() {
		n := m.node(p.node)
		n.instance, n.joined, n.classes = instance, m.now, p.classes
	})
	p.instance, p.beatsSent, p.fencedOff, p.lease = instance, 1, false, p.clock
	m.refresh(p)
}
