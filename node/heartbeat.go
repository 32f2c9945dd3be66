package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/internal/outage"
)

// Run sends heartbeats until ctx is done. An outage of the database is logged once and waited out. When
// the heartbeats have failed for so long that others may take this node for dead, or have done so, Run
// calls OnFenced, and joins anew as soon as it can.
func (m *Member) Run(ctx context.Context) {
	var lease sync.WaitGroup
	lease.Go(func() { m.watchLease(ctx) })
	defer lease.Wait()
	outage.Every(ctx, m.cfg.Log, "heartbeat", m.cfg.BeatEvery, m.Beat)
}

// watchLease fences the instance whose lease ends. It does not share a goroutine with the heartbeat: one
// that hangs, because the network swallows it, must not hold this up.
func (m *Member) watchLease(ctx context.Context) {
	timer := time.NewTimer(m.leaseLeft())
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
			left = m.leaseTime() // who joins anew from now on has at least this long
		}
		timer.Reset(left)
	}
}

// Beat measures the clock, sends a heartbeat and reads the cluster. An instance that finds its row in
// other hands gives up its runs and joins anew.
func (m *Member) Beat(ctx context.Context) error {
	m.beating.Lock()
	defer m.beating.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.BeatEvery)
	defer cancel()
	if err := m.clock.Measure(ctx); err != nil {
		return err
	}
	self, sent := m.Self(), time.Now()
	if err := m.store.Beat(ctx, self.HostIP, self.Instance, m.clock.Skew()); err != nil {
		return err
	}
	if err := m.Refresh(ctx); err != nil {
		return err
	}
	if m.View().Me.Instance != 0 && !m.Fenced() {
		m.renew(sent)
		return nil
	}
	m.fence(fmt.Errorf("%w: it was taken for dead, or another process took its id %q", ErrFenced, self.HostIP))
	if err := m.cfg.Settle(ctx); err != nil {
		return err
	}
	if err := m.store.Leave(ctx, self.HostIP, self.Instance); err != nil {
		return err
	}
	return m.Join(ctx)
}

// renew notes a heartbeat that arrived. The lease counts from when it was sent: the database cannot have
// stamped it earlier.
func (m *Member) renew(sent time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sent.Sub(m.lease) > 2*m.cfg.BeatEvery {
		m.connected = sent
	}
	m.lease = sent
}

// fence makes the process give up its runs, once per instance. When it returns they are cancelled, whoever
// called it first.
func (m *Member) fence(cause error) {
	m.fencing.Lock()
	defer m.fencing.Unlock()
	m.mu.Lock()
	already := m.fenced
	m.fenced = true
	m.mu.Unlock()
	if !already {
		m.cfg.Log.Error().Err(cause).Msg("fenced: cancelling the runs of this instance")
		m.cfg.OnFenced(cause)
	}
}

// Fenced tells whether this process has given up its runs and not yet joined anew. It may start nothing.
func (m *Member) Fenced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fenced
}

// leaseTime is how long an instance holds its runs after its last heartbeat. It ends before Timeout does,
// after which others may take the runs: handlers get a tenth of Timeout to notice that they are cancelled.
func (m *Member) leaseTime() time.Duration { return m.cfg.Timeout * 9 / 10 }

func (m *Member) leaseLeft() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leaseTime() - time.Since(m.lease)
}
