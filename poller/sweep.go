package poller

import (
	"context"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
)

// sweep looks for what an owner left lying, for what is new, and at the switches.
func (p *Poller) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now := p.cluster.Now()
	found, err := p.executes.Glance(ctx, execute.Look{
		NodeID: p.cluster.Self().NodeID, Classes: p.cfg.Classes,
		From: now.Add(-p.cfg.MisfireAfter), Until: now.Add(-grace), Now: now.Add(p.lookAhead()), Since: p.lastChange,
	})
	if err != nil {
		return err
	}
	if err := p.tidy(ctx, found); err != nil {
		return err
	}
	claiming, err := p.followSwitches(ctx, found)
	if err != nil {
		return err
	}
	if err := p.HandBackDoubts(ctx); err != nil || !claiming { // a node that is off has things to give back, too
		return err
	}
	if found.New {
		err = p.addToPlan(ctx, p.entryForNew(now, time.Time{}), func() ([]*execute.Execute, error) { return p.executes.New(ctx, p.cfg.Classes, maxSwept) })
	}
	if err == nil && found.ChangedAt().After(p.lastChange) {
		err = p.planChanged(ctx, now, found.ChangedAt())
	}
	if err == nil && found.Overdue && p.pool.Free() > 0 && !p.behind() {
		p.uneasy = now.Add(uneasyFor)
		err = p.addToPlan(ctx, p.entryFor, func() ([]*execute.Execute, error) {
			rows, err := p.executes.Overdue(ctx, execute.Executing, p.withRoom(), now.Add(-p.cfg.MisfireAfter), now.Add(-grace), maxSwept)
			return slices.DeleteFunc(p.ownFirst(rows), p.nextLooks(now)), err
		})
	}
	if err == nil && found.Pending {
		p.signals.swept.Store(p.manyNodes())
		p.Look(now)
	}
	return err
}

// behind tells whether what this node means to claim is overdue itself. It then leaves alone what others left lying: they
// are as busy as it is, and would race it for every fire. Those of a node that died are planned by the first poll that
// knows.
func (p *Poller) behind() bool {
	early, exact := p.plan.earliest(p.hasRoom)
	overdue := p.cluster.Now().Add(-grace)
	return !early.IsZero() && early.Before(overdue) || !exact.IsZero() && exact.Before(overdue)
}

// ownFirst leaves out what other nodes left lying if this node owns about as much of all that is overdue as each of them: then it is the
// database that is behind, or all of them. They would race for every fire, which starts less: claims fail, what they were to claim is
// forgotten, and found here by all of them.
func (p *Poller) ownFirst(rows []*execute.Execute) []*execute.Execute {
	var own []*execute.Execute
	for _, e := range rows {
		if p.cluster.Rank(e.Class, e.ID) == 0 {
			own = append(own, e)
		}
	}
	ids, stuck := map[int64]bool{}, true
	for _, e := range own {
		ids[e.ID] = true
		stuck = stuck && p.ownBefore[e.ID] // it has not been claimed since the last sweep: another transaction holds its row, say
	}
	p.ownBefore = ids
	if _, of := p.cluster.Position(); 2*of*len(own) < len(rows) || stuck {
		return rows
	}
	return own
}

// tidy writes what programs of version 1.3 and people in a SQL client leave out.
func (p *Poller) tidy(ctx context.Context, found execute.Glance) error {
	if found.WithoutApp {
		if err := p.executes.Adopt(ctx); err != nil {
			return err
		}
	}
	if found.Paused {
		return p.executes.MarkPaused(ctx)
	}
	return nil
}

// followSwitches acts on a switch that was thrown, and tells whether this node may claim. The claim itself
// checks the switches too; this is what makes a node notice that it is off, and back.
func (p *Poller) followSwitches(ctx context.Context, found execute.Glance) (claiming bool, err error) {
	if appOn, nodeOn := p.cluster.Switches(); appOn != found.AppOn || nodeOn != found.NodeOn {
		if err := p.cluster.Refresh(ctx); err != nil {
			return false, err
		}
		appOn, nodeOn = p.cluster.Switches()
		p.cfg.Log.Info().Bool("app", appOn).Bool("node", nodeOn).Msg("switched")
	}
	if p.cluster.PassingOver() {
		return false, p.passOverTimesOff(ctx)
	}
	if !p.cluster.Claiming() {
		p.plan.clear()
		p.launcher.giveUp(p.launcher.giveBack())
		return false, nil
	}
	return true, nil
}

// passOverTimesOff passes over what was due while this node, and every other that could have run it, was switched
// off; what was due before, and was not claimed in time, is for its misfire policy. Only then does the node claim again.
func (p *Poller) passOverTimesOff(ctx context.Context) error {
	p.plan.clear()
	for _, class := range p.cfg.Classes {
		for _, off := range p.cluster.TimesOff(class) {
			if done, err := p.passOver(ctx, class, off); err != nil || !done {
				return err // the next sweep tries again
			}
		}
	}
	if err := p.cluster.PassedOver(ctx); err != nil {
		return err
	}
	signal(p.poll)
	return nil
}

// unseenOff is the message of fires that are passed over though no node can say that they were due in a time off.
const unseenOff = "passed over: the app, or its nodes, may have been on in between, but no node has seen it"

// passOver moves the executes of a class on whose fires lie in a time off, and those that have come so far by their
// misfire policy. It is not done if another goroutine does it already.
func (p *Poller) passOver(ctx context.Context, class string, off node.TimeOff) (done bool, err error) {
	for {
		rows, err := p.executes.Overdue(ctx, execute.Executing, []string{class}, time.UnixMilli(1), off.Until.Add(-time.Millisecond), maxSwept)
		if err != nil || len(rows) == 0 {
			return err == nil, err
		}
		moves := make([]execute.Move, len(rows))
		for i, e := range rows {
			switch {
			case e.Problem != nil:
				moves[i] = e.ErrorMove()
			case e.Next.Before(off.From):
				moves[i] = e.MisfireMove(off.From.Add(-time.Millisecond))
			case e.Next.Before(off.Seen):
				moves[i] = e.MoveTo(off.Seen)
			default:
				moves[i] = e.PassOverMove(off.Until.Add(-time.Millisecond), unseenOff)
			}
		}
		applied, err := p.executes.Move(ctx, p.cluster.Self(), execute.Executing, moves)
		p.cfg.Skipped(applied.Skipped)
		p.report(applied.Refused)
		if err != nil || len(applied.Moved) == 0 {
			return false, err
		}
	}
}

// planChanged plans the executes of ours that were added or changed by SQL and fire before the next poll would see them.
func (p *Poller) planChanged(ctx context.Context, now, changedAt time.Time) error {
	since := p.lastChange
	if since.IsZero() {
		since = now.Add(-p.cfg.MisfireAfter) // what was changed before, the first poll has read
	}
	err := p.addToPlan(ctx, p.entryForNew(now, p.lookedBefore(now)), func() ([]*execute.Execute, error) {
		return p.executes.Changed(ctx, since, now.Add(-p.cfg.MisfireAfter), p.horizon(now), maxSwept)
	})
	if err == nil {
		p.lastChange = earlier(changedAt, now) // a row may say that it will be changed in 2038
	}
	return err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// addToPlan adds to the plan what read returns.
func (p *Poller) addToPlan(ctx context.Context, entryFor func(*execute.Execute) *entry, read func() ([]*execute.Execute, error)) error {
	mark := p.plan.mark()
	rows, err := read()
	if err != nil {
		return err
	}
	var ours []*execute.Execute
	for _, e := range rows {
		if p.handles(e.Class) {
			ours = append(ours, e)
		}
	}
	ready, err := p.prepare(ctx, ours, entryFor)
	p.plan.add(ready, mark)
	signal(p.wake)
	return err
}

// withRoom are the classes of which this node can start a run, as far as their limits say.
func (p *Poller) withRoom() (classes []string) {
	for _, class := range p.cfg.Classes {
		if p.hasRoom(class) {
			classes = append(classes, class)
		}
	}
	return classes
}
