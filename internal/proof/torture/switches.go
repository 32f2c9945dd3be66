package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/schema"
)

// The switches: what is thrown, what is on record of it, and what may not happen meanwhile.

// switchApp switches an app off and on again.
func (t *torture) switchApp(ctx context.Context, f fault) {
	a := t.anyApp(f)
	if !a.change.take() {
		return
	}
	defer a.change.free()
	defer t.slowed(ctx, f, pick(f.dice, t.processesOf(a.name)...))()
	t.appOff(ctx, a, func() { t.wait(ctx, f.last) })
}

func (t *torture) appOff(ctx context.Context, a *appUnder, meanwhile func()) {
	t.note("app %s: N", a.name)
	t.switched(ctx, a, "", meanwhile, `UPDATE QRTZ_APP SET STATE = ? WHERE APPLICATION = ?`, a.name)
	t.note("app %s: Y", a.name)
}

// switchUnseen switches an app off, and then on and off again while none of its workers reaches the database: the rows keep
// only the last switch.
func (t *torture) switchUnseen(ctx context.Context, f fault) {
	a := t.anyApp(f)
	if !a.change.take() {
		return
	}
	defer a.change.free()
	back := func() {}
	defer func() { back() }()
	t.appOff(ctx, a, func() {
		t.wait(ctx, time.Second) // which they see
		back = t.isolate(a)
	})
	t.wait(ctx, f.last/2)
	t.appOff(ctx, a, func() { t.wait(ctx, f.last/2) })
}

// isolate cuts the lines of an app's workers, until the function it returns is called.
func (t *torture) isolate(a *appUnder) (back func()) {
	var lines []*line
	for i, p := range t.processes {
		if l := t.lines[i]; p.app == a.name && l.take() {
			t.note("%s-%s: cut off", p.app, p.id)
			l.cut()
			lines = append(lines, l)
		}
	}
	return func() {
		t.note("app %s: all lines are good again", a.name)
		for _, l := range lines {
			if err := l.join(); err != nil {
				t.judge.blame("proxy: %v", err)
			}
			l.free()
		}
	}
}

// switchNode switches a node off and on again.
func (t *torture) switchNode(ctx context.Context, f fault) {
	a := t.anyApp(f)
	if !a.change.take() { // one switch of an app at a time: there is always a node to do the work
		return
	}
	defer a.change.free()
	p := pick(f.dice, t.processesOf(a.name)...)
	defer t.slowed(ctx, f, p)()
	t.nodeOff(ctx, a, p.id, f.last)
}

func (t *torture) nodeOff(ctx context.Context, a *appUnder, id string, last time.Duration) {
	t.note("node %s-%s: N for %s", a.name, id, short(last))
	t.switched(ctx, a, id, func() { t.wait(ctx, last) },
		`UPDATE QRTZ_NODE SET STATE = ?, STOPPED_BY_APP = 0 WHERE APPLICATION = ? AND HOST_IP = ?`, a.name, id)
	t.note("node %s-%s: Y", a.name, id)
}

// switchLastNode kills all workers of an app but one, and once they count as dead switches that one off and on again: what
// they should have run meanwhile is owed, for no operator has switched them off.
func (t *torture) switchLastNode(ctx context.Context, f fault) {
	a := t.anyApp(f)
	if !a.change.take() {
		return
	}
	defer a.change.free()
	all := t.processesOf(a.name)
	last := pick(f.dice, all...)
	for _, p := range all {
		if p != last && p.take() {
			t.note("SIGKILL %s-%s, back when %s-%s has been off and on", p.app, p.id, last.app, last.id)
			p.kill()
			defer p.free()
			defer t.comeBack(p) //nolint:contextcheck // a worker lives until it is stopped
		}
	}
	t.wait(ctx, t.pace.nodeTimeout())
	t.nodeOff(ctx, a, last.id, f.last)
	t.wait(ctx, 2*time.Second) // in which it passes over what it thinks it may
}

// slowed makes every second worker that a switch is for slow to ask: what it has read is old when it claims. The function
// it returns makes it quick again.
func (t *torture) slowed(ctx context.Context, f fault, p *process) (quick func()) {
	l := t.lines[slices.Index(t.processes, p)]
	if f.dice.IntN(2) == 0 || !l.take() {
		return func() {}
	}
	slow := toxic{"slow", "latency", "upstream", map[string]int{"latency": 300}}
	heal := t.poisonLine(ctx, l, slow)
	t.wait(ctx, time.Second)
	return func() {
		heal()
		l.free()
	}
}

// switched throws a switch to N and back, and has it on record by the database's clock between which times no node may claim.
func (t *torture) switched(ctx context.Context, a *appUnder, node string, meanwhile func(), query string, args ...any) {
	off := func(state string) error { return t.timed(ctx, a.name, query, append([]any{state}, args...)...) }
	begun := time.Now()
	before := t.clock.atLeast(time.Now()).Truncate(time.Millisecond) // as exactly as the server notes it
	if err := off("N"); err != nil {
		t.judge.blame("switch off: %v", err)
		return
	}
	s := &switchOff{app: a.name, node: node, begun: begun, before: before, from: t.databaseTime(ctx)}
	if !s.from.IsZero() {
		s.from = s.from.Add(t.replication())
	}
	t.judge.sawSwitch(s)
	meanwhile()
	s.end(t.databaseTime(ctx))
	if err := off("Y"); err != nil {
		t.judge.blame("switch on: %v", err)
	}
	s.over(t.clock.atMost(time.Now()))
}

// replication is how long a committed switch may take to reach the server that a worker is connected to. On a single
// server it takes no time at all. See docs/compatibility.md for what was measured.
func (t *torture) replication() time.Duration {
	if t.servers.Nodes() > 1 {
		return 250 * time.Millisecond
	}
	return 0
}

// databaseTime is the database's clock, as soon as it can be read; if it cannot, the zero time.
func (t *torture) databaseTime(ctx context.Context) (now time.Time) {
	_ = t.persist(ctx, func(ctx context.Context) (err error) { // the zero time says so
		now, err = schema.Now(ctx, t.judge.db)
		return err
	})
	return now
}

// switchOff is an app or a node that was switched off: between from and until, by the database's clock, nothing may be
// claimed. before and after are when that began at the earliest and ended at the latest.
type switchOff struct {
	app, node    string // node is empty if all of the app's are meant
	before, from time.Time

	begun time.Time // by our clock

	mu           sync.Mutex
	until, after time.Time
	ended        time.Time // by our clock
}

// thrown is when it was off, by our clock.
func (s *switchOff) thrown() span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return span{s.begun, s.ended}
}

func (s *switchOff) end(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = at
}

func (s *switchOff) over(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after, s.ended = at, time.Now()
}

func (s *switchOff) outer() span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return span{s.before, s.after}
}

// onFrom is when it was switched on again, at the earliest; now by the database's clock, if it has not been.
func (s *switchOff) onFrom(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until.IsZero() {
		return now
	}
	return s.until
}

// forbids tells whether the claim of a run was forbidden.
func (s *switchOff) forbids(r runRow) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from.IsZero() || s.app != r.App || s.node != "" && s.node != r.Node.String {
		return false
	}
	at := time.UnixMilli(r.ClaimedAt.Int64) // cut to the millisecond
	return at.After(s.from) && at.Before(orNow(s.until).Add(-time.Millisecond))
}

func (j *judge) sawSwitch(s *switchOff) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.switches = append(j.switches, s)
}

// afterSwitch finds claims by who was off.
func (j *judge) afterSwitch(rows []runRow) (found []finding) {
	for _, r := range rows {
		if !r.Node.Valid || !r.ClaimedAt.Valid || r.State == "SKIPPED" {
			continue
		}
		for _, s := range j.switches {
			if s.forbids(r) && !j.t.clock.twice(time.UnixMilli(r.ClaimedAt.Int64)) {
				found = append(found, r.finding("claim after a switch", "claimed at %s by %s, which was off since %s",
					clock(time.UnixMilli(r.ClaimedAt.Int64)), r.Node.String, clock(s.from)))
			}
		}
	}
	return found
}
