package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Queued is how long enqueued runs wait for their handlers, from the return of what enqueues them.
type Queued struct {
	Peer     string  `json:"peer"`
	Settings string  `json:"settings"`
	From     string  `json:"from"` // where they were enqueued
	Nodes    int     `json:"processes"`
	Rate     int     `json:"rate"` // a second
	ServerMs float64 `json:"server_ms_per_run"`
	NodeMs   float64 `json:"process_ms_per_run"` // of the one that enqueues, too
	Late
}

// Backlog is how fast runs are carried out that are there.
type Backlog struct {
	Peer      string  `json:"peer"`
	Settings  string  `json:"settings"`
	Workers   int     `json:"workers"`
	Nodes     int     `json:"processes"`
	Runs      int64   `json:"runs"`       // that were finished
	PerSecond float64 `json:"per_second"` // from the first start to the last result on record
	ServerMs  float64 `json:"server_ms_per_run"`
	NodeMs    float64 `json:"process_ms_per_run"`
}

// Enqueue is how fast a program that carries out nothing enqueues.
type Enqueue struct {
	Peer        string  `json:"peer"`
	Connections int     `json:"connections"`
	AtOnce      int     `json:"at_once"` // runs of one call
	PerSecond   float64 `json:"per_second"`
}

const (
	here  = "the same process"
	there = "another process"

	nodeConnections = 16 // of a process
)

// queueSetting is how the processes of a peer are set for what is enqueued.
type queueSetting struct {
	label   string
	workers int // 0 for the default
	tuned   bool
}

// queuePeer is a peer, and its server, with runs that are enqueued.
type queuePeer interface {
	about() string                                     // the server and its settings
	fresh(ctx context.Context) (dsn string, err error) // an empty database with its tables
	left(ctx context.Context) (bool, error)            // tells whether there are runs that have not ended
	finished(ctx context.Context) (int64, error)       // how many are on record as ended well
	cpu() time.Duration
	close()
}

// startNode starts this program as a node.
func startNode(s spec) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return start(program, nil, []string{specEnv + "=" + string(text)})
}

// pace is how long runs are enqueued, at one rate after the other.
type pace struct {
	steady time.Duration // under the first, not counted
	rates  []int
	last   []time.Duration // by rate
}

// asks are what to enqueue from a time on: first what is not counted.
func (p pace) asks(begin time.Time) (all []ask) {
	end := begin.Add(p.steady)
	all = append(all, ask{span{begin, end}, p.rates[0]})
	for i, rate := range p.rates {
		begin, end = end, end.Add(p.last[i])
		all = append(all, ask{span{begin, end}, rate})
	}
	return all
}

const startUp = time.Second // of processes of Go, until they work

// queued has some processes wait for what is enqueued.
func queued(ctx context.Context, name, library string, p queuePeer, s queueSetting, from string, nodes int, pc pace) (all []Queued, twice int, err error) {
	dsn, err := p.fresh(ctx)
	if err != nil {
		return nil, 0, err
	}
	begin := time.Now().Add(startUp)
	asks := pc.asks(begin)
	one := spec{Library: library, DSN: dsn, Works: true, Workers: s.workers, Tuned: s.tuned, Connections: nodeConnections, Start: begin}
	specs := make([]spec, nodes)
	for i := range specs {
		specs[i] = one
		specs[i].ID = fmt.Sprintf("node-%d", i+1)
	}
	if from == here {
		specs[0].Asks = asks
	} else {
		client := one
		client.ID, client.Works, client.Asks = "client", false, asks
		specs = append(specs, client)
	}
	c, err := startCrew(ctx, specs)
	if err != nil {
		return nil, 0, err
	}
	defer c.kill()
	type cost struct{ server, nodes time.Duration }
	var costs []cost
	counted := asks[1:]
	for _, a := range counted {
		if !sleep(ctx, time.Until(a.From)) {
			return nil, 0, ctx.Err()
		}
		before := cost{p.cpu(), c.cpu()}
		if !sleep(ctx, time.Until(a.Until)) {
			return nil, 0, ctx.Err()
		}
		costs = append(costs, cost{p.cpu() - before.server, c.cpu() - before.nodes})
	}
	if err := drained(ctx, p, drainLimit); err != nil {
		return nil, 0, err
	}
	end, err := c.stop()
	if err != nil {
		return nil, 0, err
	}
	for i, a := range counted {
		late, err := end.waits(a.span)
		if err != nil {
			return nil, 0, err
		}
		n := float64(max(1, len(late)))
		all = append(all, Queued{
			Peer: name, Settings: s.label, From: from, Nodes: nodes, Rate: a.Rate, Late: lateness(late),
			ServerMs: milliseconds(costs[i].server) / n, NodeMs: milliseconds(costs[i].nodes) / n,
		})
	}
	return all, end.Twice, nil
}

// waits are how long what was enqueued within a span waited, in microseconds.
func (e ending) waits(s span) (all []int64, err error) {
	for n, committed := range e.Committed {
		if !s.has(time.UnixMicro(committed)) {
			continue
		}
		started, ok := e.Started[n]
		if !ok {
			return nil, fmt.Errorf("run %d was enqueued and has not begun", n)
		}
		all = append(all, max(started-committed, 1)) // it may begin before the answer of the commit has been read
	}
	return all, nil
}

// startCrew starts processes of Go and waits until all take part.
func startCrew(ctx context.Context, specs []spec) (c crew, err error) {
	defer func() {
		if err != nil {
			c.kill()
		}
	}()
	for _, s := range specs {
		p, err := startNode(s)
		if err != nil {
			return c, err
		}
		c = append(c, p)
	}
	return c, c.join(ctx)
}

const (
	drainLimit = 30 * time.Second
	lookEvery  = 50 * time.Millisecond
)

var errLeft = errors.New("runs are left")

// drained waits until nothing is left, and returns errLeft if it takes too long.
func drained(ctx context.Context, p queuePeer, limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		left, err := p.left(ctx)
		if err != nil || !left {
			return err
		}
		if time.Now().After(end) {
			return errLeft
		}
		if !sleep(ctx, lookEvery) {
			return ctx.Err()
		}
	}
}

// backlog has some processes carry out runs that are there when they start, for a while or until none is left.
func backlog(ctx context.Context, name, library string, p queuePeer, s queueSetting, nodes, runs int, last time.Duration) (b Backlog, twice int, err error) {
	b = Backlog{Peer: name, Settings: s.label, Workers: s.workers, Nodes: nodes}
	dsn, err := p.fresh(ctx)
	if err != nil {
		return b, 0, err
	}
	if err := fill(ctx, library, dsn, runs); err != nil {
		return b, 0, err
	}
	begin := time.Now().Add(startUp)
	var specs []spec
	for i := range nodes {
		specs = append(specs, spec{
			Library: library, DSN: dsn, ID: fmt.Sprintf("node-%d", i+1), Works: true, Workers: s.workers, Tuned: s.tuned, Connections: nodeConnections, Start: begin,
		})
	}
	c, err := startCrew(ctx, specs)
	if err != nil {
		return b, 0, err
	}
	defer c.kill()
	if !sleep(ctx, time.Until(begin)) {
		return b, 0, ctx.Err()
	}
	server, own := p.cpu(), c.cpu()
	if err := drained(ctx, p, last); err != nil && !errors.Is(err, errLeft) {
		return b, 0, err
	}
	finished := time.Now()
	if b.Runs, err = p.finished(ctx); err != nil {
		return b, 0, err
	}
	if b.Runs < int64(runs) { // some more ended while they were counted
		finished = finished.Add(time.Since(finished) / 2)
	}
	server, own = p.cpu()-server, c.cpu()-own
	end, err := c.stop()
	if err != nil {
		return b, 0, err
	}
	if int64(len(end.Started)) < b.Runs || b.Runs == 0 {
		return b, 0, fmt.Errorf("%d runs have begun, and %d are on record as finished", len(end.Started), b.Runs)
	}
	b.PerSecond = float64(b.Runs) / finished.Sub(time.UnixMicro(end.First)).Seconds()
	b.ServerMs, b.NodeMs = milliseconds(server)/float64(b.Runs), milliseconds(own)/float64(b.Runs)
	return b, end.Twice, nil
}

// fill enqueues runs, in bulk if that can be.
func fill(ctx context.Context, library, dsn string, runs int) error {
	const atOnce, connections = 5000, 64
	lib, err := open(ctx, spec{Library: library, DSN: dsn, ID: "filler", Connections: connections}, handlers{})
	if err != nil {
		return err
	}
	defer lib.close()
	for from := 0; from < runs; from += atOnce {
		err := lib.enqueueMany(ctx, int64(from), min(atOnce, runs-from))
		if errors.Is(err, errNotInBulk) {
			break
		}
		if err != nil {
			return err
		}
		if from+atOnce >= runs {
			return nil
		}
	}
	_, err = each(connections, func(next func() int64) error {
		for n := next(); n < int64(runs); n = next() {
			if err := lib.enqueue(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// each does the same on each of some connections, with numbers that all of them share, and tells how many were taken.
func each(connections int, do func(next func() int64) error) (int64, error) {
	var count atomic.Int64
	count.Store(-1)
	next := func() int64 { return count.Add(1) }
	var all sync.WaitGroup
	failed := make([]error, connections)
	for i := range connections {
		all.Go(func() { failed[i] = do(next) })
	}
	all.Wait()
	return count.Load() + 1, errors.Join(failed...)
}

// enqueueing calls on some connections, for a while.
func enqueueing(ctx context.Context, name, library string, p queuePeer, connections, atOnce int, last time.Duration) (Enqueue, error) {
	e := Enqueue{Peer: name, Connections: connections, AtOnce: atOnce}
	dsn, err := p.fresh(ctx)
	if err != nil {
		return e, err
	}
	lib, err := open(ctx, spec{Library: library, DSN: dsn, ID: "client", Connections: connections}, handlers{})
	if err != nil {
		return e, err
	}
	defer lib.close()
	call := func(n int64) error {
		if atOnce == 1 {
			return lib.enqueue(ctx, n)
		}
		return lib.enqueueMany(ctx, n*int64(atOnce), atOnce)
	}
	if _, err := each(connections, func(next func() int64) error { return call(next()) }); err != nil { // opens the connections
		return e, err
	}
	begin := time.Now()
	calls, err := each(connections, func(next func() int64) error {
		for time.Since(begin) < last {
			if err := call(next()); err != nil {
				return err
			}
		}
		return nil
	})
	e.PerSecond = float64(calls) * float64(atOnce) / time.Since(begin).Seconds()
	return e, err
}
