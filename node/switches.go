package node

import (
	"cmp"
	"slices"
	"time"
)

// Only the switches decide what is off, never who is thought to be alive: as long as one node that handles a class is
// switched on, its fires are owed, even if that node is dead and all others are off.

// switchedOn tells whether a node's own switch is on, whatever its app's says.
func (n *Node) switchedOn() bool { return n.On || n.StoppedByApp }

// passedOver tells whether a node has passed over what was due while it, or its app, was off.
func (n *Node) passedOver() bool { return n.OffSince.IsZero() && n.AppOffSince.IsZero() }

func (n *Node) handles(class string) bool {
	_, ok := slices.BinarySearch(n.Classes, class)
	return ok
}

// ClassesOff lists the classes of all nodes while the app is off, else those that only nodes handle that are off.
func (v *View) ClassesOff() []string {
	if !v.AppOn {
		return v.classes(func(*Node) bool { return true })
	}
	off := v.classes(func(n *Node) bool { return !n.switchedOn() })
	on := v.classes((*Node).switchedOn)
	return slices.DeleteFunc(off, func(class string) bool {
		_, ok := slices.BinarySearch(on, class)
		return ok
	})
}

// OffSince is since when a class that is off has been: what was due before could have been claimed, and is owed.
func (v *View) OffSince(class string) time.Time {
	nodes := v.nodesOff(class)
	if v.AppOn || nodes.lasts() && nodes.From.Before(v.appOffSince()) {
		return nodes.From
	}
	return v.appOffSince()
}

// PassingOver tells whether this node is on again but has not yet passed over what was due while it was off.
func (v *View) PassingOver() bool { return v.AppOn && v.Me.On && !v.Me.passedOver() }

// TimeOff is a time in which something was off. From From until Seen it was so for certain. Seen is Until, unless for longer
// than nodes go without looking no node saw it before it was switched on for good: then it may have been on and off again in
// between, of which the switch tells nothing.
type TimeOff struct{ From, Seen, Until time.Time }

func (o TimeOff) lasts() bool { return o.From.Before(o.Until) }

// TimesOff are the times, in order, whose fires of a class this node passes over when it is on again: that in which the app
// was off, and that in which all nodes that handle the class were.
func (v *View) TimesOff(class string) []TimeOff {
	var times []TimeOff
	if !v.Me.AppOffSince.IsZero() {
		times = append(times, v.appWasOff())
	}
	if nodes := v.nodesOff(class); !v.Me.OffSince.IsZero() && nodes.lasts() {
		times = append(times, nodes)
	}
	slices.SortFunc(times, func(a, b TimeOff) int { return cmp.Or(a.From.Compare(b.From), a.Until.Compare(b.Until)) })
	return times
}

// appWasOff is the time in which the app was off, as this node and every other that noted the same switch have seen it.
func (v *View) appWasOff() TimeOff {
	seen := v.Me.AppOffSeenAt
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.AppOffSince.Equal(v.Me.AppOffSince) {
			seen = later(seen, n.AppOffSeenAt)
		}
	}
	return v.timeOff(v.Me.AppOffSince, seen, v.AppSwitchedAt)
}

// nodesOff is the latest time in which all nodes that handle a class were switched off, by their own switches. It ends now
// if they still are.
func (v *View) nodesOff(class string) TimeOff {
	all := TimeOff{time.UnixMilli(1), v.At, v.At}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if !n.handles(class) {
			continue
		}
		off := v.ownOff(n)
		all.From = later(all.From, off.From)
		all.Seen = earlier(all.Seen, off.Seen)
		all.Until = earlier(all.Until, off.Until)
	}
	all.Seen = later(all.Seen, all.From)
	return all
}

// ownOff is the time in which a node is off by its own switch, or was, if it has not yet passed over it. It is empty for one
// that was not.
func (v *View) ownOff(n *Node) TimeOff {
	switch {
	case !n.switchedOn():
		return TimeOff{orBeginning(n.SwitchedAt), v.At, v.At}
	case n.OffSince.IsZero():
		return TimeOff{}
	default:
		return v.timeOff(n.OffSince, n.OffSeenAt, n.SwitchedAt)
	}
}

// timeOff ends now, at the latest: a switch that was thrown in the future was thrown before the database's clock was set back.
func (v *View) timeOff(from, seen, until time.Time) TimeOff {
	until = earlier(until, v.At)
	if until.Sub(seen) <= v.fresh {
		seen = until
	}
	return TimeOff{from, later(from, seen), until}
}

// seenOff is what a node notes of a switch that it sees off: since when it is, and when it was seen.
type seenOff struct{ since, at time.Time }

func (s seenOff) sees() bool { return !s.at.IsZero() }

// sawOff tells what this node sees of its own switch and of its app's; zero for what is on. What was switched since it was
// noted has been on meanwhile, though this node did not see it: it is off since the later switch, and what was due before is owed.
func (v *View) sawOff() (own, app seenOff) {
	if !v.Me.switchedOn() {
		own = seenOff{later(orBeginning(v.Me.SwitchedAt), v.Me.OffSince), v.At}
	}
	if !v.AppOn {
		app = seenOff{later(v.appOffSince(), v.Me.AppOffSince), v.At}
	}
	return own, app
}

// appOffSince is when the app was switched off, if it is.
func (v *View) appOffSince() time.Time { return orBeginning(v.AppSwitchedAt) }

// orBeginning is the time of a switch; one that has never changed has been off from the beginning.
func orBeginning(switched time.Time) time.Time { return later(switched, time.UnixMilli(1)) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
