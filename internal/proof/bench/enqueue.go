package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qrtz-go/qrtz"
)

// Enqueue is how fast a program that carries out nothing enqueues runs.
type Enqueue struct {
	Connections int     `json:"connections"`
	AtOnce      int     `json:"at_once"` // runs of one call: 1 by Enqueue, more by EnqueueMany
	PerSecond   float64 `json:"per_second"`
}

// enqueue measures one call after the other on each connection.
func (s *site) enqueue(ctx context.Context, r *Report) error {
	for _, e := range []Enqueue{{Connections: 1, AtOnce: 1}, {Connections: 8, AtOnce: 1}, {Connections: 1, AtOnce: 1000}, {Connections: 1, AtOnce: 10_000}} {
		var err error
		if e.PerSecond, err = s.enqueueing(ctx, e); err != nil {
			return err
		}
		r.Enqueue = append(r.Enqueue, e)
		s.say("enqueue: %d connections, %d at once: %.0f/s", e.Connections, e.AtOnce, e.PerSecond)
	}
	return nil
}

func (s *site) enqueueing(ctx context.Context, e Enqueue) (perSecond float64, err error) {
	d, err := s.database(ctx)
	if err != nil {
		return 0, err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	if err := d.askedJob(ctx); err != nil {
		return 0, err
	}
	client, err := qrtz.Open(d.DB.DB, qrtz.Config{App: benchApp})
	if err != nil {
		return 0, err
	}
	requests := make([]qrtz.Request, e.AtOnce)
	for i := range requests {
		requests[i] = qrtz.Request{Job: asked, Data: i}
	}
	call := func() error {
		if e.AtOnce == 1 {
			_, err := client.Enqueue(ctx, asked, 1)
			return err
		}
		_, err := client.EnqueueMany(ctx, requests)
		return err
	}
	if err := call(); err != nil { // opens the connection
		return 0, err
	}
	var runs atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, e.Connections)
	begin := time.Now()
	for range e.Connections {
		all.Go(func() {
			for time.Since(begin) < s.floorFor {
				if err := call(); err != nil {
					failed <- err
					return
				}
				runs.Add(int64(e.AtOnce))
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	select {
	case err := <-failed:
		return 0, err
	default:
		return float64(runs.Load()) / took.Seconds(), nil
	}
}
