package node

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// What is off is decided by the switches alone, never by who is thought to be alive: what a node that is switched on
// should have run is owed, and late, though the node be dead and all others off.

// switchedOn tells whether a node's own switch is on, whatever its app's says.
func (n *Node) switchedOn() bool { return n.On || n.StoppedByApp }

// resumed tells whether a node has passed over what was due while it, or its app, was off.
func (n *Node) resumed() bool { return n.OffSince.IsZero() && n.AppOffSince.IsZero() }

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
	if v.AppOn || nodes.lasts() && nodes.from.Before(v.appOffSince()) {
		return nodes.from
	}
	return v.appOffSince()
}

// Resuming tells whether this node is on again but has not yet passed over what was due while it was off.
func (v *View) Resuming() bool { return v.AppOn && v.Me.On && !v.Me.resumed() }

// PassesOver are the spans, in order, whose fires of a class this node passes over when it resumes: the time in which the
// app was off, and that in which all nodes that handle the class were.
func (v *View) PassesOver(class string) iter.Seq2[time.Time, time.Time] {
	var spans []offSpan
	if !v.Me.AppOffSince.IsZero() {
		spans = append(spans, offSpan{v.Me.AppOffSince, v.AppSwitchedAt})
	}
	if nodes := v.nodesOff(class); !v.Me.OffSince.IsZero() && nodes.lasts() {
		spans = append(spans, nodes)
	}
	slices.SortFunc(spans, func(a, b offSpan) int { return cmp.Or(a.from.Compare(b.from), a.until.Compare(b.until)) })
	return func(yield func(from, until time.Time) bool) {
		for _, s := range spans {
			if !yield(s.from, s.until) {
				return
			}
		}
	}
}

// offSpan is a span of time in which something was off.
type offSpan struct{ from, until time.Time }

func (s offSpan) lasts() bool { return s.from.Before(s.until) }

// nodesOff is the latest span in which all nodes that handle a class were switched off, by their own switches. It ends now
// if they still are.
func (v *View) nodesOff(class string) offSpan {
	all := offSpan{time.UnixMilli(1), v.At}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if !n.handles(class) {
			continue
		}
		off := v.ownOff(n)
		all.from = later(all.from, off.from)
		if off.until.Before(all.until) {
			all.until = off.until
		}
	}
	return all
}

// ownOff is the span in which a node is off by its own switch, or was, if it has not yet resumed. It is empty for one
// that was not.
func (v *View) ownOff(n *Node) offSpan {
	switch {
	case n.switchedOn() && n.OffSince.IsZero():
		return offSpan{}
	case n.switchedOn():
		return offSpan{n.OffSince, n.SwitchedAt}
	case n.OffSince.IsZero():
		return offSpan{orBeginning(n.SwitchedAt), v.At}
	default:
		return offSpan{n.OffSince, v.At}
	}
}

// offUnnoted tells since when this node, and since when its app, is off; zero for what is on, or noted already. What was
// switched since it was noted has been on meanwhile, though nobody here saw it: what was due then is owed.
func (v *View) offUnnoted() (own, app time.Time) {
	if since := orBeginning(v.Me.SwitchedAt); !v.Me.switchedOn() && since.After(v.Me.OffSince) {
		own = since
	}
	if since := v.appOffSince(); !v.AppOn && since.After(v.Me.AppOffSince) {
		app = since
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
