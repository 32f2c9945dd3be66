package poller

import (
	"context"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
)

// fakeCluster is what a node knows of the others. Its clock may differ from the machine's.
type fakeCluster struct {
	mu        sync.Mutex
	offset    time.Duration
	off       bool
	rank      int
	joined    bool // another node claims, too
	resuming  time.Time
	offSince  time.Time
	offSeen   time.Time // zero for until resuming
	elsewhere bool
	refreshed int
	resumed   int
	onRefresh func(*fakeCluster)
}

func (c *fakeCluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *fakeCluster) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

func (c *fakeCluster) Self() execute.Instance { return execute.Instance{HostIP: "n1", ID: 7} }

func (c *fakeCluster) Note(execute.ClockReading) {}

func (c *fakeCluster) Claiming() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.off && c.resuming.IsZero()
}

func (c *fakeCluster) Switches() (bool, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return true, !c.off
}

func (c *fakeCluster) Resuming() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.resuming.IsZero()
}

func (c *fakeCluster) PassesOver(string) []node.TimeOff {
	if c.elsewhere {
		return nil
	}
	seen := c.resuming
	if !c.offSeen.IsZero() {
		seen = c.offSeen
	}
	return []node.TimeOff{{From: c.offSince, Seen: seen, Until: c.resuming}}
}

func (c *fakeCluster) Rank(string, int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rank
}

func (c *fakeCluster) Alone() bool { return !c.joined }

func (c *fakeCluster) MayOwn() func(int64) bool { return nil }

func (c *fakeCluster) Refresh(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshed++
	if c.onRefresh != nil {
		c.onRefresh(c)
	}
	return nil
}

func (c *fakeCluster) Resumed(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resumed++
	c.resuming = time.Time{}
	return nil
}
