package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz"
)

// Growth is what becomes of one load as something else grows: the history, the number of executes, or that of nodes.
type Growth struct {
	What  string `json:"what"`
	Size  int    `json:"size"` // of what grows
	Nodes int    `json:"nodes"`
	Step
}

// NodesAtRest is what a cluster costs that has nothing to do.
type NodesAtRest struct {
	Nodes      int     `json:"nodes"`
	Statements float64 `json:"statements"` // a second, of all nodes together
	ServerCPU  float64 `json:"server_cores"`
	NodeCPU    float64 `json:"node_cores"` // of all nodes together
}

// PassAtRest is what a pass of the misfire handler costs that finds nothing to do.
type PassAtRest struct {
	What       string  `json:"what"`
	Ms         float64 `json:"ms"` // the middle of several
	Statements float64 `json:"statements"`
	ServerMs   float64 `json:"server_ms"` // processor time
}

// growthExtent is how much of growth is measured.
type growthExtent struct {
	history     []int // finished runs
	historyLoad int   // fires a second of each of as many executes
	rareLoad    int   // fires a second
	rare        []int // executes that share them
	nodes       []int
	nodeLoads   []growthLoad
	settle      time.Duration
	window      time.Duration
	restFor     time.Duration
	jobs        int // of a pass at rest
	pending     int
	passes      int
}

// growthLoad is a number of fires a second for nodes with so many workers each.
type growthLoad struct {
	rate, workers int
}

var (
	fullGrowth = growthExtent{
		history: []int{0, 1_000_000, 10_000_000}, historyLoad: 12_000,
		rareLoad: 30_000, rare: []int{30_000, 1_000_000},
		nodes: []int{1, 3, 8, 30}, nodeLoads: []growthLoad{{2000, defaultWorkers}, {20_000, 500}},
		settle: time.Second, window: 10 * time.Second, restFor: 20 * time.Second,
		jobs: 1_000_000, pending: 100_000, passes: 15,
	}
	quickGrowth = growthExtent{
		history: []int{0, 1_000_000}, historyLoad: 12_000,
		rareLoad: 30_000, rare: []int{30_000, 1_000_000},
		nodes: []int{1, 3, 8, 30}, nodeLoads: []growthLoad{{2000, defaultWorkers}},
		settle: time.Second, window: 5 * time.Second, restFor: 15 * time.Second,
		jobs: 1_000_000, pending: 100_000, passes: 7,
	}
)

const (
	whatHistory = "finished runs"
	whatRare    = "executes"
	whatNodes   = "nodes"
)

// growthHistory measures one node under one load, with more and more finished runs of the same executes. A database that has just
// been filled is cold: of a large one the server's memory holds little.
func (s *site) growthHistory(ctx context.Context, r *Report) error {
	for _, runs := range s.growing.history {
		t := trial{
			load:  load{Class: tick, Executes: s.growing.historyLoad, Every: time.Second, Spread: true, History: qrtz.HistoryAll},
			Nodes: 1, Workers: s.Workers, Settle: s.growing.settle, Window: s.growing.window,
			prepare: func(d *database) error { return s.fillHistory(ctx, d, runs, s.growing.historyLoad) },
		}
		if err := s.grow(ctx, r, whatHistory, runs, t); err != nil {
			return err
		}
	}
	return nil
}

// growthRare measures one node that starts as many fires a second of few executes that fire often, and of many that fire rarely.
func (s *site) growthRare(ctx context.Context, r *Report) error {
	for _, executes := range s.growing.rare {
		t := trial{
			load: load{
				Class: tick, Executes: executes, Every: time.Duration(executes) * time.Second / time.Duration(s.growing.rareLoad),
				Spread: true, History: qrtz.HistoryNone,
			},
			Nodes: 1, Workers: s.Workers, Settle: s.growing.settle, Window: s.growing.window,
		}
		if err := s.grow(ctx, r, whatRare, executes, t); err != nil {
			return err
		}
	}
	return nil
}

// growthNodes measures more and more nodes under the same load.
func (s *site) growthNodes(ctx context.Context, r *Report) error {
	for _, l := range s.growing.nodeLoads {
		for _, nodes := range s.growing.nodes {
			t := trial{
				load:  load{Class: tick, Executes: l.rate, Every: time.Second, Spread: true, History: qrtz.HistoryAll},
				Nodes: nodes, Workers: l.workers, Settle: s.growing.settle, Window: s.growing.window,
			}
			if err := s.grow(ctx, r, whatNodes, nodes, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *site) grow(ctx context.Context, r *Report, what string, size int, t trial) error {
	o, err := s.try(ctx, t)
	if err != nil {
		return err
	}
	g := Growth{What: what, Size: size, Nodes: t.Nodes, Step: o.step(t)}
	r.Growth = append(r.Growth, g)
	s.say("growth: %d %s, %d nodes: %d/s due, %.0f/s started, p50 %.2f ms, p99 %.2f ms late, %.4f statements and %.3f ms of the server a fire, %d lock waits, cores: nodes %.2f, server %.2f",
		size, what, t.Nodes, g.Offered, g.Fires, g.Late.P50, g.Late.P99, g.Statements, g.serverMs(), g.LockWaits, g.NodeCores, g.ServerCPU)
	return nil
}

// serverMs is the server's processor time for a fire.
func (s Step) serverMs() float64 { return 1000 * s.ServerCPU / max(s.Fires, 1) }

// growthRest measures more and more nodes whose next fire is days away.
func (s *site) growthRest(ctx context.Context, r *Report) error {
	for _, nodes := range s.growing.nodes {
		one, err := s.nodesAtRest(ctx, nodes)
		if err != nil {
			return err
		}
		r.NodesAtRest = append(r.NodesAtRest, one)
		s.say("growth: %d nodes at rest: %.1f statements/s, cores: server %.4f, nodes %.4f", nodes, one.Statements, one.ServerCPU, one.NodeCPU)
	}
	return nil
}

func (s *site) nodesAtRest(ctx context.Context, nodes int) (NodesAtRest, error) {
	d, err := s.database(ctx)
	if err != nil {
		return NodesAtRest{}, err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	l := load{Class: tick, Executes: 1000, Every: day, First: time.Now().Add(30 * day), Spread: true, History: qrtz.HistoryAll}
	if err := d.store(ctx, l); err != nil {
		return NodesAtRest{}, err
	}
	from := time.Now().Add(restSettle + joinsIn(nodes))
	end := from.Add(s.growing.restFor)
	f, err := s.startNodes(ctx, d, nodes, NodeOptions{From: from, Until: end})
	if err != nil {
		return NodesAtRest{}, err
	}
	defer f.kill()
	did, err := s.counted(ctx, from, end)
	if err != nil {
		return NodesAtRest{}, err
	}
	sum, err := f.stop()
	seconds := s.growing.restFor.Seconds()
	return NodesAtRest{nodes, float64(did.Statements) / seconds, did.Server.Seconds() / seconds, sum.CPU.Seconds() / seconds}, err
}

const (
	manyJobsSQL = `
INSERT INTO QRTZ_JOB (APPLICATION, NAME, STATE, JOB_CLASS, UPDATE_TIME) SELECT ?, N, 'INIT', ?, 0 FROM %s X WHERE N < ?`

	elsewhere = "elsewhere" // a class that no node handles
)

// growthPass measures a pass that finds nothing to do: with nothing stored, with many jobs, and with many pending runs that no node
// has a handler for.
func (s *site) growthPass(ctx context.Context, r *Report) error {
	for _, one := range []struct {
		what  string
		store func(d *database) error
	}{
		{"nothing", func(*database) error { return nil }},
		{figure(float64(s.growing.jobs)) + " jobs", func(d *database) error {
			_, err := d.ExecContext(ctx, fmt.Sprintf(manyJobsSQL, numbers(s.growing.jobs)), benchApp, elsewhere, s.growing.jobs)
			return err
		}},
		{figure(float64(s.growing.pending)) + " pending runs", func(d *database) error {
			if _, err := d.ExecContext(ctx, askedJobSQL, benchApp, elsewhere, elsewhere); err != nil {
				return err
			}
			due := time.Now().UnixMilli()
			_, err := d.ExecContext(ctx, fmt.Sprintf(backlogSQL, numbers(s.growing.pending)), benchApp, elsewhere, due, due, s.growing.pending)
			return err
		}},
	} {
		p, err := s.passAtRest(ctx, one.store)
		if err != nil {
			return err
		}
		p.What = one.what
		r.PassAtRest = append(r.PassAtRest, p)
		s.say("growth: a pass with %s stored takes %.1f ms, %.1f ms of the server and %.0f statements", p.What, p.Ms, p.ServerMs, p.Statements)
	}
	return nil
}

func (s *site) passAtRest(ctx context.Context, store func(*database) error) (PassAtRest, error) {
	d, err := s.database(ctx)
	if err != nil {
		return PassAtRest{}, err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	if err := store(d); err != nil {
		return PassAtRest{}, err
	}
	quiet := zerolog.Nop() // it would say that no node handles the pending runs
	scheduler, err := qrtz.Open(d.DB.DB, qrtz.Config{App: benchApp, Logger: &quiet})
	if err != nil {
		return PassAtRest{}, err
	}
	qrtz.Handle(scheduler, tick, func(context.Context, *qrtz.Run, struct{}) error { return nil })
	m, err := scheduler.Manual(ctx, "pass")
	if err != nil {
		return PassAtRest{}, err
	}
	defer func() { _, _ = m.Stop(context.WithoutCancel(ctx)) }()
	pass := func() error {
		_, _, err := m.RunDue(ctx) // which is a pass, and a look at what is due
		return err
	}
	if err := pass(); err != nil { // the first one has more to do
		return PassAtRest{}, err
	}
	before, err := s.counters(ctx)
	if err != nil {
		return PassAtRest{}, err
	}
	times := make([]time.Duration, s.growing.passes)
	for i := range times {
		began := time.Now()
		if err := pass(); err != nil {
			return PassAtRest{}, err
		}
		times[i] = time.Since(began)
	}
	after, err := s.counters(ctx)
	did, n := after.since(before), float64(s.growing.passes)
	return PassAtRest{Ms: ms(median(times)), Statements: float64(did.Statements) / n, ServerMs: ms(did.Server) / n}, err
}
