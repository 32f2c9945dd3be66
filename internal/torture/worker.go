package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz"
)

// workerEnv makes the program a worker; its value is a workerSpec.
const workerEnv = "QRTZ_TORTURE_WORKER"

// workerSpec is what a worker process is told.
type workerSpec struct {
	DSN, App, ID string
	Workers      int

	Poll, Misfire, MisfireAfter, NodeTimeout, Drain time.Duration

	Record string // file for the handlers' own account
	Seed   uint64 // of its clock
}

func (s workerSpec) config(log *zerolog.Logger) qrtz.Config {
	return qrtz.Config{
		App: s.App, NodeID: s.ID, Workers: s.Workers,
		PollInterval: s.Poll, MisfireInterval: s.Misfire, MisfireAfter: s.MisfireAfter, NodeTimeout: s.NodeTimeout, DrainTimeout: s.Drain,
		Logger: log, Wall: jumpingClock(s.Seed),
	}
}

func workerMain(text string) int {
	var spec workerSpec
	log := zerolog.New(os.Stderr).With().Timestamp().Int("pid", os.Getpid()).Logger()
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		log.Error().Err(err).Msg("spec")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := work(ctx, spec, log); err != nil {
		log.Error().Err(err).Msg("worker")
		return 1
	}
	return 0
}

func work(ctx context.Context, spec workerSpec, log zerolog.Logger) (err error) {
	db, err := sql.Open("mysql", spec.DSN)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxIdleConns(8)
	record, err := os.OpenFile(spec.Record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, record.Close()) }()

	s, err := qrtz.Open(db, spec.config(&log))
	if err != nil {
		return err
	}
	w := &worker{record: record}
	for class, behave := range classes() {
		qrtz.Handle(s, class, func(ctx context.Context, r *qrtz.Run, _ struct{}) error { return w.carryOut(ctx, r, behave) })
	}
	for { // as a supervisor does: a database that is away when a process starts is an error
		err := s.Run(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		log.Warn().Err(err).Msg("cannot start yet")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// jumpingClock is a machine's clock that is wrong by up to an hour, and by something else every few seconds.
func jumpingClock(seed uint64) func() time.Time {
	start := time.Now()
	return func() time.Time {
		now := time.Now()
		epoch := uint64(now.Sub(start) / (7 * time.Second))
		dice := rand.New(rand.NewPCG(seed, epoch))
		return now.Add(time.Duration(dice.Int64N(int64(2*time.Hour))) - time.Hour)
	}
}

// entry is a line of the handlers' account: a start, or the end of one.
type entry struct {
	Start    int64  // which start of this process
	End      bool   `json:",omitempty"`
	Ok       bool   `json:",omitempty"` // of an end: the handler returned nil
	At       int64  // µs
	Run, Job int64  `json:",omitempty"`
	Class    string `json:",omitempty"`
	Execute  int64  `json:",omitempty"`
	Fire     int64  `json:",omitempty"` // ms
	Attempt  int    `json:",omitempty"`
	Recovers int64  `json:",omitempty"`
	Fence    int64  `json:",omitempty"`
}

type worker struct {
	starts atomic.Int64
	mu     sync.Mutex
	record *os.File
}

// write adds a line with one system call, so that a kill leaves all of it or nothing.
func (w *worker) write(e entry) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.record.Write(append(line, '\n')); err != nil {
		panic(fmt.Sprintf("the handlers' account cannot be kept: %v", err))
	}
}

// carryOut records the start, behaves as its class does, and records the end, however it ends.
func (w *worker) carryOut(ctx context.Context, r *qrtz.Run, behave behaviour) (err error) {
	n := w.starts.Add(1)
	w.write(entry{
		Start: n, At: time.Now().UnixMicro(), Run: r.ID, Job: r.JobID, Class: r.Class, Execute: r.ExecuteID, Fire: r.FireTime.UnixMilli(),
		Attempt: r.Attempt, Recovers: r.RecoveryOf, Fence: r.Fence,
	})
	ok := false
	defer func() { w.write(entry{Start: n, End: true, Ok: ok, At: time.Now().UnixMicro()}) }()
	err = behave(ctx, r)
	ok = err == nil
	return err
}

// stubborn is the class that does not end when its context does.
const stubborn = "stubborn"

// behaviour is what a handler of a class does.
type behaviour func(ctx context.Context, r *qrtz.Run) error

var errFailed = errors.New("failed, as it does now and then")

func classes() map[string]behaviour {
	return map[string]behaviour{
		"quick": func(ctx context.Context, _ *qrtz.Run) error { return pass(ctx, upTo(20*time.Millisecond)) },
		"slow": func(ctx context.Context, r *qrtz.Run) error {
			r.Message("on its way")
			for percent := range 10 {
				if err := pass(ctx, upTo(300*time.Millisecond)); err != nil {
					return err
				}
				r.Progress(percent * 10)
			}
			return nil
		},
		"exclusive": func(ctx context.Context, _ *qrtz.Run) error {
			return pass(ctx, 20*time.Millisecond+upTo(500*time.Millisecond))
		},
		"failing": func(ctx context.Context, _ *qrtz.Run) error {
			if err := pass(ctx, upTo(50*time.Millisecond)); err != nil {
				return err
			}
			switch rand.IntN(10) {
			case 0, 1, 2:
				return errFailed
			case 3:
				panic("as it does now and then")
			case 4:
				runtime.Goexit()
			}
			return nil
		},
		"long": func(ctx context.Context, _ *qrtz.Run) error { // now and then longer than a node takes to be declared dead
			if rand.IntN(4) > 0 {
				return nil
			}
			return pass(ctx, upTo(9*time.Second))
		},
		stubborn: func(ctx context.Context, _ *qrtz.Run) error { // outlives its timeout and does not care
			if rand.IntN(20) == 0 {
				return pass(context.WithoutCancel(ctx), upTo(8*time.Second))
			}
			return nil
		},
	}
}

// pass lets time pass, or returns why it may not.
func pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func upTo(most time.Duration) time.Duration { return rand.N(most) }
