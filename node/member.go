// Package node is this process in the cluster: its id, its heartbeat, the nodes it sees, which of them
// should claim what, and the cluster's time. Not part of qrtz's API.
package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/schema"
)

// Config is what a Member needs to know.
type Config struct {
	ID        string           // empty: this machine's address, with #2, #3 … for further processes on it
	Classes   []string         // that this process has handlers for
	Version   string           // shown in QRTZ_NODE
	BeatEvery time.Duration    // between heartbeats
	Timeout   time.Duration    // a node is dead when it has been silent for longer
	Wall      func() time.Time // this machine's clock
	Log       zerolog.Logger

	// OnFenced is called when this process can no longer hold its runs: its row went to another process, or
	// its heartbeat is about to expire. It must cancel them before it returns. What was claimed before the
	// call may be running elsewhere after it.
	OnFenced func(cause error)

	// BeforeRejoin is called before a fenced instance leaves its row and joins again, as soon as the database answers.
	// While no other process has taken the row, results of the old instance still count, and what it never started can
	// be handed back. It is tried for as long as Timeout; then the process joins all the same.
	BeforeRejoin func(ctx context.Context) error
}

// ErrFenced is the cause with which the runs of an instance end that had to give them up.
var ErrFenced = errors.New("this node has lost its place in the cluster")

// Instance is one life of a node, from joining the cluster to leaving it.
type Instance struct {
	NodeID, HostName string
	ID               int64
}

// Member is this process in the cluster. It is on its feet from Join until Leave.
type Member struct {
	store *Store
	heart *Store // for the heartbeat, and nothing that waits for a lock
	clock *Clock
	cfg   Config
	watch *watch

	elapsed func() time.Duration // a clock that counts the time in which the machine was suspended

	beating  sync.Mutex // one beat at a time
	fencing  sync.Mutex // one call of OnFenced at a time
	tidying  sync.Mutex // one at a time; guards switches
	switches *outage.Pacer
	sent     chan struct{} // a heartbeat has been sent, and is to be shown in QRTZ_NODE

	mu       sync.Mutex
	self     Instance
	view     View
	reads    int64         // how many reads of the cluster have begun
	viewed   int64         // the read that view is from
	beats    int64         // BEATS of the latest heartbeat
	lease    time.Duration // by elapsed: when the last heartbeat that arrived was sent
	fenced   bool          // OnFenced has been called for this instance
	fencedAt time.Duration // by elapsed
}

// NewMember returns a member that has yet to Join. Heart is the pool that its heartbeats go by: it should have a connection
// that nothing else can take.
func NewMember(db, heart *sqlx.DB, prefix schema.Prefix, app string, clock *Clock, cfg Config) *Member {
	return &Member{
		store: NewStore(db, prefix, app), heart: NewStore(heart, prefix, app), clock: clock, cfg: cfg, elapsed: clock.elapsed,
		watch:    &watch{every: cfg.BeatEvery, timeout: cfg.Timeout},
		switches: outage.New(cfg.Log, "bring switches in line"), sent: make(chan struct{}, 1),
	}
}

// takeTimeout is for the statements that take a node id.
const takeTimeout = 5 * time.Second

// take makes this process the holder of a node id.
func (m *Member) take(ctx context.Context, id string, holder Node, me identity) (bool, error) {
	self := Instance{NodeID: id, HostName: hostName(), ID: rand.Int64()}
	instances.Store(self.ID, true) // before others of this process can read the row, and take it for a dead one's
	if ctx.Err() != nil {
		return false, fmt.Errorf("join: %w", context.Cause(ctx))
	}
	// Once begun it is finished: no process would know of a row that was taken by a call that was cut off.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeTimeout)
	defer cancel()
	sent := m.elapsed()
	taken, err := m.store.Take(whole, process{
		nodeID: id, isNew: holder.ID == "", hostName: self.HostName, identity: me, classes: m.cfg.Classes, version: m.cfg.Version, skew: m.clock.Skew(),
	}, holder.Instance, self.ID)
	if err != nil || !taken {
		instances.Delete(self.ID)
		return false, err
	}
	m.mu.Lock()
	if m.self.ID != 0 {
		instances.Delete(m.self.ID)
	}
	m.self, m.lease, m.beats, m.fenced = self, sent, firstBeat, false
	m.mu.Unlock()
	return true, m.Refresh(ctx)
}

// Leave takes this process out of the cluster, so that others need not wait for its heartbeat to expire.
func (m *Member) Leave(ctx context.Context) error {
	self := m.Self()
	defer instances.Delete(self.ID)
	return m.store.Leave(ctx, self.NodeID, self.ID)
}

// Refresh reads the cluster: switches, nodes, and whether this instance still holds its row. It also writes: it brings this
// node's switch in line with the app's if they differ, and notes since when they are off. If a lock keeps it from writing, the
// next call does.
func (m *Member) Refresh(ctx context.Context) error {
	v, err := m.read(ctx, m.store)
	if err != nil {
		return err
	}
	m.tidying.Lock()
	defer m.tidying.Unlock()
	return m.follow(ctx, v)
}

// follow does what Refresh does beside reading, and reads again what it has written.
func (m *Member) follow(ctx context.Context, v View) error {
	wrote, err := m.tidy(ctx, v)
	if !wrote {
		return err
	}
	_, again := m.read(ctx, m.store)
	return m.unlessLocked(ctx, errors.Join(err, again))
}

// tidy writes what Refresh writes, and tells whether that was anything.
func (m *Member) tidy(ctx context.Context, v View) (wrote bool, err error) {
	if v.Me.StoppedByApp && v.AppOn || v.Me.On && !v.AppOn {
		wrote = true
		if err := m.sync(ctx, v); err != nil {
			return true, err
		}
		if v, err = m.read(ctx, m.store); err != nil {
			return true, err
		}
	}
	if own, app := v.sawOff(); v.Me.Instance != 0 && (own.sees() || app.sees()) {
		wrote = true
		err = m.store.SawOff(ctx, v.Me.ID, v.Me.Instance, own, app)
	}
	return wrote, err
}

// syncFor is how long bringing switches in line may take at a time: each row that is locked costs a lock wait.
const syncFor = 2 * time.Second

// SyncSwitches brings the switches of all nodes in line with their app's, and notes in this process's view that it did. What
// a lock keeps it from is left to the next time.
func (m *Member) SyncSwitches(ctx context.Context) error {
	if err := m.Refresh(ctx); err != nil {
		return err
	}
	if v := m.View(); !v.SwitchesDiffer() {
		return nil
	}
	m.tidying.Lock()
	defer m.tidying.Unlock()
	return m.unlessLocked(ctx, m.sync(ctx, m.View()))
}

func (m *Member) sync(ctx context.Context, v View) error {
	ctx, cancel := context.WithTimeout(ctx, syncFor)
	defer cancel()
	return m.store.SyncSwitches(ctx, &v)
}

// unlessLocked logs that a row is locked, once until it no longer is, and makes that no error.
func (m *Member) unlessLocked(ctx context.Context, err error) error {
	if err != nil && !waitsForLock(ctx, err) {
		return err
	}
	m.switches.Note("", err)
	return nil
}

// waitsForLock tells whether a statement failed because others held a row, while ctx itself has not ended.
func waitsForLock(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (schema.Retryable(err) || errors.Is(err, context.DeadlineExceeded))
}

// read reads the cluster by one of the two stores, and keeps it as the view. A view never replaces one whose reading began
// later.
func (m *Member) read(ctx context.Context, by *Store) (View, error) {
	m.mu.Lock()
	m.reads++
	number := m.reads
	m.mu.Unlock()
	v, err := by.Read(ctx)
	if err != nil {
		return View{}, err
	}
	v.timeout, v.fresh = m.cfg.Timeout, m.cfg.BeatEvery*3/2
	m.watch.look(m.clock.moment(), v.At, v.Nodes)
	m.mu.Lock()
	defer m.mu.Unlock()
	if me, ok := find(v, m.self.NodeID); ok && me.Instance == m.self.ID && me.Instance != 0 {
		me.silent, me.watched, me.doubted = 0, 0, false // its lease tells (Holds)
		v.Me = me
	}
	if number > m.viewed {
		m.view, m.viewed = v, number
	}
	return v, nil
}

// find looks a node up by its id.
func find(v View, nodeID string) (Node, bool) {
	for _, n := range v.Nodes {
		if sameID(n.ID, nodeID) {
			return n, true
		}
	}
	return Node{}, false
}

// sameID tells whether two ids are one to the server: such that differ in case, or in spaces at their end, are.
func sameID(a, b string) bool {
	return strings.EqualFold(strings.TrimRight(a, " "), strings.TrimRight(b, " "))
}

// PassedOver notes that what was due while this node was off has been passed over.
func (m *Member) PassedOver(ctx context.Context) error {
	self := m.Self()
	if err := m.store.PassedOver(ctx, self.NodeID, self.ID); err != nil {
		return err
	}
	return m.Refresh(ctx)
}

// Self is who this process is at the moment. It changes when it had to join again.
func (m *Member) Self() Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.self
}

// SwitchedOn asks the database whether this node and its app are switched on.
func (m *Member) SwitchedOn(ctx context.Context) (bool, error) {
	return m.store.SwitchedOn(ctx, m.Self())
}

// View is the cluster as last seen.
func (m *Member) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// buryFor is how long burying may take at a time: each row that is locked costs a lock wait.
const buryFor = 10 * time.Second

// Bury declares the nodes dead that this process has watched for all of Timeout without seeing a heartbeat, and returns them. A
// node whose row is locked is left to the next time, and keeps no other from being buried. A member that has no
// lease buries no node. It also cleans up what dead instances have left in QRTZ_HEARTBEAT.
func (m *Member) Bury(ctx context.Context) ([]Node, error) {
	v, err := m.read(ctx, m.store)
	if err != nil || !m.Holds(v.Me.Instance) {
		return nil, err
	}
	var dead []Node
	var failed []error
	began, first := time.Now(), rand.IntN(len(v.Nodes)) // another each time, should there not be time for all
	for i := range v.Nodes {
		n := &v.Nodes[(first+i)%len(v.Nodes)]
		if !v.dead(n) || n.ID == v.Me.ID || time.Since(began) > buryFor {
			continue
		}
		buried, err := m.store.Bury(ctx, n)
		if buried {
			dead = append(dead, *n)
		}
		failed = append(failed, err)
	}
	failed = append(failed, m.store.CleanBeats(ctx))
	if err := errors.Join(failed...); err != nil && !waitsForLock(ctx, err) {
		return dead, err
	} else if err != nil {
		m.cfg.Log.Warn().Err(err).Msg("left to the next pass: another transaction holds a lock")
	}
	return dead, nil
}
