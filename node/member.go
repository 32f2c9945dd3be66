// Package node is this process in the cluster: its id, its heartbeat, the nodes it sees, which of them
// should claim what, and the cluster's time.
package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/schema"
)

// Config is what a Member needs to know.
type Config struct {
	ID        string           // empty: this machine's address, with #2, #3 … for further processes on it
	Classes   []string         // that this process has handlers for
	Version   string           // shown in QRTZ_NODE
	BeatEvery time.Duration    // between heartbeats
	Timeout   time.Duration    // a node is dead when its heartbeat is older
	Wall      func() time.Time // this machine's clock
	Log       zerolog.Logger

	// OnFenced is called when this process can no longer hold its runs: its row went to somebody else, or
	// its heartbeat is about to expire. It must cancel them before it returns. What was claimed before the
	// call may be running elsewhere after it.
	OnFenced func(cause error)

	// Settle is called before a fenced instance leaves its row and joins anew, as soon as the database answers.
	// While nobody has taken the row, results of the old instance still count, and what it never started can be
	// handed back.
	Settle func(ctx context.Context) error
}

// ErrFenced is the cause with which the runs of an instance end that had to give them up.
var ErrFenced = errors.New("this node has lost its place in the cluster")

// Identity is who this process is in the cluster at the moment.
type Identity struct {
	HostIP, HostName string
	Instance         int64
}

// Member is this process in the cluster. It is on its feet from Join until Leave.
type Member struct {
	store *Store
	clock *Clock
	cfg   Config

	refreshing sync.Mutex // one at a time, so that an older view never replaces a newer one
	beating    sync.Mutex // one beat at a time
	fencing    sync.Mutex // one call of OnFenced at a time

	mu        sync.Mutex
	self      Identity
	view      View
	lease     time.Time // by the monotonic clock: when the last heartbeat that arrived was sent
	fenced    bool      // OnFenced has been called for this instance
	connected time.Time // since when heartbeats have arrived without a gap
}

// NewMember returns a member that has yet to Join.
func NewMember(db *sqlx.DB, prefix schema.Prefix, app string, clock *Clock, cfg Config) *Member {
	return &Member{store: NewStore(db, prefix, app), clock: clock, cfg: cfg}
}

// Join takes a node id and announces this process. With Config.ID it waits until a former holder's
// heartbeat has expired, and fails if that holder turns out to live.
func (m *Member) Join(ctx context.Context) error {
	if err := m.clock.Measure(ctx); err != nil {
		return err
	}
	if m.cfg.ID != "" {
		return m.joinAs(ctx, m.cfg.ID)
	}
	return m.joinAsAddress(ctx)
}

// joinAsAddress takes the first of address, address#2 … that no live process holds, so that a restarted
// process gets its old id back.
func (m *Member) joinAsAddress(ctx context.Context) error {
	const most = 1000
	base := address()
	for k := range most {
		v, err := m.read(ctx)
		if err != nil {
			return err
		}
		id := candidate(base, k)
		holder, _ := find(v, id)
		if m.held(v, holder) {
			continue
		}
		if taken, err := m.take(ctx, id, holder.Instance); taken || err != nil {
			return err
		}
	}
	return fmt.Errorf("join: all of %s to %s are taken", base, candidate(base, most-1))
}

func (m *Member) joinAs(ctx context.Context, id string) error {
	var waitedFor time.Time
	for {
		v, err := m.read(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("join: %w", context.Cause(ctx))
		}
		if err != nil {
			return err
		}
		holder, _ := find(v, id)
		switch {
		case !m.held(v, holder):
			if taken, err := m.take(ctx, id, holder.Instance); taken || err != nil {
				return err
			}
		case !waitedFor.IsZero() && holder.Heartbeat.After(waitedFor):
			return fmt.Errorf("join: node id %q is held by process %d on %s, which is alive", id, holder.ProcessID, holder.HostName)
		case waitedFor.IsZero():
			waitedFor = holder.Heartbeat
			m.cfg.Log.Info().Str("node", id).Str("holder", holder.HostName).Int("pid", holder.ProcessID).
				Msg("the node id is still held; waiting for its heartbeat to expire")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("join: %w", context.Cause(ctx))
		case <-time.After(m.cfg.BeatEvery / 5):
		}
	}
}

// held tells whether a node id belongs to a live process. A process of this machine that is gone holds
// nothing, however fresh its heartbeat.
func (m *Member) held(v View, holder Node) bool {
	if !v.alive(&holder) {
		return false
	}
	return holder.HostName != hostName() || holder.ProcessID != os.Getpid() && processLives(holder.ProcessID) ||
		holder.ProcessID == os.Getpid() && livesHere(holder.Instance)
}

// instances are those of this process, so that two schedulers in one process get two node ids, and a
// process id that came round again (it is always 1 in a container) is not taken for a live holder.
var instances sync.Map

func livesHere(instance int64) bool {
	_, ok := instances.Load(instance)
	return ok
}

func (m *Member) take(ctx context.Context, id string, previous int64) (bool, error) {
	self := Identity{HostIP: id, HostName: hostName(), Instance: rand.Int64()}
	instances.Store(self.Instance, true) // before others of this process can read the row, and take it for a dead one's
	sent := time.Now()
	taken, err := m.store.Take(ctx, process{
		hostIP: id, hostName: self.HostName, processID: os.Getpid(), classes: m.cfg.Classes, version: m.cfg.Version, skew: m.clock.Skew(),
	}, previous, self.Instance)
	if err != nil || !taken {
		instances.Delete(self.Instance)
		return false, err
	}
	m.mu.Lock()
	if m.self.Instance != 0 {
		instances.Delete(m.self.Instance)
	}
	m.self, m.lease, m.connected, m.fenced = self, sent, sent, false
	m.mu.Unlock()
	return true, m.Refresh(ctx)
}

// Leave takes this process out of the cluster, so that others need not wait for its heartbeat to expire.
func (m *Member) Leave(ctx context.Context) error {
	self := m.Self()
	defer instances.Delete(self.Instance)
	return m.store.Leave(ctx, self.HostIP, self.Instance)
}

// Refresh reads the cluster anew: switches, nodes, and whether this instance still holds its row. It brings
// the nodes' switches in line with the app's where it sees them differ.
func (m *Member) Refresh(ctx context.Context) error {
	m.refreshing.Lock()
	defer m.refreshing.Unlock()
	v, err := m.read(ctx)
	if err != nil {
		return err
	}
	if v.Me.StoppedByApp && v.AppOn || v.Me.On && !v.AppOn {
		if err := m.store.SyncSwitches(ctx); err != nil {
			return err
		}
		if v, err = m.read(ctx); err != nil {
			return err
		}
	}
	if own, app := v.sawOff(); v.Me.Instance != 0 && (own.sees() || app.sees()) {
		if err := m.store.SawOff(ctx, v.Me.HostIP, v.Me.Instance, own, app); err != nil {
			return err
		}
		if v, err = m.read(ctx); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.view = v
	m.mu.Unlock()
	return nil
}

func (m *Member) read(ctx context.Context) (View, error) {
	v, err := m.store.Read(ctx)
	if err != nil {
		return View{}, err
	}
	v.timeout, v.fresh = m.cfg.Timeout, m.cfg.BeatEvery*3/2
	self := m.Self()
	if me, ok := find(v, self.HostIP); ok && me.Instance == self.Instance {
		v.Me = me
	}
	return v, nil
}

// find looks a node up by its id. Ids that differ in case, or in spaces at their end, are one to the server.
func find(v View, hostIP string) (Node, bool) {
	for _, n := range v.Nodes {
		if strings.EqualFold(strings.TrimRight(n.HostIP, " "), strings.TrimRight(hostIP, " ")) {
			return n, true
		}
	}
	return Node{}, false
}

// Resumed notes that what was due while this node was off has been passed over.
func (m *Member) Resumed(ctx context.Context) error {
	self := m.Self()
	if err := m.store.Resumed(ctx, self.HostIP, self.Instance); err != nil {
		return err
	}
	return m.Refresh(ctx)
}

// Self is who this process is at the moment. It changes when it had to join anew.
func (m *Member) Self() Identity {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.self
}

// View is the cluster as last seen.
func (m *Member) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// ConnectedFor is how long heartbeats have been arriving without a gap. After an outage of the database
// all heartbeats are old: who has just come back must not take the others for dead.
func (m *Member) ConnectedFor() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.connected)
}
