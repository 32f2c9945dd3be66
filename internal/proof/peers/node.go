package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// specEnv is where a process finds what to do: an argument would show the password of its database.
const specEnv = "PEERS_NODE"

// spec is what one process of a Go library does. Its clock is also the server's and that of all others: they share a machine.
type spec struct {
	Library     string    `json:"library"`
	DSN         string    `json:"dsn"`
	ID          string    `json:"id"`
	Works       bool      `json:"works"` // it carries out what there is
	Workers     int       `json:"workers"`
	Tuned       bool      `json:"tuned"`
	Connections int       `json:"connections"`
	Start       time.Time `json:"start"` // when it begins to work
	Windows     []span    `json:"windows"`
	Asks        []ask     `json:"asks"`
}

// span is from a point in time to another.
type span struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

func (s span) has(t time.Time) bool { return !t.Before(s.From) && t.Before(s.Until) }

// ask is how many runs a process enqueues for a while.
type ask struct {
	span
	Rate int `json:"rate"` // a second
}

// library is what a process, or the benchmark itself, does by one of the Go libraries. Runs are known by numbers.
type library interface {
	about() string
	enqueue(ctx context.Context, n int64) error
	// enqueueMany enqueues runs from a number on, in one call, or returns errNotInBulk.
	enqueueMany(ctx context.Context, from int64, count int) error
	// work carries out runs until ctx ends.
	work(ctx context.Context) error
	close()
}

// handlers are told of a start, in their first line.
type handlers struct {
	asked func(n int64)        // a run that was enqueued
	fired func(fire time.Time) // a fire
}

var errNotInBulk = errors.New("it does not enqueue in bulk")

// open opens the library of a spec, whose runs these handlers carry out.
func open(ctx context.Context, s spec, h handlers) (library, error) {
	switch s.Library {
	case libQrtz:
		return openQrtz(s, h)
	case libRiver:
		return openRiver(ctx, s, h)
	case libAsynq:
		return openAsynq(s, h)
	}
	return nil, fmt.Errorf("no library %q", s.Library)
}

const mostNoted = 200_000 // runs of which a process keeps the times

// recorder is what a process has seen.
type recorder struct {
	spec

	mu      sync.Mutex
	end     ending
	windows []window
}

func (r *recorder) asked(n int64) {
	now := time.Now().UnixMicro()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end.First == 0 {
		r.end.First = now
	}
	if _, ok := r.end.Started[n]; ok {
		r.end.Twice++
	} else if len(r.end.Started) < mostNoted {
		r.end.Started[n] = now
	}
}

func (r *recorder) committed(n int64) {
	now := time.Now().UnixMicro()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end.Committed[n] = now
}

func (r *recorder) fired(fire time.Time) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range r.Windows {
		if w.has(now) {
			r.windows[i].Late = append(r.windows[i].Late, now.Sub(fire).Microseconds())
		}
	}
}

// report says of each window what was seen in it, once it is over.
func (r *recorder) report(ctx context.Context, say func(line)) {
	for i, w := range r.Windows {
		if !sleep(ctx, time.Until(w.Until)+time.Millisecond) {
			return
		}
		r.mu.Lock()
		seen := r.windows[i]
		r.mu.Unlock()
		say(line{Window: &seen})
	}
}

// node is a process of a measurement. It ends when in does.
func node(ctx context.Context, in io.Reader, out io.Writer) error {
	r := &recorder{end: ending{Started: map[int64]int64{}, Committed: map[int64]int64{}}}
	if err := json.Unmarshal([]byte(os.Getenv(specEnv)), &r.spec); err != nil {
		return fmt.Errorf("%s: %w", specEnv, err)
	}
	for i := range r.Windows {
		r.windows = append(r.windows, window{Index: i})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // until the parent closes it, or is gone
		cancel()
	}()
	lib, err := open(ctx, r.spec, handlers{asked: r.asked, fired: r.fired})
	if err != nil {
		return err
	}
	defer lib.close()
	var mu sync.Mutex
	lines := json.NewEncoder(out)
	say := func(l line) {
		mu.Lock()
		defer mu.Unlock()
		_ = lines.Encode(l) // a parent that is gone has no use for it
	}
	say(line{Ready: lib.about()})
	var side sync.WaitGroup
	var failed error
	side.Go(func() { r.report(ctx, say) })
	side.Go(func() {
		if err := r.ask(ctx, lib); err != nil && ctx.Err() == nil {
			failed = err
			cancel()
		}
	})
	if r.Works {
		sleep(ctx, time.Until(r.Start))
		err = lib.work(ctx)
	}
	if err == nil {
		<-ctx.Done()
	}
	cancel()
	side.Wait()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	say(line{End: &r.end})
	return nil
}

// ask enqueues at an uneven pace.
func (r *recorder) ask(ctx context.Context, lib library) error {
	n := int64(0)
	for _, a := range r.Asks {
		pause := time.Second / time.Duration(a.Rate)
		for next := a.From; next.Before(a.Until) && time.Now().Before(a.Until); next = next.Add(pause/2 + rand.N(pause)) {
			if !sleep(ctx, time.Until(next)) {
				return nil
			}
			n++
			if err := lib.enqueue(ctx, n); err != nil {
				return err
			}
			r.committed(n)
		}
	}
	return nil
}
