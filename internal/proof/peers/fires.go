package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Claims is how many recurring fires a second some processes of a peer keep up with.
type Claims struct {
	Peer     string `json:"peer"`
	Settings string `json:"settings"`
	Nodes    int    `json:"processes"`
	Kept     Fires  `json:"kept_up"` // the heaviest load that they kept up with
	Most     Fires  `json:"most"`    // where most fires started, whether kept up with or not
}

// Lateness is from the time of a fire to its handler's first line.
type Lateness struct {
	Peer     string `json:"peer"`
	Settings string `json:"settings"`
	Nodes    int    `json:"processes"`
	Fires
}

// Fires is what one load came to.
type Fires struct {
	Due        int     `json:"due"`     // a second
	Started    float64 `json:"started"` // a second
	Statements float64 `json:"statements_per_fire"`
	Commits    float64 `json:"commits_per_fire"` // that wrote something
	ServerMs   float64 `json:"server_ms_per_fire"`
	NodeMs     float64 `json:"process_ms_per_fire"`
	Late
}

// fireSetting is how the processes of a peer are set for recurring fires.
type fireSetting struct {
	label     string
	workers   int
	batch     int  // of Quartz: how many schedules it acquires at once
	noHistory bool // of qrtz
}

// firePeer is a peer with recurring fires.
type firePeer interface {
	fresh(ctx context.Context) (dsn string, err error) // an empty database with its tables
	store(ctx context.Context, f fireSetting, groups []group) error
	lead(nodes int) time.Duration // how long before the first fire all is stored, and the processes start
	start(dsn, id string, f fireSetting, windows []span) (*process, error)
	did(ctx context.Context) (did, error)
}

// group is some schedules that fire once a second from a time on, spread over the second.
type group struct {
	count int
	first time.Time
}

// phases are the first fires of all schedules of some groups, in milliseconds since 1970, within a group in no order.
func phases(groups []group) (all []int64) {
	for _, g := range groups {
		for i := range g.count {
			all = append(all, g.first.UnixMilli()+int64(i*7919%g.count)*1000/int64(g.count))
		}
	}
	return all
}

// stairs are loads, one after the other on the same processes: each adds schedules to those before.
type stairs struct {
	loads          []int         // fires a second
	warm           time.Duration // under the first load: a JVM compiles what is often called
	steady, window time.Duration // of each load: not counted, counted
}

// steps climbs, from the first load up to what is too much by a factor.
func steps(from int, factor float64, to int) (loads []int) {
	for load := float64(from); load <= float64(to); load *= factor {
		loads = append(loads, int(load))
	}
	return loads
}

// plan is when what is due begins, and what is counted, if the first fire is at a time.
func (s stairs) plan(first time.Time) (groups []group, windows []span) {
	before, warm := 0, s.warm
	for _, load := range s.loads {
		groups = append(groups, group{load - before, first})
		w := span{From: first.Add(warm + s.steady)}
		w.Until = w.From.Add(s.window)
		windows = append(windows, w)
		before, first, warm = load, w.Until, 0
	}
	return groups, windows
}

const (
	keptUp  = 0.99        // of the fires due that must have started
	maxLate = time.Second // of all but one in a hundred
)

func (f Fires) keptUp() bool {
	return f.Started >= keptUp*float64(f.Due) && f.P99 < float64(maxLate.Milliseconds())
}

// tooMuch tells whether the loads so far say what can be carried: the last was far too heavy, or the last two were too heavy.
func tooMuch(all []Fires) bool {
	last := all[len(all)-1]
	return !last.keptUp() && (last.Started < 0.9*float64(last.Due) || len(all) > 1 && !all[len(all)-2].keptUp())
}

// errSlow is the error of processes that start too slowly.
var errSlow = errors.New("processes took too long to start")

// climb has some processes carry one load after the other, until one is too heavy. If the machine is so busy that the processes are not
// there in time, it tries again with more of it.
func climb(ctx context.Context, p firePeer, f fireSetting, nodes int, s stairs) (all []Fires, about string, err error) {
	lead := p.lead(nodes)
	for range 3 {
		if all, about, err = climbAfter(ctx, lead, p, f, nodes, s); !errors.Is(err, errSlow) {
			break
		}
		lead *= 2
	}
	return all, about, err
}

// climbAfter is climb, with the first fire after a time.
func climbAfter(ctx context.Context, lead time.Duration, p firePeer, f fireSetting, nodes int, s stairs) (all []Fires, about string, err error) {
	dsn, err := p.fresh(ctx)
	if err != nil {
		return nil, "", err
	}
	groups, windows := s.plan(time.Now().Truncate(time.Second).Add(time.Second + lead))
	if err := p.store(ctx, f, groups); err != nil {
		return nil, "", err
	}
	var c crew
	defer func() { c.kill() }()
	for i := range nodes {
		one, err := p.start(dsn, fmt.Sprintf("node-%d", i+1), f, windows)
		if err != nil {
			return nil, "", err
		}
		c = append(c, one)
	}
	if err := c.join(ctx); err != nil {
		return nil, "", err
	}
	if time.Now().After(groups[0].first) {
		return nil, "", fmt.Errorf("%w: %d, longer than %s", errSlow, nodes, lead)
	}
	for i, load := range s.loads {
		one, err := c.measure(ctx, p, windows[i])
		if err != nil {
			return all, "", err
		}
		one.Due = load
		if all = append(all, one); tooMuch(all) {
			break
		}
	}
	return all, c.about(), nil
}

// measure is what a crew and its server do within a window.
func (c crew) measure(ctx context.Context, p firePeer, w span) (Fires, error) {
	var f Fires
	if !sleep(ctx, time.Until(w.From)) {
		return f, ctx.Err()
	}
	before, err := p.did(ctx)
	if err != nil {
		return f, err
	}
	own := c.cpu()
	if !sleep(ctx, time.Until(w.Until)) {
		return f, ctx.Err()
	}
	after, err := p.did(ctx)
	if err != nil {
		return f, err
	}
	own = c.cpu() - own
	seen, err := c.window(ctx)
	if err != nil {
		return f, err
	}
	f.Late = lateness(seen.Late)
	n, d := float64(max(1, len(seen.Late))), after.since(before)
	f.Started = float64(len(seen.Late)) / w.Until.Sub(w.From).Seconds()
	f.Statements, f.Commits = float64(d.statements)/n, float64(d.commits)/n
	f.ServerMs, f.NodeMs = milliseconds(d.cpu)/n, milliseconds(own)/n
	return f, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
