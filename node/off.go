package node

import (
	"slices"
	"time"
)

// What is off is decided by the switches alone, never by who is thought to be alive: what a node that is switched on
// should have run is owed, and late, though the node be dead and all others off.

// switchedOn tells whether a node's own switch is on, whatever its app's says.
func (n *Node) switchedOn() bool { return n.On || n.StoppedByApp }

func (n *Node) handles(class string) bool {
	_, ok := slices.BinarySearch(n.Classes, class)
	return ok
}

// ClassesOff lists the classes of all nodes while the app is off, else those that only nodes handle that are off.
func (v *View) ClassesOff() []string {
	off := v.classes(func(n *Node) bool { return !v.AppOn || !n.switchedOn() })
	if !v.AppOn {
		return off
	}
	on := v.classes((*Node).switchedOn)
	return slices.DeleteFunc(off, func(class string) bool {
		_, ok := slices.BinarySearch(on, class)
		return ok
	})
}

// OffSince is since when a class that is off has been: what was due before could have been claimed, and is owed.
func (v *View) OffSince(class string) (since time.Time) {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		switch {
		case !n.handles(class):
		case !v.AppOn && n.switchedOn():
			return v.appOffSince()
		default:
			since = later(since, v.offSince(n))
		}
	}
	return since
}

// Resuming tells whether this node is on again but has not yet passed over what was due while it was off, and from when on
// fires count again.
func (v *View) Resuming() (since time.Time, ok bool) {
	if !v.AppOn || !v.Me.On || v.Me.OffSince.IsZero() {
		return time.Time{}, false
	}
	return later(v.Me.OffSince, later(v.Me.SwitchedAt, v.AppSwitchedAt)), true
}

// PassesOver is the span whose fires of a class this node, when it resumes, passes over: the time in which the app was off,
// or that in which all nodes that handle the class were, to Resuming's time. It may be empty.
func (v *View) PassesOver(class string) (from, until time.Time) {
	appFrom, appUntil := v.Me.AppOffSince, v.AppSwitchedAt
	from, ok := v.nodesOffSince(class)
	switch {
	case !ok && appFrom.IsZero():
		return time.Time{}, time.Time{}
	case !ok:
		return appFrom, appUntil
	case !appFrom.IsZero() && appFrom.Before(from):
		from = appFrom
	}
	until, _ = v.Resuming()
	return from, until
}

// nodesOffSince is since when this node and all others that handle a class have been off; false if one was on meanwhile.
func (v *View) nodesOffSince(class string) (since time.Time, ok bool) {
	since = v.Me.OffSince
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.HostIP == v.Me.HostIP || !n.handles(class) {
			continue
		}
		if n.switchedOn() && n.OffSince.IsZero() {
			return time.Time{}, false
		}
		since = later(since, v.offSince(n))
	}
	return since, true
}

// offUnnoted tells whether this node has yet to note that it, or its app, is off.
func (v *View) offUnnoted() bool {
	return (!v.AppOn || !v.Me.On) && v.Me.OffSince.IsZero() || !v.AppOn && v.Me.AppOffSince.IsZero()
}

// appOffSince is since when the app is off; zero if it is on.
func (v *View) appOffSince() time.Time {
	if v.AppOn {
		return time.Time{}
	}
	return orBeginning(v.AppSwitchedAt)
}

// offSince is since when a node is off, or was, if it has not resumed yet.
func (v *View) offSince(n *Node) time.Time {
	if n.OffSince.IsZero() {
		return v.switchedOff(n)
	}
	return n.OffSince
}

// switchedOff is when a node that is off went off by its switch or the app's, whichever was first.
func (v *View) switchedOff(n *Node) time.Time {
	since := v.At
	if !v.AppOn {
		since = v.AppSwitchedAt
	}
	if !n.switchedOn() && n.SwitchedAt.Before(since) {
		since = n.SwitchedAt
	}
	return orBeginning(since)
}

// orBeginning is the time of a switch; one that has never changed has been off from the beginning.
func orBeginning(switched time.Time) time.Time { return later(switched, time.UnixMilli(1)) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
