package misfire

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/outage"
)

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

// moveOnOff moves on, without running, what no node may claim because its app, or every node with its class, is
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
// another transaction has locked or changed is left to the next walk. What a move leaves overdue, since it does not deal with
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

// heal brings back executes in ERROR whose schedule a person has corrected.
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
