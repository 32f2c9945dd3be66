package poller

import (
	"cmp"
	"context"
	"slices"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/run"
)

// RunDue claims what is due and has it carried out, one run after the other in order of fire time, until nothing is
// due any more. It is for tests, and for a Poller that does not Run: carryOut must write the run's result before it returns.
func (p *Poller) RunDue(ctx context.Context, carryOut func(context.Context, run.Run) error) error {
	for {
		won, err := p.claimDue(ctx)
		if err != nil {
			return err
		}
		if len(won.Runs) == 0 && len(won.Moved) == 0 {
			return nil
		}
		p.cfg.Claimed(won.Runs)
		p.cfg.Skipped(won.Skipped)
		for _, r := range won.Runs {
			if err := carryOut(ctx, r); err != nil {
				return err
			}
		}
	}
}

// claimDue claims the next fire of each execute that is due, and the pending runs.
func (p *Poller) claimDue(ctx context.Context) (won execute.Applied, err error) {
	if err := p.tidy(ctx, execute.Glance{WithoutApp: true, Paused: true}); err != nil {
		return won, err
	}
	now := p.cluster.Now()
	fresh, err := p.executes.New(ctx, p.cfg.Classes, maxSwept)
	if err != nil {
		return won, err
	}
	due, err := p.executes.Overdue(ctx, execute.Executing, p.cfg.Classes, now.Add(-p.cfg.MisfireAfter), now, maxSwept)
	if err != nil {
		return won, err
	}
	ready, err := p.prepare(ctx, append(fresh, due...))
	if err != nil {
		return won, err
	}
	var moves []execute.Move
	for _, e := range ready {
		if first := e.execute.Fires(now, 1); len(first) > 0 {
			moves = append(moves, e.execute.ClaimMove(first))
		}
	}
	if won, err = p.executes.Claim(ctx, p.cluster.Self(), moves); err != nil {
		return won, err
	}
	pending, err := p.runs.Pending(ctx, p.cfg.Classes, now, maxBatch)
	if err != nil {
		return won, err
	}
	claimed, err := p.runs.ClaimPending(ctx, p.cluster.Self(), pending)
	won.Runs = append(won.Runs, claimed.Runs...)
	slices.SortStableFunc(won.Runs, func(a, b run.Run) int {
		return cmp.Or(a.FireTime.Compare(b.FireTime), cmp.Compare(b.Options.Priority, a.Options.Priority))
	})
	return won, err
}
