// Package bench measures qrtz on a private server that flushes at every commit, beside the bare SQL of what it does.
// Nodes are processes of their own. It only measures; what figures must hold is for tests to say.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/proof/claimtime"
)

// Options say what to measure.
type Options struct {
	Node     []string  // the command that calls Node: a program and its first arguments
	Parts    []string  // some of Parts; empty for all
	Quick    bool      // rougher, in a quarter of the time
	Workers  int       // of each node under heavy load
	Progress io.Writer // is told what happens
}

// extent is how much is measured.
type extent struct {
	floorFor                       time.Duration
	floorRows                      int
	floorBatches, floorConnections []int
	floorRacers                    []int // connections

	claimSizes []claimtime.Size

	nodes          []int
	heavy          []heavyLoad // the first to be tried
	tries          int         // loads per number of nodes and rule of history
	settle, window time.Duration

	rates    []int // fires a second
	lateFor  time.Duration
	volley   int // fires at the same instant
	volleyBy []crew

	everydayRates []int // fires a second
	everydayFor   time.Duration

	askRates    []int // runs enqueued a second
	askBehind   int   // runs that no node can run, behind which some are enqueued
	backlogRuns int
	backlogBy   []crew

	stored  []int // executes
	restFor time.Duration
	planned int // fires in the window of one node

	steady, watch time.Duration // before and after a node is killed
	starts        int

	growing growthExtent
}

// heavyLoad is a number of fires a second under a rule of history.
type heavyLoad struct {
	history qrtz.History
	load    int
}

// crew is some nodes and the workers of each; 0 for Options.Workers.
type crew struct{ nodes, workers int }

var (
	fullExtent = extent{
		floorFor: 3 * time.Second, floorRows: 20_000, floorBatches: []int{100, 500}, floorConnections: []int{1, 2, 8}, floorRacers: []int{1, 4, 16},
		claimSizes: []claimtime.Size{{Fires: 1, Claims: 500}, {Fires: 100, Claims: 200}, {Fires: 500, Claims: 100}},
		nodes:      []int{1, 3, 8}, heavy: []heavyLoad{{qrtz.HistoryAll, 30_000}, {qrtz.HistoryFailed, 30_000}, {qrtz.HistoryNone, 60_000}},
		tries: 3, settle: 2 * time.Second, window: 6 * time.Second,
		rates: []int{10, 200, 2000}, lateFor: 20 * time.Second, volley: 10_000, volleyBy: []crew{{1, 0}, {3, 0}, {3, defaultWorkers}},
		everydayRates: []int{20, 200, 2000}, everydayFor: 30 * time.Second,
		askRates: []int{20, 200}, askBehind: 1_000_000, backlogRuns: 100_000, backlogBy: []crew{{1, defaultWorkers}, {3, defaultWorkers}, {1, 0}, {3, 0}},
		stored: []int{10, 10_000, 1_000_000}, restFor: 15 * time.Second, planned: 100_000,
		steady: 5 * time.Second, watch: 45 * time.Second, starts: 5,
		growing: fullGrowth,
	}
	quickExtent = extent{
		floorFor: time.Second, floorRows: 20_000, floorBatches: []int{100, 500}, floorConnections: []int{1, 2}, floorRacers: []int{1, 4, 16},
		claimSizes: []claimtime.Size{{Fires: 1, Claims: 100}, {Fires: 100, Claims: 50}, {Fires: 500, Claims: 30}},
		nodes:      []int{1, 3}, heavy: []heavyLoad{{qrtz.HistoryAll, 30_000}, {qrtz.HistoryNone, 60_000}},
		tries: 2, settle: 1 * time.Second, window: 3 * time.Second,
		rates: []int{200}, lateFor: 5 * time.Second, volley: 10_000, volleyBy: []crew{{3, 0}},
		everydayRates: []int{20, 200, 2000}, everydayFor: 10 * time.Second,
		askRates: []int{20, 200}, askBehind: 1_000_000, backlogRuns: 50_000, backlogBy: []crew{{1, defaultWorkers}, {3, defaultWorkers}},
		stored: []int{10_000}, restFor: 5 * time.Second, planned: 10_000,
		steady: 2 * time.Second, watch: 10 * time.Second, starts: 1,
		growing: quickGrowth,
	}
)

// part is something to measure.
type part struct {
	name string
	run  func(*site, context.Context, *Report) error
}

var parts = []part{
	{"floor", (*site).floor},
	{"distance", (*site).distance},
	{"claims", (*site).claims},
	{"lateness", (*site).lateness},
	{"everyday", (*site).everyday},
	{"enqueue", (*site).enqueue},
	{"queue", (*site).queue},
	{"rest", (*site).rest},
	{"memory", (*site).memory},
	{"failover", (*site).failover},
	{"startup", (*site).startup},
	{"growth/history", (*site).growthHistory},
	{"growth/rare", (*site).growthRare},
	{"growth/nodes", (*site).growthNodes},
	{"growth/rest", (*site).growthRest},
	{"growth/pass", (*site).growthPass},
}

// growth is the name of all parts that begin with it. They are measured only if they are asked for: they take long, and gigabytes.
const growth = "growth"

// Parts are the names of what can be measured.
func Parts() []string {
	var names []string
	for _, p := range parts {
		if p.name == growth+"/history" {
			names = append(names, growth)
		}
		names = append(names, p.name)
	}
	return names
}

// asked tells whether a part is to be measured.
func (o *Options) asked(part string) bool {
	group, _, grouped := strings.Cut(part, "/")
	return len(o.Parts) == 0 && !grouped || slices.Contains(o.Parts, part) || grouped && slices.Contains(o.Parts, group)
}

// Run measures. What has been measured before an error is returned with it.
func Run(ctx context.Context, o Options) (*Report, error) {
	e := fullExtent
	if o.Quick {
		e = quickExtent
	}
	return carryOut(ctx, o, e)
}

func carryOut(ctx context.Context, o Options, e extent) (r *Report, err error) {
	for _, name := range o.Parts {
		if !slices.Contains(Parts(), name) {
			return nil, fmt.Errorf("%q: want some of %s", name, strings.Join(Parts(), ", "))
		}
	}
	s, err := openSite(ctx, o, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	r = &Report{At: time.Now().Truncate(time.Second)}
	if r.Conditions, err = s.conditions(ctx); err != nil {
		return nil, err
	}
	for _, p := range parts {
		if !o.asked(p.name) {
			continue
		}
		began := time.Now()
		if err := p.run(s, ctx, r); err != nil {
			return r, fmt.Errorf("%s: %w", p.name, err)
		}
		s.say("%s took %.0f s", p.name, time.Since(began).Seconds())
	}
	return r, nil
}
