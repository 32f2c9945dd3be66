package node

import (
	"hash/fnv"
	"slices"
	"time"
)

// Node is a row of QRTZ_NODE.
type Node struct {
	ID           string // its node id: HOST_IP
	HostName     string
	On           bool      // its own switch
	StoppedByApp bool      // off because the app is, not by an operator
	Instance     int64     // 0: left the cluster, or was declared dead
	Heartbeat    time.Time // as it says by the database's clock, for people; zero: never, or left
	SwitchedAt   time.Time // when a person last changed its row by SQL
	OffSince     time.Time // when it was switched off, if it has seen that and not yet passed over what was due; zero otherwise
	OffSeenAt    time.Time // when it last saw itself off; zero: never, or it has passed over
	AppOffSince  time.Time // when its app was switched off, likewise
	AppOffSeenAt time.Time // when it last saw its app off
	Classes      []string  // it has handlers for, sorted

	seed    uint64 // of its rank
	process identity
	pulse   pulse

	// What the reader of the view has seen of it (watch): for how long it has sent no heartbeat; for how long it has been watched
	// without one, and without a gap; whether it has been seen to send one; and whether it has not, and says what cannot be
	// true of its last one.
	silent, watched time.Duration
	beaten, doubted bool
}

// View is the cluster as one heartbeat saw it. It is never changed.
type View struct {
	At            time.Time // by the database's clock
	AppOn         bool
	AppSwitchedAt time.Time
	Nodes         []Node // all nodes of the app, dead ones included
	Me            Node   // this node; the zero Node if its row is no longer this instance's

	timeout time.Duration // a node is dead when it has been silent for longer
	fresh   time.Duration // a node is not made owner when it has been silent for longer
}

// alive tells whether a node counts as alive. One that was never seen to send a heartbeat, and that says nonsense of its last
// one, does not; that it is dead is not said with it (dead).
func (v *View) alive(n *Node) bool {
	return n.Instance != 0 && !n.doubted && n.watched <= v.timeout
}

// dead tells whether a node's instance has held no lease for certain: this process has watched it for all of the
// timeout and has seen no heartbeat.
func (v *View) dead(n *Node) bool { return n.Instance != 0 && n.watched > v.timeout }

// Others tells whether the app has other instances, of which none has left and none was declared dead.
func (v *View) Others() bool {
	return slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.ID != v.Me.ID && n.Instance != 0 })
}

// claims tells whether a node may claim: it is alive, on, and has passed over what was due while it was off.
func (v *View) claims(n *Node) bool {
	return v.AppOn && n.On && n.passedOver() && v.alive(n)
}

// Claiming tells whether this node may claim.
func (v *View) Claiming() bool { return v.claims(&v.Me) }

// SwitchesDiffer tells whether the switch of some node does not say what the app's does (Store.SyncSwitches).
func (v *View) SwitchesDiffer() bool {
	return slices.ContainsFunc(v.Nodes, func(n Node) bool {
		return n.On && (!v.AppOn || n.StoppedByApp) || !n.On && n.StoppedByApp && v.AppOn
	})
}

// ClassesClaimed lists the classes that some live node handles and may claim.
func (v *View) ClassesClaimed() []string { return v.classes(v.claims) }

// ClassesHandled lists the classes that some live node handles, on or off.
func (v *View) ClassesHandled() []string { return v.classes(v.alive) }

func (v *View) classes(which func(*Node) bool) []string {
	var classes []string
	for i := range v.Nodes {
		if which(&v.Nodes[i]) {
			classes = append(classes, v.Nodes[i].Classes...)
		}
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// Rank says how many nodes go before this one in claiming an execute or a run of a class; rank 0 is its
// owner. It is a pure function of the id and of the live nodes that handle the class (highest random
// weight), so that nodes that see the same cluster agree, and a node that comes or goes moves only
// what was or becomes its own. It is a hint: two nodes that disagree meet at the guard of the claim.
func (v *View) Rank(class string, id int64) int {
	_, rank := v.Turn(class, id)
	return rank
}

// Turn is Rank, and names the owner.
func (v *View) Turn(class string, id int64) (owner string, rank int) {
	mine := weight(v.Me.seed, id)
	owner, most := v.Me.ID, mine
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.ID == v.Me.ID || !v.eligible(n, class) {
			continue
		}
		w := weight(n.seed, id)
		if w > mine {
			rank++
		}
		if w > most {
			owner, most = n.ID, w
		}
	}
	return owner, rank
}

// Alone tells whether no other live node claims.
func (v *View) Alone() bool {
	return !slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.ID != v.Me.ID && v.claims(&n) })
}

// Position says which of the nodes this one is, from 0, that could look for work in its place, and how many they are: they handle
// all its classes, and they claim; if this node may not, they are alive. Nodes of the same classes that see the same cluster have
// different positions.
func (v *View) Position() (position, of int) {
	counts := v.alive
	if v.Claiming() {
		counts = v.claims
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.ID == v.Me.ID {
			position = of
			of++
		} else if counts(n) && n.silent <= v.fresh && !slices.ContainsFunc(v.Me.Classes, func(class string) bool { return !n.handles(class) }) {
			of++
		}
	}
	return position, max(of, 1)
}

// MayOwn returns a test of ids that this node may be the owner of, whatever their class: no node that handles all its
// classes goes before it. It is nil if there is no such node.
func (v *View) MayOwn() func(id int64) bool {
	var rivals []uint64
	for i := range v.Nodes {
		n := &v.Nodes[i]
		lacks := func(class string) bool { return !v.eligible(n, class) }
		if n.ID != v.Me.ID && len(v.Me.Classes) > 0 && !slices.ContainsFunc(v.Me.Classes, lacks) {
			rivals = append(rivals, n.seed)
		}
	}
	if rivals == nil {
		return nil
	}
	return func(id int64) bool {
		mine := weight(v.Me.seed, id)
		return !slices.ContainsFunc(rivals, func(seed uint64) bool { return weight(seed, id) > mine })
	}
}

// eligible leaves out nodes that missed a heartbeat: others take over long before they count as dead.
func (v *View) eligible(n *Node, class string) bool {
	if !v.claims(n) || n.silent > v.fresh {
		return false
	}
	_, ok := slices.BinarySearch(n.Classes, class)
	return ok
}

// weight mixes a node's seed with an id (the finalizer of splitmix64).
func weight(seed uint64, id int64) uint64 {
	x := seed ^ uint64(id)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func seedOf(nodeID string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(nodeID)) // never fails
	return h.Sum64()
}

// Handles tells whether some live node has a handler for a class.
func (v *View) Handles(class string) bool {
	return slices.ContainsFunc(v.Nodes, func(n Node) bool {
		_, ok := slices.BinarySearch(n.Classes, class)
		return ok && v.alive(&n)
	})
}
