package bench

import (
	"context"
	"math"
	"time"

	"github.com/qrtz-go/qrtz"
)

const (
	keptUp  = 0.99        // of the fires due that must have started
	maxLate = time.Second // of all but one in a hundred
)

// Claims is how many fires a second some nodes keep up with.
type Claims struct {
	Nodes   int    `json:"nodes"`
	Workers int    `json:"workers"` // of each node
	History string `json:"history"`
	Heavy   Step   `json:"heavy"`   // under the load that all numbers of nodes are given first, too heavy for most
	Kept    Step   `json:"kept_up"` // under the heaviest load that they kept up with
	Most    Step   `json:"most"`    // where most fires started, whether kept up with or not
	Steps   []Step `json:"steps"`
}

// Step is what one load cost.
type Step struct {
	Offered    int     `json:"offered"` // fires due a second
	Fires      float64 `json:"fires"`   // started a second
	KeptUp     bool    `json:"kept_up"`
	Statements float64 `json:"statements_per_fire"`
	Commits    float64 `json:"commits_per_fire"` // that wrote something
	Syncs      float64 `json:"fsyncs_per_fire"`
	LockWaits  int64   `json:"lock_waits"`
	Deadlocks  int64   `json:"deadlocks"`
	NodeCores  float64 `json:"node_cores"` // busy, of all nodes together
	ServerCPU  float64 `json:"server_cores"`
	Unfinished int     `json:"unfinished"` // runs not yet on record as finished
	Late       Late    `json:"lateness"`
}

// claims finds, for each rule of history and number of nodes, what they keep up with.
func (s *site) claims(ctx context.Context, r *Report) error {
	for _, heavy := range s.heavy {
		for _, nodes := range s.nodes {
			c, err := s.search(ctx, nodes, heavy.history, heavy.load)
			if err != nil {
				return err
			}
			r.Claims = append(r.Claims, c)
		}
	}
	return nil
}

func (s *site) search(ctx context.Context, nodes int, history qrtz.History, first int) (Claims, error) {
	c := Claims{Nodes: nodes, Workers: s.Workers, History: string(history)}
	look := search{first: first, tries: s.tries}
	for offered := look.next(); offered > 0; offered = look.next() {
		step, err := s.step(ctx, nodes, history, offered)
		if err != nil {
			return c, err
		}
		look.note(step)
		if c.Steps = append(c.Steps, step); len(c.Steps) == 1 {
			c.Heavy = step
		}
		if step.KeptUp && step.Offered > c.Kept.Offered {
			c.Kept = step
		}
		if step.Fires > c.Most.Fires {
			c.Most = step
		}
		s.say("claims: %d nodes, history %s: %d/s due, %.0f/s started, p99 %.0f ms late, %.3f statements a fire, cores: nodes %.2f, server %.2f",
			nodes, history, offered, step.Fires, step.Late.P99, step.Statements, step.NodeCores, step.ServerCPU)
	}
	return c, nil
}

func (s *site) step(ctx context.Context, nodes int, history qrtz.History, offered int) (Step, error) {
	t := trial{
		load:  load{Class: tick, Executes: offered, Every: time.Second, Spread: true, History: history},
		Nodes: nodes, Workers: s.Workers, Settle: s.settle, Window: s.window,
	}
	o, err := s.try(ctx, t)
	if err != nil {
		return Step{}, err
	}
	return o.step(t), nil
}

// step is what the load of a trial cost.
func (o *outcome) step(t trial) Step {
	seconds, fires, offered := t.Window.Seconds(), max(float64(o.Fires), 1), t.offered()
	step := Step{
		Offered: offered, Fires: float64(o.Fires) / seconds, Late: o.lateness(), Unfinished: o.Unfinished,
		Statements: float64(o.Did.Statements) / fires, Commits: float64(o.Did.Commits) / fires, Syncs: float64(o.Did.Syncs) / fires,
		LockWaits: o.Did.LockWaits, Deadlocks: o.Did.Deadlocks,
		NodeCores: o.CPU.Seconds() / seconds, ServerCPU: o.Did.Server.Seconds() / seconds,
	}
	step.Late.Curve = nil
	// What was claimed early, at most a second's fires, is no backlog.
	step.KeptUp = step.Fires >= keptUp*float64(offered) && step.Late.P99 < float64(maxLate.Milliseconds()) && o.Unfinished <= offered+t.Nodes*t.Workers
	return step
}

// search looks for the heaviest load that is kept up with: it climbs by a half until one is too heavy, and then closes in.
type search struct {
	first, tries int

	kept, lost int     // the heaviest load that was, the lightest that was not kept up with; 0 for none
	started    float64 // a second, under the load that was too heavy
}

const (
	climb = 1.5
	near  = 1.1  // how near the two loads are when it is enough
	lower = 0.85 // than the lightest that was too heavy, once the tries are used up and none was kept up with
	more  = 4    // so many times
)

// next is the load to try next; 0 when the search is over.
func (s *search) next() int {
	s.tries--
	switch {
	case s.tries < 0 && s.kept == 0 && s.tries >= -more:
		return roundLoad(lower * float64(s.lost))
	case s.tries < 0:
		return 0
	case s.kept == 0 && s.lost == 0:
		return s.first
	case s.lost == 0:
		return roundLoad(climb * float64(s.kept))
	case float64(s.lost) <= near*float64(s.kept):
		return 0
	}
	// What started under too heavy a load says about what the right one is.
	low, high := max(1.05*float64(s.kept), float64(s.lost)/4), float64(s.lost)/1.05
	load := s.started * 0.95
	if load < low || load > high {
		load = (low + high) / 2
	}
	return roundLoad(load)
}

func (s *search) note(step Step) {
	switch {
	case step.KeptUp:
		s.kept = max(s.kept, step.Offered)
	case s.lost == 0 || step.Offered < s.lost:
		s.lost, s.started = step.Offered, step.Fires
	}
}

// roundLoad keeps two figures.
func roundLoad(load float64) int {
	if load < 100 {
		return max(1, int(load))
	}
	unit := math.Pow(10, math.Floor(math.Log10(load))-1)
	return int(math.Round(load/unit) * unit)
}
