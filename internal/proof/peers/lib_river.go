package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

const (
	libRiver = "River"

	riverCooldown = 5 * time.Millisecond // of fetches, tuned; 100 ms is the default
	riverPoll     = 50 * time.Millisecond
)

type riverLibrary struct {
	spec
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

// riverTask is a run.
type riverTask struct {
	N int64 `json:"n"`
}

// Kind names what is to be carried out.
func (riverTask) Kind() string { return askedJob }

type riverWorker struct {
	river.WorkerDefaults[riverTask]
	asked func(n int64)
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverTask]) error {
	w.asked(job.Args.N)
	return nil
}

func openRiver(ctx context.Context, s spec, h handlers) (library, error) {
	cfg, err := pgxpool.ParseConfig(s.DSN)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(s.Connections)
	r := &riverLibrary{spec: s}
	if r.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	r.client, err = river.NewClient(riverpgxv5.New(r.pool), r.config(h))
	return r, err
}

func (r *riverLibrary) config(h handlers) *river.Config {
	c := &river.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	if r.Tuned {
		c.FetchCooldown, c.FetchPollInterval = riverCooldown, riverPoll
	}
	if r.Works {
		c.ID, c.Workers = r.ID, river.NewWorkers()
		river.AddWorker(c.Workers, &riverWorker{asked: h.asked})
		c.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: r.Workers}}
	}
	return c
}

func (r *riverLibrary) about() string { return version("github.com/riverqueue/river") }

func (r *riverLibrary) enqueue(ctx context.Context, n int64) error {
	_, err := r.client.Insert(ctx, riverTask{N: n}, nil)
	return err
}

func (r *riverLibrary) enqueueMany(ctx context.Context, from int64, count int) error {
	tasks := make([]river.InsertManyParams, count)
	for i := range tasks {
		tasks[i] = river.InsertManyParams{Args: riverTask{N: from + int64(i)}}
	}
	_, err := r.client.InsertManyFast(ctx, tasks)
	return err
}

func (r *riverLibrary) work(ctx context.Context) error {
	if err := r.client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit/2)
	defer cancel()
	return r.client.Stop(stop)
}

func (r *riverLibrary) close() { r.pool.Close() }
