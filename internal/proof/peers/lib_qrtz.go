package main

import (
	"context"
	"database/sql"
	"os"

	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz"
)

const (
	libQrtz = "qrtz"

	app       = "bench"
	askedJob  = "asked" // of runs that are enqueued
	tickClass = "tick"  // of schedules
)

type qrtzLibrary struct {
	db *sql.DB
	*qrtz.Scheduler
}

func openQrtz(s spec, h handlers) (library, error) {
	cfg, err := mysql.ParseDSN(s.DSN)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(s.Connections)
	db.SetMaxIdleConns(s.Connections)
	log := zerolog.New(os.Stderr).Level(zerolog.WarnLevel)
	if !s.Works {
		log = zerolog.Nop() // that no process has a handler yet is no news
	}
	q, err := qrtz.Open(db, qrtz.Config{App: app, DSN: s.DSN, NodeID: s.ID, Workers: s.Workers, Logger: &log})
	if err != nil {
		return nil, err
	}
	if s.Works {
		qrtz.Handle(q, askedJob, func(_ context.Context, _ *qrtz.Run, n int64) error {
			h.asked(n)
			return nil
		})
		qrtz.Handle(q, tickClass, func(_ context.Context, run *qrtz.Run, _ struct{}) error {
			h.fired(run.FireTime)
			return nil
		})
	}
	return &qrtzLibrary{db: db, Scheduler: q}, nil
}

func (q *qrtzLibrary) about() string { return "qrtz" }

func (q *qrtzLibrary) enqueue(ctx context.Context, n int64) error {
	_, err := q.Enqueue(ctx, askedJob, n)
	return err
}

func (q *qrtzLibrary) enqueueMany(ctx context.Context, from int64, count int) error {
	requests := make([]qrtz.Request, count)
	for i := range requests {
		requests[i] = qrtz.Request{Job: askedJob, Data: from + int64(i)}
	}
	_, err := q.EnqueueMany(ctx, requests)
	return err
}

func (q *qrtzLibrary) work(ctx context.Context) error { return q.Run(ctx) }

func (q *qrtzLibrary) close() { _ = q.db.Close() }
