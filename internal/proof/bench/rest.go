package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// Rest is what a node costs that has nothing to do, and its two frequent queries, by the number of executes stored.
type Rest struct {
	Stored     int     `json:"stored"`
	Statements float64 `json:"statements"` // a second
	ServerCPU  float64 `json:"server_cores"`
	NodeCPU    float64 `json:"node_cores"`
	PollMs     float64 `json:"poll_ms"`  // reading what is due, the middle of many
	SweepMs    float64 `json:"sweep_ms"` // looking for what others left lying
	HeapMB     float64 `json:"heap_mb"`
	ResidentMB float64 `json:"resident_mb"`
}

// Memory is that of a node with many fires in its window.
type Memory struct {
	Planned    int     `json:"planned"`
	HeapMB     float64 `json:"heap_mb"`
	ResidentMB float64 `json:"resident_mb"`
	PeakMB     float64 `json:"peak_mb"`
}

const (
	restSettle = 8 * time.Second // from start to what is measured
	polled     = 100             // executes that the poll measured finds due
	pollTimes  = 25
	day        = 24 * time.Hour
)

// rest measures a node whose next fire is days away.
func (s *site) rest(ctx context.Context, r *Report) error {
	for _, stored := range s.stored {
		one, err := s.restWith(ctx, stored)
		if err != nil {
			return err
		}
		r.Rest = append(r.Rest, one)
		s.say("rest: %d executes stored: %.1f statements/s, cores: server %.4f, node %.4f; a poll with %d due takes %.2f ms, a sweep %.2f ms",
			stored, one.Statements, one.ServerCPU, one.NodeCPU, polled, one.PollMs, one.SweepMs)
	}
	return nil
}

func (s *site) restWith(ctx context.Context, stored int) (Rest, error) {
	d, err := s.database(ctx)
	if err != nil {
		return Rest{}, err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	now := time.Now().Truncate(time.Second)
	due := now.Add(10 * day)
	for _, l := range []load{
		{Class: tick, Executes: stored, Every: day, First: now.Add(30 * day), Spread: true, History: qrtz.HistoryAll},
		{Class: hold, Executes: polled, Every: 5 * time.Second, First: due, Spread: true, History: qrtz.HistoryAll},
	} {
		if err := d.store(ctx, l); err != nil {
			return Rest{}, err
		}
	}
	from := time.Now().Add(restSettle)
	end := from.Add(s.restFor)
	f, err := s.startNodes(ctx, d, 1, NodeOptions{From: from, Until: end})
	if err != nil {
		return Rest{}, err
	}
	defer f.kill()
	did, err := s.counted(ctx, from, end)
	if err != nil {
		return Rest{}, err
	}
	one := Rest{Stored: stored, Statements: float64(did.Statements) / s.restFor.Seconds(), ServerCPU: did.Server.Seconds() / s.restFor.Seconds()}
	if one.PollMs, one.SweepMs, err = d.queries(ctx, due); err != nil {
		return one, err
	}
	sum, err := f.stop()
	one.NodeCPU, one.HeapMB, one.ResidentMB = sum.CPU.Seconds()/s.restFor.Seconds(), sum.HeapMB, sum.ResidentMB
	return one, err
}

// queries times what a poll reads of a window that begins at from, and a sweep with nothing to find.
func (d *database) queries(ctx context.Context, from time.Time) (pollMs, sweepMs float64, err error) {
	store := execute.NewStore(d.DB, schema.DefaultPrefix, benchApp, run.NewStore(d.DB, schema.DefaultPrefix, benchApp))
	pollMs, err = middle(func() error {
		found, err := store.Due(ctx, from, from.Add(6*time.Second), nil, func(int64, string) bool { return true })
		if err == nil && len(found) != polled {
			err = fmt.Errorf("the poll found %d executes instead of %d", len(found), polled)
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	now := time.Now()
	look := execute.Look{NodeID: "node-1", Classes: []string{hold, tick}, From: now.Add(-time.Minute), Until: now, Now: now, Since: now}
	sweepMs, err = middle(func() error {
		_, err := store.Glance(ctx, look)
		return err
	})
	return pollMs, sweepMs, err
}

// middle is the median duration of a call, in milliseconds.
func middle(call func() error) (float64, error) {
	times := make([]time.Duration, pollTimes)
	for i := range times {
		began := time.Now()
		if err := call(); err != nil {
			return 0, err
		}
		times[i] = time.Since(began)
	}
	return ms(median(times)), nil
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// memory measures a node that has planned many fires and started none yet: its poll is slow, its window long.
func (s *site) memory(ctx context.Context, r *Report) error {
	const poll, first, at = 30 * time.Second, 25 * time.Second, 15 * time.Second
	d, err := s.database(ctx)
	if err != nil {
		return err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	now := time.Now()
	err = d.store(ctx, load{Class: tick, Executes: s.planned, Every: 5 * time.Second, First: now.Add(first), Spread: true, History: qrtz.HistoryAll})
	if err != nil {
		return err
	}
	from := now.Add(at)
	f, err := s.startNodes(ctx, d, 1, NodeOptions{Poll: poll, From: from, Until: from.Add(time.Second)})
	if err != nil {
		return err
	}
	defer f.kill()
	if !sleep(ctx, time.Until(from.Add(2*time.Second))) {
		return ctx.Err()
	}
	sum, err := f.stop()
	r.Memory = &Memory{Planned: s.planned, HeapMB: sum.HeapMB, ResidentMB: sum.ResidentMB, PeakMB: sum.PeakMB}
	s.say("memory: %d fires in the window of a node: heap %.0f MB, resident %.0f MB, at most %.0f MB", s.planned, sum.HeapMB, sum.ResidentMB, sum.PeakMB)
	return err
}
