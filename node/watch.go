package node

import (
	"sync"
	"time"
)

// pulse is what changes with each heartbeat of an instance: BEATS of its row in QRTZ_HEARTBEAT, or, of a program that does not
// know that table, HEARTBEAT_AT.
type pulse struct {
	count int64
	row   bool // it has a row in QRTZ_HEARTBEAT
}

// life is an instance as a node's row names it. A heartbeat without a node has no name.
type life struct {
	nodeID   string
	instance int64
}

// watch judges who is alive by what this process sees itself: when it saw a heartbeat change, by its own monotonic clock.
// No clock of another machine, nor the database's, has a part in it.
type watch struct {
	every   time.Duration // between heartbeats
	timeout time.Duration // an instance that is silent for so long is dead

	mu   sync.Mutex
	last time.Time // when the cluster was last read
	seen map[life]*sighting
}

// sighting is what has been seen of one instance.
type sighting struct {
	pulse  pulse
	since  time.Time // from when on it has been watched without a change, and without a gap in the watching
	beat   time.Time // when it can have sent its last heartbeat, at the latest; zero: no telling
	beaten bool      // it has been seen to send a heartbeat
}

// clockSlack is how far in the future a heartbeat may be that is seen for the first time: the servers of a Galera cluster
// have a clock each.
const clockSlack = 2 * time.Second

// look notes what has just been read, at a moment by the monotonic clock, and says of each node how long it has been silent.
// A watcher that was itself cut off, and is back, begins to watch again: after an outage every heartbeat is old.
func (w *watch) look(at time.Time, database time.Time, nodes []Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.last
	cutOff := at.Sub(before) > 2*w.every
	w.last = at
	seen := make(map[life]*sighting, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		if n.Instance == 0 {
			continue
		}
		key := life{n.ID, n.Instance}
		s := w.seen[key]
		switch {
		case s == nil:
			s = &sighting{pulse: n.pulse, since: at, beat: w.firstSight(at, database.Sub(n.Heartbeat))}
		case s.pulse != n.pulse && (n.pulse.row || !s.pulse.row): // to lose the row is no sign of life
			age := max(0, min(database.Sub(n.Heartbeat), at.Sub(before)))
			*s = sighting{pulse: n.pulse, since: at, beat: at.Add(-age), beaten: true}
		case cutOff:
			s.since = at
		}
		seen[key] = s
		n.silent, n.watched, n.beaten, n.doubted = at.Sub(s.beat), at.Sub(s.since), s.beaten, s.beat.IsZero()
	}
	w.seen = seen
}

// firstSight is when an instance sent its last heartbeat that is seen for the first time, and has written when it did. What
// it wrote is believed if it is plausible; the zero time says that the instance must be seen to send one.
func (w *watch) firstSight(at time.Time, age time.Duration) time.Time {
	if age < -clockSlack || age > w.timeout {
		return time.Time{}
	}
	return at.Add(-max(0, age))
}
