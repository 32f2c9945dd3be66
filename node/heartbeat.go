package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/outage"
)

// Run sends heartbeats until ctx is done. An outage of the database is logged once and waited out. When
// the heartbeats have failed for so long that others may take this node for dead, or have done so, Run
// calls OnFenced, and joins again as soon as it can.
func (m *Member) Run(ctx context.Context) {
	var beside sync.WaitGroup
	beside.Go(func() { m.watchLease(ctx) })
	beside.Go(func() { m.showBeats(ctx) })
	defer beside.Wait()
	outage.Every(ctx, m.cfg.Log, "heartbeat", m.cfg.BeatEvery, m.Beat)
}

// watchLease fences the instance whose lease ends. It does not share a goroutine with the heartbeat: one
// that hangs, because the network swallows it, must not hold this up.
func (m *Member) watchLease(ctx context.Context) {
	const look = time.Second // timers do not count the time in which the machine is suspended
	timer := time.NewTimer(min(m.leaseLeft(), look))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		left := m.leaseLeft()
		if left <= 0 {
			m.fence(fmt.Errorf("%w: no heartbeat has reached the database for %s", ErrFenced, m.leaseTime()))
			left = look // one that joins again from now on has at least this long, or is looked at again
		}
		timer.Reset(min(left, look))
	}
}

// showBeats writes each heartbeat into QRTZ_NODE, too, and brings this node's row in line with what it sees. Nothing depends
// on it here, so that a transaction that holds that row locked delays no heartbeat.
func (m *Member) showBeats(ctx context.Context) {
	pacer := outage.New(m.cfg.Log, "show the heartbeat in QRTZ_NODE")
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.sent:
		}
		if err := m.show(ctx); ctx.Err() == nil {
			pacer.Next(err, m.cfg.BeatEvery)
		}
	}
}

// show brings the row in line with the view that the heartbeat has just read.
func (m *Member) show(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(m.cfg.BeatEvery, syncFor))
	defer cancel()
	self := m.Self()
	if err := m.store.Show(ctx, self.NodeID, self.ID, m.clock.Skew()); err != nil {
		return err
	}
	v := m.View()
	if m.clock.Now().Sub(v.At) > beatIsNew { // it took long, for a lock
		return m.Refresh(ctx)
	}
	m.tidying.Lock()
	defer m.tidying.Unlock()
	return m.follow(ctx, v)
}

// beatIsNew is how old the view of a heartbeat may be that the node's row is brought in line with.
const beatIsNew = time.Second

// Beat measures the clock, sends a heartbeat and reads the cluster, all of it without waiting for a lock of another transaction. An
// instance that finds its row in other hands, or its heartbeat deleted, gives up its runs and joins again.
func (m *Member) Beat(ctx context.Context) error {
	m.beating.Lock()
	defer m.beating.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.BeatEvery)
	defer cancel()
	if err := m.clock.Measure(ctx); err != nil {
		return err
	}
	self, beats, sent := m.nextBeat()
	if err := m.heart.Beat(ctx, self.ID, beats, m.clock.Skew()); err != nil {
		return err
	}
	v, err := m.read(ctx, m.heart)
	if err != nil {
		return err
	}
	mine := v.Me.Instance != 0 && v.Me.pulse.row
	switch {
	case !mine:
		m.fence(fmt.Errorf("%w: it was taken for dead, or another process took its id %q", ErrFenced, self.NodeID))
	case m.Fenced():
	case v.Me.pulse.count != beats:
		return errNotThere
	default:
		m.renew(self.ID, sent)
		return nil
	}
	return m.joinAgain(ctx, self)
}

// errNotThere says that a heartbeat was not found where it had been written: another process has written there, or the server
// has told what was not so. It does not count.
var errNotThere = errors.New("heartbeat: what was written into QRTZ_HEARTBEAT is not there")

func (m *Member) nextBeat() (self Instance, beats int64, sent time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beats++
	return m.self, m.beats, m.elapsed()
}

// renew notes a heartbeat that arrived. The lease counts from when it was sent: no node can have seen it earlier.
func (m *Member) renew(instance int64, sent time.Duration) {
	m.mu.Lock()
	if m.self.ID == instance && !m.fenced {
		m.lease = sent
	}
	m.mu.Unlock()
	select {
	case m.sent <- struct{}{}:
	default: // the one before has yet to be shown
	}
}

// joinAgain leaves the row of a fenced instance and takes one for a new instance. What the old one leaves behind is dealt with
// first, if that can be done in time.
func (m *Member) joinAgain(ctx context.Context, old Instance) error {
	if m.fencedFor() < m.cfg.Timeout {
		if err := m.cfg.BeforeRejoin(ctx); err != nil {
			return err
		}
	}
	if err := m.store.Leave(ctx, old.NodeID, old.ID); err != nil {
		return err
	}
	return m.Join(ctx)
}

// fence makes the process give up its runs, once per instance. When it returns they are cancelled, also if
// another goroutine called it first.
func (m *Member) fence(cause error) {
	m.fencing.Lock()
	defer m.fencing.Unlock()
	m.mu.Lock()
	already := m.fenced
	if !already {
		m.fenced, m.fencedAt = true, m.elapsed()
	}
	m.mu.Unlock()
	if !already {
		m.cfg.Log.Error().Err(cause).Msg("fenced: cancelling the runs of this instance")
		m.cfg.OnFenced(cause)
	}
}

// Fenced tells whether this process has given up its runs and not yet joined again. It may start nothing.
func (m *Member) Fenced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fenced
}

func (m *Member) fencedFor() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.elapsed() - m.fencedAt
}

// Holds tells whether an instance is this process's, and its lease lasts now: then no other node has taken its runs. That is
// more than not to be Fenced: a process that has been frozen is fenced only when its timers get to run.
func (m *Member) Holds(instance int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return instance != 0 && instance == m.self.ID && !m.fenced && m.elapsed()-m.lease < m.leaseTime()
}

// leaseTime is how long an instance holds its runs after its last heartbeat. It ends before Timeout does,
// after which others may take the runs: handlers get a tenth of Timeout to notice that they are cancelled.
func (m *Member) leaseTime() time.Duration { return m.cfg.Timeout * 9 / 10 }

func (m *Member) leaseLeft() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leaseTime() - (m.elapsed() - m.lease)
}
