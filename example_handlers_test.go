package qrtz_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz"
)

// A program from its start to its end, which a SIGTERM asks for. Runs that go then have Config.DrainTimeout to finish.
func ExampleScheduler_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dsn := os.Getenv("DSN") // app:secret@tcp(127.0.0.1:3306)/app
	db, err := sql.Open("mysql", dsn)
	must(err)
	s, err := qrtz.Open(db, qrtz.Config{App: "billing", DSN: dsn})
	must(err)
	must(s.Migrate(ctx))
	qrtz.Handle(s, "invoice", func(ctx context.Context, _ *qrtz.Run, i invoice) error { return send(ctx, i) })
	must(s.Declare(ctx, qrtz.Job{Name: "invoice", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 6 1 * ?", "Europe/Berlin")}}))
	must(s.Run(ctx))
}

// A handler gets its data as the type it asks for.
func ExampleHandle() {
	var s *qrtz.Scheduler

	qrtz.Handle(s, "invoice", func(ctx context.Context, run *qrtz.Run, i invoice) error {
		month := run.FireTime.Format("2006-01") // in the time zone of its schedule
		run.Message("invoice of " + month + " to " + i.Customer)
		return send(ctx, i)
	})
	qrtz.Handle(s, "clean", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error { // without data
		return ctx.Err()
	})
}

// Each scheduler has the tables of its prefix.
func ExampleScheduler_Migrate() {
	var db *sql.DB
	ctx := context.Background()

	s, err := qrtz.Open(db, qrtz.Config{App: "billing", Prefix: "BILLING_"})
	must(err)
	must(s.Migrate(ctx)) // BILLING_JOB, BILLING_RUN …
}

// What a handler says of its progress is in QRTZ_RUN within a second, while it runs.
func ExampleRun_Progress() {
	var s *qrtz.Scheduler

	qrtz.Handle(s, "import", func(ctx context.Context, run *qrtz.Run, files []string) error {
		for i, file := range files {
			run.Progress(100 * i / len(files))
			run.Message("reads " + file)
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx) // why: timed out, cancelled …
			}
		}
		return nil
	})
}

// logged logs how each run ended, and how long it took.
func logged(next qrtz.Handler) qrtz.Handler {
	return func(ctx context.Context, run *qrtz.Run) error {
		began := time.Now()
		err := next(ctx, run) // also an error of data that does not decode
		qrtz.Slog(ctx).InfoContext(ctx, "run", "took", time.Since(began), "err", err)
		return err
	}
}

// One line in the log for each run, whatever its handler does.
func ExampleMiddleware_logging() {
	var db *sql.DB

	s, err := qrtz.Open(db, qrtz.Config{App: "billing", Slog: slog.Default(), Around: []qrtz.Middleware{logged}})
	must(err)
	_ = s
}

type tenantKey struct{}

// forTenant opens what a run needs, and hands it to the handler in its context, as tracing does with its spans.
func forTenant(next qrtz.Handler) qrtz.Handler {
	return func(ctx context.Context, run *qrtz.Run) error {
		ctx = context.WithValue(ctx, tenantKey{}, "tenant of "+run.Job)
		fmt.Println("begin", run.Job, "attempt", run.Attempt)
		err := next(ctx, run)
		fmt.Println("end", run.Job, err)
		return err
	}
}

// A span, a tenant, a transaction: what each handler needs, and finds in its context.
func ExampleMiddleware_context() {
	cfg := qrtz.Config{App: "billing", Around: []qrtz.Middleware{forTenant, logged}} // forTenant is outside

	handler := cfg.Around[0](func(ctx context.Context, _ *qrtz.Run) error {
		fmt.Println("in the", ctx.Value(tenantKey{}))
		return errors.New("no paper")
	})
	_ = handler(context.Background(), &qrtz.Run{Job: "invoice", Attempt: 1})
	// Output:
	// begin invoice attempt 1
	// in the tenant of invoice
	// end invoice no paper
}

// reportPanics tells an error tracker of panics. The run fails with the panic and its stack, as without it.
func reportPanics(report func(run *qrtz.Run, panicked any, stack []byte)) qrtz.Middleware {
	return func(next qrtz.Handler) qrtz.Handler {
		return func(ctx context.Context, run *qrtz.Run) error {
			defer func() {
				if p := recover(); p != nil {
					report(run, p, debug.Stack())
					panic(p)
				}
			}()
			return next(ctx, run)
		}
	}
}

// Panics go to an error tracker.
func ExampleMiddleware_panics() {
	var db *sql.DB

	tracker := func(run *qrtz.Run, panicked any, stack []byte) {
		log.Printf("run %d of %s: %v\n%s", run.ID, run.Job, panicked, stack)
	}
	s, err := qrtz.Open(db, qrtz.Config{App: "billing", Around: []qrtz.Middleware{reportPanics(tracker)}})
	must(err)
	_ = s
}

// A handler logs with the fields of its run: app, node, run, job, schedule, class, attempt and fire.
func ExampleSlog() {
	var s *qrtz.Scheduler

	qrtz.Handle(s, "invoice", func(ctx context.Context, _ *qrtz.Run, i invoice) error {
		qrtz.Slog(ctx).Info("sending", "customer", i.Customer)
		zerolog.Ctx(ctx).Info().Str("customer", i.Customer).Msg("sending") // the same, for those who use zerolog
		return send(ctx, i)
	})
}

// Logger takes zerolog's loggers, Slog those of log/slog. A logger that is off takes nothing.
func ExampleConfig_loggers() {
	var db *sql.DB

	structured := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	_, err := qrtz.Open(db, qrtz.Config{App: "billing", Slog: structured})
	must(err)
	quiet := zerolog.Nop()
	_, err = qrtz.Open(db, qrtz.Config{App: "billing", Logger: &quiet})
	must(err)
}

// A handler says that a further attempt would not help.
func ExampleNoRetry() {
	err := qrtz.NoRetry(errClosed)
	fmt.Println(err, errors.Is(err, errClosed))
	// Output: the account is closed true
}

// A handler says when the next attempt is worth it, for example because a server has said so.
func ExampleRetryAfter() {
	var s *qrtz.Scheduler

	qrtz.Handle(s, "invoice", func(ctx context.Context, _ *qrtz.Run, i invoice) error {
		return qrtz.RetryAfter(send(ctx, i), 5*time.Minute) // nil stays nil
	})
}
