package qrtztest

import "github.com/qrtz-go/qrtz"

// Held are the runs of a class that wait. They are RUNNING while time passes.
type Held struct {
	kit      *Kit
	class    string
	returned bool
}

// Hold has the runs of a class that start from now on wait before their handler is called, as if it took long: so that Advance shows
// what becomes of the next fires of the job meanwhile, and Kill what becomes of the run. It is over with Release, and for new runs also
// with a node that takes this one's place.
func (k *Kit) Hold(class string) *Held { return k.hold(class, false) }

// HoldResult has the runs of a class that start from now on wait after their handler has returned, before its result is written. A node
// that dies then (Kill) has done the work, and the tables do not know.
func (k *Kit) HoldResult(class string) *Held { return k.hold(class, true) }

func (k *Kit) hold(class string, returned bool) *Held {
	k.node.Hold(class, returned)
	return &Held{k, class, returned}
}

// Runs are the runs that wait, in the order in which they began to.
func (h *Held) Runs() (runs []*qrtz.Run) {
	for _, n := range h.kit.all() {
		runs = append(runs, n.Held(h.class, h.returned)...)
	}
	return runs
}

// Release lets the runs that wait continue, one after the other, and runs of the class that start later are not held. It returns what
// ended with that, and what else ran, since it was due.
func (h *Held) Release() []qrtz.Event {
	h.kit.tb.Helper()
	before := len(h.kit.told)
	for _, n := range h.kit.all() {
		told, err := n.Release(h.kit.tb.Context(), h.class, h.returned)
		h.kit.told = append(h.kit.told, told...)
		h.kit.check(err)
	}
	h.kit.Advance(0)
	return h.kit.since(before)
}

// all are the nodes on which runs may wait.
func (k *Kit) all() []*qrtz.Manual { return append(k.frozen[:len(k.frozen):len(k.frozen)], k.node) }
