package node

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// tryFor is how long one try to join may take: a row that is locked is tried again.
const tryFor = 5 * time.Second

// Join takes a node id and announces this process. Without Config.ID it takes the first of address, address#2 … that no
// other process holds. With Config.ID it waits until a former holder is known to be dead, and fails if that holder turns
// out to live. While rows that it needs are locked it keeps trying.
func (m *Member) Join(ctx context.Context) error {
	if err := m.clock.Measure(ctx); err != nil {
		return err
	}
	said := false
	for {
		joined, err := m.tryToJoin(ctx)
		switch {
		case joined:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("join: %w", context.Cause(ctx))
		case err != nil && !waitsForLock(ctx, err):
			return err
		case err != nil && !said:
			m.cfg.Log.Warn().Err(err).Str("oldest transaction", m.store.oldestTransaction(ctx)).
				Msg("cannot join yet: another transaction holds a lock; trying again until it works")
			said = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(m.cfg.BeatEvery/5, time.Second)):
		}
	}
}

func (m *Member) tryToJoin(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	v, err := m.read(ctx, m.store)
	if err != nil {
		return false, err
	}
	if m.cfg.ID != "" {
		return m.joinAs(ctx, v)
	}
	return m.joinAsAddress(ctx, v)
}

// joinAsAddress takes the first of address, address#2 … that no other process holds, so that a restarted process gets its
// old id back. One that an operator has switched off, and whose holder seems to be long dead, is waited for: this process
// must not come back under another id, switched on.
func (m *Member) joinAsAddress(ctx context.Context, v View) (bool, error) {
	const most = 1000
	base, me := address(), whoAmI()
	for k := range most {
		id := candidate(base, k)
		holder, _ := find(v, id)
		switch free, err := m.free(ctx, v, holder, me); {
		case err != nil:
			return false, err
		case free:
			if taken, err := m.take(ctx, id, holder, me); taken || err != nil {
				return taken, err
			}
		case !holder.switchedOn() && holder.doubted && holder.HostName == hostName():
			return false, nil
		}
	}
	return false, fmt.Errorf("join: all of %s to %s are taken", base, candidate(base, most-1))
}

func (m *Member) joinAs(ctx context.Context, v View) (bool, error) {
	id, me := m.cfg.ID, whoAmI()
	holder, _ := find(v, id)
	free, err := m.free(ctx, v, holder, me)
	switch {
	case err != nil:
		return false, err
	case free:
		return m.take(ctx, id, holder, me)
	case holder.beaten:
		return false, fmt.Errorf("join: node id %q is held by process %d on %s, which is alive", id, holder.process.pid, holder.HostName)
	case holder.watched == 0:
		m.cfg.Log.Info().Str("node", id).Str("holder", holder.HostName).Int64("pid", holder.process.pid).Dur("for", m.cfg.Timeout).
			Msg("the node id may still be held; watching whether its holder sends heartbeats")
	}
	return false, nil
}

// free tells whether a node id can be taken: its row has no instance, or that of a process which is proven to be dead, or one
// that this process has watched for all of Timeout without seeing a heartbeat. Any other lease is respected. The heartbeat of a dead one is deleted, so that it cannot renew its lease.
func (m *Member) free(ctx context.Context, v View, holder Node, me identity) (bool, error) {
	switch {
	case holder.Instance == 0:
		return true, nil
	case proven(holder, me):
		return true, m.store.forgetBeat(ctx, holder.Instance)
	case !v.dead(&holder):
		return false, nil
	case holder.pulse.row:
		return m.store.endBeat(ctx, holder.Instance, holder.pulse)
	default:
		return true, nil
	}
}

// proven tells whether the process that holds a node is certainly dead. An instance of this very process is, once it is not
// one of its schedulers' any more.
func proven(holder Node, me identity) bool {
	if holder.HostName != hostName() {
		return false
	}
	if holder.process == me {
		return me.known && !livesHere(holder.Instance)
	}
	return me.gone(holder.process)
}

// instances are those of this process, so that two schedulers in one process get two node ids.
var instances sync.Map

func livesHere(instance int64) bool {
	_, ok := instances.Load(instance)
	return ok
}
