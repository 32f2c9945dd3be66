package bench

import (
	"context"
	"time"

	"github.com/qrtz-go/qrtz"
)

// Everyday is what a fire costs at a rate that is no burden, in all and without what the same nodes cost at rest.
type Everyday struct {
	Nodes   int        `json:"nodes"`
	Rate    int        `json:"rate"` // fires a second, of as many executes, at phases spread over the second
	Fire    FireCost   `json:"fire"`
	Beyond  FireCost   `json:"beyond_rest"`
	Rest    SecondCost `json:"rest"`
	Waits   int64      `json:"lock_waits"`
	Missing int        `json:"missing"` // fires that were due and did not start
	Late
}

// FireCost is what each of many fires costs.
type FireCost struct {
	Statements float64 `json:"statements"`
	Commits    float64 `json:"commits"`
	ServerMs   float64 `json:"server_ms"` // processor time
	NodeMs     float64 `json:"node_ms"`   // likewise, of all nodes
}

// SecondCost is what nodes cost in a second.
type SecondCost FireCost

const everydaySettle = 2 * time.Second

// everyday measures rates that are no burden, and the same nodes at rest.
func (s *site) everyday(ctx context.Context, r *Report) error {
	rest, err := s.try(ctx, trial{
		load:  load{Class: tick, Executes: 100, Every: day, History: qrtz.HistoryAll},
		Nodes: lateNodes, Settle: everydaySettle, Window: s.lateFor, Ahead: day,
	})
	if err != nil {
		return err
	}
	idle := perSecond(rest, s.lateFor)
	s.say("everyday: %d nodes at rest: a second %.1f statements, %.2f ms of the server's processor, %.2f of the nodes'", lateNodes, idle.Statements, idle.ServerMs, idle.NodeMs)
	for _, rate := range s.everydayRates {
		t := trial{
			load:  load{Class: tick, Executes: rate, Every: time.Second, Spread: true, History: qrtz.HistoryAll},
			Nodes: lateNodes, Settle: everydaySettle, Window: s.everydayFor,
		}
		o, err := s.try(ctx, t)
		if err != nil {
			return err
		}
		e := costOf(o, idle, t)
		r.Everyday = append(r.Everyday, e)
		s.say("everyday: %d a second: a fire %.2f statements, %.2f commits, server %.3f ms, nodes %.3f ms; less rest %.2f, %.2f, %.3f, %.3f; p50 %.2f ms, p99 %.2f ms, max %.2f ms, %d early, %d missing",
			rate, e.Fire.Statements, e.Fire.Commits, e.Fire.ServerMs, e.Fire.NodeMs, e.Beyond.Statements, e.Beyond.Commits, e.Beyond.ServerMs, e.Beyond.NodeMs,
			e.P50, e.P99, e.Max, e.Early, e.Missing)
	}
	return nil
}

func perSecond(o outcome, window time.Duration) SecondCost {
	n := window.Seconds()
	return SecondCost{float64(o.Did.Statements) / n, float64(o.Did.Commits) / n, ms(o.Did.Server) / n, ms(o.CPU) / n}
}

// costOf divides what a trial took among the fires that were due in it.
func costOf(o outcome, idle SecondCost, t trial) Everyday {
	due := t.due()
	all, fires := perSecond(o, t.Window), float64(due)/t.Window.Seconds()
	return Everyday{
		Nodes: t.Nodes, Rate: t.Executes, Rest: idle, Waits: o.Did.LockWaits, Late: o.lateness(), Missing: due - int(o.Fires),
		Fire: FireCost{all.Statements / fires, all.Commits / fires, all.ServerMs / fires, all.NodeMs / fires},
		Beyond: FireCost{
			(all.Statements - idle.Statements) / fires, (all.Commits - idle.Commits) / fires,
			(all.ServerMs - idle.ServerMs) / fires, (all.NodeMs - idle.NodeMs) / fires,
		},
	}
}
