package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The checks that one bad thing stops one thing.

const (
	onTime     = 1500 * time.Millisecond // a start, after its fire, where nothing is wrong: an owner that is away is waited for that long
	switchTime = 2 * time.Second         // a switch, until it is answered
	joinTime   = 5 * time.Second         // a new process, until it has joined
	enough     = 32                      // slots of those that are well, for all of an app's fires
)

// well tells whether nothing was wrong with a process, its line and its server between two times.
func (t *torture) well(p *process, from, until time.Time) bool {
	return !p.touch(from, until) && (p.line == nil || !p.line.touch(from, until)) && !t.serverDown.touch(from, until)
}

// fencedWell finds processes that lost their place in the cluster though nothing was wrong with them.
func (t *torture) fencedWell() (found []finding, err error) {
	said, err := t.records.said()
	if err != nil {
		return nil, err
	}
	for _, s := range said {
		if !strings.HasPrefix(s.what, fenced) {
			continue
		}
		p, from := t.processOf(s.life), s.at.Add(-t.pace.nodeTimeout()-5*time.Second)
		still := t.stalls.within(s.at.Add(-t.pace.nodeTimeout()), s.at)
		if t.well(p, from, s.at) && still < t.pace.nodeTimeout()/3 {
			found = append(found, finding{"fenced", 0, s.at, fmt.Sprintf("%s-%s, of which nothing was wrong, said: %s (all stood still for %s)", p.app, p.id, s.what, short(still))})
		}
	}
	return found, nil
}

// tardy finds fires that started late though they had no reason to: all of their app's workers were either well all the while,
// at least one of them, or away all the while, and no transaction held a lock that the fire had to wait for. Where the machine itself
// stood still for long this cannot be said.
func (j *judge) tardy(accounts []*account) (found []finding) {
	t := j.t
	for _, a := range accounts {
		if a.Execute == 0 || a.Attempt != 1 || a.Class == "exclusive" || t.poisons.has(a.Execute) {
			continue
		}
		started := t.clock.atLeast(a.startedAt())
		late := started.Sub(a.fire())
		if late <= onTime {
			continue
		}
		due := a.startedAt().Add(-late) // by our clock
		from, until := due.Add(-3*time.Second), due.Add(onTime)
		still := t.stalls.within(from, until.Add(time.Second))
		if still > onTime || late <= onTime+still || !t.shouldBeOnTime(a, from, until) || j.wasOff(a.app, from.Add(-2*time.Second), until) {
			continue
		}
		found = append(found, finding{"late", a.Execute, a.fire(), fmt.Sprintf("%s late, all stood still for %s of it: %s", short(late), short(still), a)})
	}
	return found
}

// shouldBeOnTime tells whether nothing was wrong with a fire's app between two times. After a standstill of the server and
// after a step of its clock it takes until a misfire handler has come by: a fire waits for those of its execute before it.
func (t *torture) shouldBeOnTime(a *account, from, until time.Time) bool {
	catchUp := from.Add(-t.pace.misfireAfter() - 2*t.pace.misfireInterval())
	if t.serverDown.touch(catchUp, until) || t.changing.touch(from, until) || t.clock.stepped(catchUp, a.startedAt()) || t.clock.skipped(a.fire()) ||
		t.crowds.touch(from, until) || t.nobodyWas(a.app, catchUp, from) ||
		t.locks.onExecute(a.app, a.Execute, from, until) || from.Before(t.from) {
		return false
	}
	able := 0 // slots
	said, err := t.records.said()
	if err != nil {
		return false // the next check of the records says so
	}
	for _, p := range t.placesOf(a.app) {
		switch {
		case t.well(p, from.Add(-joinTime), until) && hasJoined(said, p, from):
			able += p.spec.Workers - max(1, p.spec.Workers/8) // the others may be reserved
		case p.absent.cover(from, until):
		default:
			return false
		}
	}
	return able >= enough
}

// nobodyWas tells whether between two times there was a second in which something was wrong with each worker of an app. The
// first that is back has then to catch up, as after a standstill of the server.
func (t *torture) nobodyWas(app string, from, until time.Time) bool {
	for ; from.Before(until); from = from.Add(time.Second) {
		if !slices.ContainsFunc(t.placesOf(app), func(p *process) bool { return t.well(p, from, from.Add(time.Second)) }) {
			return true
		}
	}
	return false
}

// hasJoined tells whether a process had joined the cluster by a time, in any of its lives.
func hasJoined(said []*saying, p *process, by time.Time) bool {
	return slices.ContainsFunc(said, func(s *saying) bool {
		app, place := placeOf(s.life)
		return s.what == joined && app == p.app && place == p.id && s.at.Before(by)
	})
}

// wasOff tells whether an app, or one of its nodes, was off at some time between two.
func (j *judge) wasOff(app string, from, until time.Time) bool {
	for _, s := range j.switches {
		if s.app == app && s.thrown().touches(from, until) {
			return true
		}
	}
	return false
}

// timed throws a switch, and blames the cluster if that takes long.
func (t *torture) timed(ctx context.Context, app, query string, args ...any) error {
	return t.persist(ctx, func(ctx context.Context) error {
		began := time.Now()
		_, err := t.db.ExecContext(ctx, query, args...)
		took, now := time.Since(began), time.Now()
		if took > switchTime+t.stalls.within(began, now) && ctx.Err() == nil && !t.serverDown.touch(began.Add(-3*time.Second), now) &&
			!t.locks.onSwitches(app, began, now) && !t.changing.touch(began, now) {
			t.judge.blameFor("switch", "%s took %s: %v", query, short(took), err)
		}
		return err
	})
}

// joinAnew starts a process that was not there before. It must join whatever is wrong with others, and leave when told.
func (t *torture) joinAnew(ctx context.Context, f fault) {
	g := pick(f.dice, t.guests...)
	if !g.take() {
		return
	}
	defer g.free()
	i := f.dice.IntN(len(t.dsns))
	if t.isDown(i) {
		return
	}
	g.spec.DSN = t.dsns[i]
	t.note("%s-%s is new and joins", g.app, g.id)
	began := time.Now()
	if err := g.start(); err != nil { //nolint:contextcheck // a worker lives until it is stopped
		t.judge.blame("cannot start a worker: %v", err)
		return
	}
	took, ok := t.joins(ctx, g, began)
	now := time.Now()
	still := t.stalls.within(began, now)
	switch {
	case ok:
		t.note("%s-%s has joined in %s", g.app, g.id, short(took))
	case ctx.Err() == nil && !t.serverDown.touch(began.Add(-3*time.Second), now) && !t.locks.onNodes(began, now) && !t.changing.touch(began, now) && now.Sub(began) > joinTime+still:
		t.judge.blameFor("join", "%s-%s has not joined in %s (all stood still for %s)", g.app, g.id, short(now.Sub(began)), short(still))
	}
	t.wait(ctx, f.last)
	if err := g.stop(stopLimit + t.pace.config.DrainTimeout); err != nil {
		t.judge.blame("%v", err)
		g.kill()
	}
}

// joins waits until a process says that it has joined.
func (t *torture) joins(ctx context.Context, p *process, began time.Time) (took time.Duration, ok bool) {
	for time.Since(began) < joinTime+t.stalls.within(began, time.Now()) && sleepUntil(ctx, time.Now().Add(100*time.Millisecond)) {
		said, err := t.records.said()
		if err != nil {
			t.judge.blame("%v", err)
			return 0, true
		}
		for _, s := range said {
			if s.what == joined && s.life == p.lifeName() {
				return s.at.Sub(began), true
			}
		}
	}
	return 0, false
}
