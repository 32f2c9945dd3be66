package misfire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/run"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/outage"
)

const (
	hardLimit = 60 * time.Second       // for one pass, should statements hang
	minSlice  = 100 * time.Millisecond // for a step that has more to do
)

// Run does a pass at once, and then comes by every interval until ctx is done. Failures are logged once per outage and
// waited out.
// The next pass takes up what a pass leaves undone after a pause of a third of the interval, so that the database has time for others.
func (h *Handler) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for work := h.firstPass; ; work = h.comeBy {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		entered, err := work(ctx)
		if ctx.Err() != nil {
			return // and so is the error
		}
		pause := h.pacer.Next(err, h.cfg.Interval-time.Since(began))
		if h.unfinished && entered {
			pause = h.cfg.Interval / 3
		}
		timer.Reset(max(0, pause))
	}
}

// firstPass is done whichever node has advanced the lock-time window.
func (h *Handler) firstPass(ctx context.Context) (entered bool, err error) {
	h.unfinished = true
	return h.comeBy(ctx)
}

// comeBy does a pass if this node advances the lock-time window, or if its last pass left work undone. Otherwise another
// node has just done one, and nothing is written. It tells whether it got as far as that; the error is of what comes before.
func (h *Handler) comeBy(ctx context.Context) (entered bool, err error) {
	window, err := h.enter(ctx)
	if err != nil {
		return false, err
	}
	if !window.Mine && !h.unfinished {
		return true, nil
	}
	if p := h.passUntil(ctx, time.Now().Add(h.cfg.Interval/3)); ctx.Err() == nil {
		p.note()
	}
	return true, nil
}

// FullPass does all the work there is, whichever node has advanced the lock-time window and however long it takes. It is
// for tests.
func (h *Handler) FullPass(ctx context.Context) error {
	if _, err := h.enter(ctx); err != nil {
		return err
	}
	err := h.passUntil(ctx, time.Now().Add(hardLimit)).problem()
	if err == nil && h.unfinished {
		err = fmt.Errorf("misfire handling: not done after %s", hardLimit)
	}
	return err
}

func (h *Handler) enter(ctx context.Context) (app.Window, error) {
	return h.apps.Enter(ctx, h.nodes.Now(), h.cfg.Interval)
}

// passUntil works until the time given, and tries each step at least once, whatever becomes of the others.
func (h *Handler) passUntil(ctx context.Context, until time.Time) *pass {
	ctx, cancel := context.WithTimeout(ctx, hardLimit)
	defer cancel()
	p := &pass{Handler: h, until: until, failed: map[string]error{}}
	more := p.work(ctx, []step{
		{"sync switches", once(h.nodes.SyncSwitches)},
		{"fail over", once(h.failOver)},
		{"view", once(func(ctx context.Context) (err error) {
			p.view, err = h.nodes.ReadView(ctx)
			return err
		})},
	})
	p.now = h.nodes.Now() // one for all pages: a fast schedule must not come round again before the last page
	var steps []step
	if p.failed["view"] == nil {
		steps = append(steps,
			step{"adopt", once(h.executes.Adopt)},
			step{"mark paused", once(h.executes.MarkPaused)},
			step{"begin", p.begin},
			step{"apply misfire policies", p.applyPolicies},
			step{"move on what is off", p.moveOnOff},
			step{"move on what is paused", p.moveOnPaused},
			step{"heal", p.heal},
			step{"look for what is stuck", once(p.findStuck)})
	}
	steps = append(steps,
		step{"derive job states", h.executes.DeriveJobStates},
		step{"clean history", h.cleanHistory})
	more = p.work(ctx, steps) || more
	h.unfinished = more || len(p.failed) > 0
	return p
}

// step is one kind of work. It does a bounded part of it, and tells whether there is more.
type step struct {
	name string
	do   func(context.Context) (more bool, err error)
}

func once(do func(context.Context) error) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) { return false, do(ctx) }
}

// pass is one pass of the handler.
type pass struct {
	*Handler
	until  time.Time // no step with more to do continues after it
	slice  time.Time // nor the step that is being done after this
	now    time.Time
	view   node.View
	tried  []string // the steps
	failed map[string]error
}

// work does steps in turn, each for its share of what time is left, and those with more to do again and again until
// the time is over. A step that fails is left to the next pass. It tells whether work is left.
func (p *pass) work(ctx context.Context, steps []step) (more bool) {
	for first := true; len(steps) > 0; first = false {
		var again []step
		for i, s := range steps {
			if !first && !time.Now().Before(p.until) {
				return true
			}
			if first {
				p.tried = append(p.tried, s.name)
			}
			p.slice = time.Now().Add(max(time.Until(p.until)/time.Duration(len(steps)-i), minSlice))
			left, err := true, error(nil)
			for left && err == nil && ctx.Err() == nil {
				if left, err = s.do(ctx); p.over() {
					break
				}
			}
			switch {
			case err != nil:
				p.failed[s.name] = err
			case left:
				again = append(again, s)
			}
		}
		if ctx.Err() != nil {
			return true
		}
		steps = again
	}
	return false
}

// over tells whether the step that is being done has used up its time.
func (p *pass) over() bool { return !time.Now().Before(p.slice) }

// problem is what went wrong.
func (p *pass) problem() error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(p.failed)) {
		all = append(all, fmt.Errorf("%s: %w", name, p.failed[name]))
	}
	return errors.Join(all...)
}

// note logs, once per outage, which steps failed. Steps that failed for the same reason, as all do while the database is
// away, are one.
func (p *pass) note() {
	said := map[string]bool{}
	for _, name := range p.tried {
		err := p.failed[name]
		if err != nil {
			cause := cause(err).Error()
			if said[cause] {
				continue
			}
			said[cause] = true
		}
		p.pacer.Note(name, err)
	}
}

// cause is the error that others were made of, by adding what failed.
func cause(err error) error {
	for {
		switch inner := err.(type) { //nolint:errorlint // each layer is taken off
		case interface{ Unwrap() error }:
			if inner.Unwrap() == nil {
				return err
			}
			err = inner.Unwrap()
		case interface{ Unwrap() []error }:
			if len(inner.Unwrap()) == 0 {
				return err
			}
			err = inner.Unwrap()[0]
		default:
			return err
		}
	}
}

// begin gives new executes their first fire, in case no poller has.
func (p *pass) begin(ctx context.Context) (more bool, err error) {
	rows, err := p.executes.New(ctx, p.view.ClassesHandled(), page)
	if err != nil {
		return false, err
	}
	done, err := p.move(ctx, execute.Executing, rows, func(e *execute.Execute) execute.Move { return e.BeginMove(p.now) })
	return done.moved > 0 && (len(rows) == page || len(done.moves) < len(rows)), err
}

// applyPolicies decides on the misfires of every class that some node may claim.
func (p *pass) applyPolicies(ctx context.Context) (more bool, err error) {
	return p.walk(ctx, "policies", execute.Executing, p.now.Add(-p.cfg.MisfireAfter), p.overdue(p.view.ClassesClaimed()),
		func(e *execute.Execute) execute.Move {
			if e.Next.Before(e.ResumedAt) {
				return e.MoveTo(e.ResumedAt)
			}
			return e.MisfireMove(p.now)
		})
}

// moveOnOff moves on, without running, what nobody may claim because its app, or every node with its class, is
// switched off. The time spent off is not a misfire; what was due before, and was not claimed in time, is one. What has
// become due since the view was read is left alone: it may all be on again.
func (p *pass) moveOnOff(ctx context.Context) (more bool, err error) {
	return p.walk(ctx, "off", execute.Executing, p.view.At, p.overdue(p.view.ClassesOff()), func(e *execute.Execute) execute.Move {
		if since := p.view.OffSince(e.Class); e.Next.Before(since) {
			return e.MisfireMove(since.Add(-time.Millisecond))
		}
		return e.MoveTo(p.view.At.Add(time.Millisecond))
	})
}

// moveOnPaused does the same for paused executes, of whatever class.
func (p *pass) moveOnPaused(ctx context.Context) (more bool, err error) {
	return p.walk(ctx, "paused", execute.Paused, p.now, p.executes.PausedAfter,
		func(e *execute.Execute) execute.Move { return e.MoveTo(p.now.Add(time.Millisecond)) })
}

// readPage reads the next executes behind a cursor.
type readPage func(ctx context.Context, after execute.Cursor, until time.Time, limit int) ([]*execute.Execute, error)

func (p *pass) overdue(classes []string) readPage {
	return func(ctx context.Context, after execute.Cursor, until time.Time, limit int) ([]*execute.Execute, error) {
		return p.executes.OverdueAfter(ctx, execute.Executing, classes, after, until, limit)
	}
}

// start is where a walk begins: no fire is before it.
var start = execute.Cursor{Next: 1, ID: math.MinInt64}

// walk moves a page of the executes that are overdue. It continues behind what it has looked at, moved or not: what
// somebody else has locked or changed is left to the next walk. What a move leaves overdue, since it does not deal with
// all missed fires of a cron schedule, or since there are two moves to make, is left as well: the others come first.
func (p *pass) walk(ctx context.Context, name string, from execute.State, until time.Time, read readPage,
	move func(*execute.Execute) execute.Move,
) (more bool, err error) {
	at, ok := p.came[name]
	if !ok {
		at = start
	}
	rows, err := read(ctx, at, until, page)
	if err != nil {
		return false, err
	}
	full := len(rows) == page
	var last execute.Cursor
	if len(rows) > 0 {
		last = rows[len(rows)-1].Cursor()
	}
	left := p.left[name]
	rows = slices.DeleteFunc(rows, func(e *execute.Execute) bool { return left[e.ID] })
	done, err := p.move(ctx, from, rows, move)
	for _, m := range done.moves {
		if err != nil || m.State == from && !m.Next.After(until) {
			left[m.Execute.ID] = true
		}
	}
	switch n := len(done.moves); {
	case n < len(rows) && n > 0:
		p.came[name] = done.moves[n-1].Execute.Cursor()
	case n < len(rows):
	case full:
		p.came[name] = last
	default:
		more = len(left) > 0
		delete(p.came, name)
		clear(left)
		return more, err
	}
	return true, err
}

// done is how much of a page was done.
type done struct {
	moves []execute.Move // that were tried
	moved int            // how many of them were made
}

// move moves the rows of a page, in transactions of bounded size, until the time of the step is over.
func (p *pass) move(ctx context.Context, from execute.State, rows []*execute.Execute, move func(*execute.Execute) execute.Move) (d done, err error) {
	for len(d.moves) < len(rows) && ctx.Err() == nil && (len(d.moves) == 0 || !p.over()) {
		var moves []execute.Move
		walked, runs := 0, 0
		for _, e := range rows[len(d.moves):] {
			m := p.moveOf(e, move)
			moves = append(moves, m)
			walked, runs = walked+m.Walked, runs+len(m.Runs)
			if walked >= maxWalked || runs >= maxRuns || p.over() {
				break
			}
		}
		d.moves = append(d.moves, moves...)
		applied, err := p.executes.Move(ctx, p.nodes.Self(), from, moves)
		p.cfg.Skipped(applied.Skipped)
		d.moved += len(applied.Moved)
		if err != nil {
			return d, err
		}
	}
	return d, nil
}

func (p *pass) moveOf(e *execute.Execute, move func(*execute.Execute) execute.Move) execute.Move {
	if e.Problem == nil {
		return move(e)
	}
	p.cfg.Log.Warn().Str("error", outage.Text(e.Problem)).Msg("set to ERROR: its schedule cannot be used")
	return e.ErrorMove()
}

// heal brings back executes in ERROR whose schedule somebody has corrected.
func (p *pass) heal(ctx context.Context) (more bool, err error) {
	rows, err := p.executes.Broken(ctx, p.healed, page)
	if err != nil || len(rows) == 0 {
		p.healed = math.MinInt64
		return false, err
	}
	p.healed = rows[len(rows)-1].ID
	var moves []execute.Move
	for _, e := range rows {
		if e.Problem == nil {
			p.cfg.Log.Info().Int64("execute", e.ID).Msg("schedule corrected; active again")
			moves = append(moves, e.HealMove(p.now))
		}
	}
	_, err = p.executes.Move(ctx, p.nodes.Self(), execute.Error, moves)
	return true, err
}

// NoHandler is why rows of a class are stuck that no live node handles.
const NoHandler = "no live node has a handler for its class"

// findStuck tells of rows that cannot run by themselves. They stay as they are.
func (p *pass) findStuck(ctx context.Context) error {
	before := p.now.Add(-p.cfg.MisfireAfter)
	stuck, err := p.executes.StuckExecutes(ctx, before)
	runs, err2 := p.runs.StuckRuns(ctx, p.now, before)
	handled := p.view.ClassesHandled()
	stuck = slices.DeleteFunc(append(stuck, runs...), func(one run.Stuck) bool {
		return one.Why == "" && slices.Contains(handled, one.Class)
	})
	for i := range stuck {
		stuck[i].Why = cmp.Or(stuck[i].Why, NoHandler)
	}
	if len(stuck) > 0 {
		p.cfg.Stuck(stuck)
	}
	return errors.Join(err, err2)
}
