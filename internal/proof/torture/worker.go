package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"strings"
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

	Pool      int  `json:",omitempty"` // connections at most; 0 for as many as it likes
	Borrows   bool `json:",omitempty"` // its scheduler takes its connections out of the pool, so that transactions go step by step
	Namespace bool `json:",omitempty"` // process ids are its own

	Record string        // file for the handlers' own account
	Sample time.Duration // between measurements of what it uses
	Seed   uint64        // of its clock
}

func (s workerSpec) config(log *zerolog.Logger) qrtz.Config {
	own := s.DSN
	if s.Borrows {
		own = ""
	}
	return qrtz.Config{
		App: s.App, DSN: own, NodeID: s.ID, Workers: s.Workers,
		PollInterval: s.Poll, MisfireInterval: s.Misfire, MisfireAfter: s.MisfireAfter, NodeTimeout: s.NodeTimeout, DrainTimeout: s.Drain,
		Logger: log, Wall: jumpingClock(s.Seed),
	}
}

func workerMain(text string) int {
	var spec workerSpec
	zerolog.TimeFieldFormat = time.RFC3339Nano
	log := zerolog.New(os.Stderr).With().Timestamp().Int("pid", os.Getpid()).Logger()
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		log.Error().Err(err).Msg("spec")
		return 2
	}
	if spec.Namespace {
		if err := ownProc(); err != nil {
			log.Error().Err(err).Msg("/proc")
			return 2
		}
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
	defer func() { _ = db.Close() }() // of a line that has broken meanwhile it is an error
	db.SetMaxIdleConns(8)
	db.SetMaxOpenConns(spec.Pool)
	record, err := os.OpenFile(spec.Record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, record.Close()) }()

	if err := watchSelf(ctx, useOf(spec.Record), spec.Sample); err != nil {
		return err
	}
	w := &worker{record: record}
	told := log.Hook(zerolog.HookFunc(w.hear))
	s, err := qrtz.Open(db, spec.config(&told))
	if err != nil {
		return err
	}
	behaviours := classes(db, spec.NodeTimeout)
	maps.Copy(behaviours, w.promiseClasses(db, spec.Drain))
	maps.Copy(behaviours, w.exactClasses(spec.NodeTimeout, spec.Drain))
	for class, behave := range behaviours {
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
	Node     string `json:",omitempty"` // as the handler was told
	Key      string `json:",omitempty"` // of its run
	Of       int64  `json:",omitempty"` // the run of which a line says how far it is; then only:
	Loaded   int    `json:",omitempty"` // one more than the step that it began at
	Saved    int    `json:",omitempty"` // the step that it has saved
	Told     int    `json:",omitempty"` // one more than the percentage that it has told
	Said     string `json:",omitempty"` // by the scheduler, in its log; then nothing of the above
	ending
}

// ending is what the end of a run says besides: why its context ended, if it had, and what the handler asked for.
type ending struct {
	Cause string `json:",omitempty"`
	Final bool   `json:",omitempty"` // no further attempt (qrtz.NoRetry)
	After int64  `json:",omitempty"` // the next attempt after so many ms (qrtz.RetryAfter)
}

// endingOf is how a run ended whose handler returned err.
func endingOf(ctx context.Context, err error) (e ending) {
	for cause, text := range map[error]string{qrtz.ErrDrained: drained, qrtz.ErrCancelled: cancelled, qrtz.ErrTimedOut: timedOut, qrtz.ErrFenced: fenced} {
		if errors.Is(context.Cause(ctx), cause) {
			e.Cause = text
		}
	}
	var later laterError
	if errors.As(err, &later) {
		e.After = time.Duration(later).Milliseconds()
	}
	e.Final = errors.Is(err, errGivenUp)
	return e
}

// What ends the context of a run; fenced is another one.
const (
	drained   = "drained"
	cancelled = "cancelled"
	timedOut  = "timed out"
)

// hear keeps what the scheduler says of its place in the cluster.
func (w *worker) hear(_ *zerolog.Event, _ zerolog.Level, message string) {
	if message == joined || strings.HasPrefix(message, fenced) {
		w.write(entry{Said: message, At: time.Now().UnixMicro()})
	}
}

// What the scheduler says when it has joined the cluster, and how it begins when it has lost its place.
const (
	joined = "joined"
	fenced = "fenced"
)

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
		Start: n, At: time.Now().UnixMicro(), Run: r.ID, Job: r.JobID, Class: r.Class, Execute: r.ScheduleID, Fire: r.FireTime.UnixMilli(),
		Attempt: r.Attempt, Recovers: r.RecoveryOf, Fence: r.Fence, Node: r.Node, Key: r.Key(),
	})
	ok := false
	var how ending
	defer func() { w.write(entry{Start: n, End: true, Ok: ok, At: time.Now().UnixMicro(), ending: how}) }()
	err = behave(ctx, r)
	ok = err == nil
	how = endingOf(ctx, err)
	if errors.Is(err, errLied) {
		return nil
	}
	return err
}

// stubborn is the class that does not end when its context does.
const stubborn = "stubborn"

// behaviour is what a handler of a class does.
type behaviour func(ctx context.Context, r *qrtz.Run) error

// refusedMessage is a text that QRTZ_RUN takes for no message, by a constraint of ours.
const refusedMessage = "refused by the table"

var errFailed = errors.New("failed, as it does now and then")

func classes(db *sql.DB, nodeTimeout time.Duration) map[string]behaviour {
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
		"holding": func(ctx context.Context, _ *qrtz.Run) error { // a transaction of the pool that the scheduler was given
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }() // nothing was done in it
			return pass(ctx, nodeTimeout*7/10)
		},
		"refused": func(_ context.Context, r *qrtz.Run) error { // the table refuses what it says
			r.Message(pick(rand.New(rand.NewPCG(uint64(r.ID), 6)), refusedMessage, "\U0001F980 a crab"))
			if r.ID%3 == 0 {
				return fmt.Errorf("%w: %s", errFailed, refusedMessage)
			}
			return nil
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
