package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz"
)

// Lateness is how late handlers started under a load that is no burden.
type Lateness struct {
	Nodes   int    `json:"nodes"`
	Workers int    `json:"workers"` // of each node
	Load    string `json:"load"`
	Due     int    `json:"due"` // fires
	Late
}

const (
	lateNodes      = 3
	defaultWorkers = 64
	volleyEvery    = 5 * time.Second
)

// lateness measures steady rates, and many fires at the same instant, of which the last counts.
func (s *site) lateness(ctx context.Context, r *Report) error {
	for _, rate := range s.rates {
		t := trial{
			load:  load{Class: tick, Executes: rate, Every: time.Second, Spread: true, History: qrtz.HistoryAll},
			Nodes: lateNodes, Workers: defaultWorkers, Settle: s.settle, Window: s.lateFor,
		}
		if err := s.late(ctx, r, fmt.Sprintf("%d a second", rate), t); err != nil {
			return err
		}
	}
	for _, by := range s.volleyBy {
		t := trial{
			load:  load{Class: tick, Executes: s.volley, Every: volleyEvery, History: qrtz.HistoryAll},
			Nodes: by.nodes, Workers: s.Workers, Settle: volleyEvery - time.Second, Window: 3 * volleyEvery,
		}
		if by.workers > 0 {
			t.Workers = by.workers
		}
		if err := s.late(ctx, r, fmt.Sprintf("%d at the same instant", s.volley), t); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) late(ctx context.Context, r *Report, name string, t trial) error {
	o, err := s.try(ctx, t)
	if err != nil {
		return err
	}
	l := Lateness{Nodes: t.Nodes, Workers: t.Workers, Load: name, Due: t.due(), Late: o.lateness()}
	r.Lateness = append(r.Lateness, l)
	s.say("lateness: %s, %d nodes with %d workers: %d of %d fires, p50 %.2f ms, p99 %.2f ms, max %.2f ms, %d early",
		name, t.Nodes, t.Workers, l.Fires, l.Due, l.P50, l.P99, l.Max, l.Early)
	return nil
}

// due is how many fires fall into the window, a multiple of the interval.
func (t trial) due() int { return t.Executes * int(t.Window/t.Every) }
