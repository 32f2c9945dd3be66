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
//
// What was claimed and cannot be carried out because of an error is handed back later (FollowSwitches), as by a Poller that runs.
func (p *Poller) RunDue(ctx context.Context, carryOut func(context.Context, run.Run) error) error {
	for {
		won, err := p.claimDue(ctx)
		if err != nil {
			p.giveUp(won.Runs)
			return err
		}
		if len(won.Runs) == 0 && len(won.Moved) == 0 {
			return nil
		}
		p.cfg.Claimed(won.Runs)
		p.cfg.Skipped(won.Skipped)
		for i, r := range won.Runs {
			if err := carryOut(ctx, r); err != nil {
				p.giveUp(won.Runs[i+1:])
				return err
			}
		}
	}
}

func (p *Poller) giveUp(runs []run.Run) {
	for _, r := range runs {
		p.GiveUp(r)
	}
}

// FollowSwitches does of a sweep what does not plan, for tests: it acts on a switch that was thrown, and gives back what is to be
// given back. It tells whether this node may claim.
func (p *Poller) FollowSwitches(ctx context.Context) (claiming bool, err error) {
	now := p.cluster.Now()
	found, err := p.executes.Glance(ctx, execute.Look{
		NodeID: p.cluster.Self().NodeID, Classes: p.cfg.Classes, From: now.Add(-p.cfg.MisfireAfter), Until: now, Now: now,
	})
	if err != nil {
		return false, err
	}
	if claiming, err = p.followSwitches(ctx, found); err != nil {
		return false, err
	}
	return claiming, p.HandBackDoubts(ctx)
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
	ready, err := p.prepare(ctx, append(fresh, due...), p.entryFor)
	if err != nil {
		return won, err
	}
	var moves []execute.Move
	for _, e := range ready {
		first := e.execute.Fires(now, 1)
		if len(first) > 0 && !first[0].Before(now.Add(-p.cfg.MisfireAfter)) { // what is older is for its misfire policy
			moves = append(moves, e.execute.ClaimMove(first))
		}
	}
	who := p.cluster.Self()
	won, err = p.executes.Claim(ctx, who, moves)
	p.doubts.fires(who, won.InDoubt)
	p.doubts.pending(who, won.PendingInDoubt)
	if err != nil {
		return won, err
	}
	pending, err := p.runs.Pending(ctx, p.cfg.Classes, now, maxBatch)
	if err != nil {
		return won, err
	}
	claimed, err := p.runs.ClaimPending(ctx, who, pending)
	p.doubts.pending(who, claimed.InDoubt)
	won.Runs = append(won.Runs, claimed.Runs...)
	slices.SortStableFunc(won.Runs, func(a, b run.Run) int {
		return cmp.Or(a.FireTime.Compare(b.FireTime), cmp.Compare(b.Options.Priority, a.Options.Priority))
	})
	return won, err
}
