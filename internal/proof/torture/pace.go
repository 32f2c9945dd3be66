package main

import (
	"time"

	"github.com/qrtz-go/qrtz"
)

// pace is how fast things go: the scheduler's settings, and how long faults last at most.
type pace struct {
	config qrtz.Config

	between time.Duration // faults, on average
	freeze  time.Duration // a process is stopped
	outage  time.Duration // a server is gone
	cut     time.Duration // connections are cut, delayed or dead
	away    time.Duration // a killed process, before it is started again
	off     time.Duration // a switch is N, a schedule paused
	leap    time.Duration // the database's clock steps forth: further than a fire may be late
	checks  time.Duration // between two checks
}

// The scheduler's defaults, and faults that exceed them.
var atDefaults = pace{
	config:  qrtz.Config{DrainTimeout: 10 * time.Second},
	between: 3 * time.Second,
	freeze:  time.Minute, outage: 45 * time.Second, cut: 40 * time.Second, away: 40 * time.Second, off: 30 * time.Second, leap: 65 * time.Second,
	checks: 8 * time.Second,
}

// A fifth of that, for a torture of a minute.
var inHaste = pace{
	config: qrtz.Config{
		PollInterval: time.Second, MisfireInterval: 3 * time.Second, MisfireAfter: 12 * time.Second,
		NodeTimeout: 4500 * time.Millisecond, DrainTimeout: 2 * time.Second,
	},
	between: 700 * time.Millisecond,
	freeze:  12 * time.Second, outage: 9 * time.Second, cut: 8 * time.Second, away: 8 * time.Second, off: 6 * time.Second, leap: 13 * time.Second,
	checks: 5 * time.Second,
}

func paceOf(duration time.Duration) pace {
	if duration < 3*time.Minute {
		return inHaste
	}
	return atDefaults
}

// The scheduler's defaults, for what they are not set to here.
func (p pace) misfireAfter() time.Duration { return or(p.config.MisfireAfter, time.Minute) }

func (p pace) misfireInterval() time.Duration { return or(p.config.MisfireInterval, 15*time.Second) }

func (p pace) nodeTimeout() time.Duration { return or(p.config.NodeTimeout, 22500*time.Millisecond) }

// unseen is how long nodes may go without looking at a switch and still take it for what it was: one and a half heartbeats.
func (p pace) unseen() time.Duration { return p.nodeTimeout() / 3 }

// lateAfter is how long a fire may wait for its claim while things go wrong: until the longest outage is over, a misfire is
// one, and the misfire handler has come by.
func (p pace) lateAfter() time.Duration {
	return p.outage + p.cut + p.nodeTimeout() + p.misfireAfter() + 3*p.misfireInterval()
}

// settle is how long it may take until everything is right again once nothing goes wrong any more.
func (p pace) settle() time.Duration {
	return p.nodeTimeout() + p.misfireAfter() + 4*p.misfireInterval() + 10*time.Second
}

func or(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
