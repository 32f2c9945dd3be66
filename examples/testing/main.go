// Testing reminds tenants of their rent on the first of each month, and its tests see a year of that within seconds. It shows
// how a program is laid out for package qrtztest: the handlers and the jobs come from two functions, which main and the tests
// share. Run the tests with "make examples/testing", or with "go test -v ./examples/testing".
package main

import (
	"context"
	"database/sql"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog/log"

	"github.com/qrtz-go/qrtz"
)

type reminder struct{ To string }

// mailer sends a mail.
type mailer func(ctx context.Context, to, text string) error

// register gives a scheduler the program's handlers.
func register(s *qrtz.Scheduler, send mailer) {
	qrtz.Handle(s, "remind", func(ctx context.Context, _ *qrtz.Run, r reminder) error {
		return send(ctx, r.To, "The rent is due.")
	})
}

// jobs are what the program declares when it starts.
func jobs() []qrtz.Job {
	return []qrtz.Job{{
		Name: "remind", Data: reminder{To: "tenants@example.com"},
		Schedules: []qrtz.Schedule{qrtz.Cron("0 0 9 1 * ?", "Europe/Berlin")},
		Options:   qrtz.Options{Attempts: 3, Backoff: time.Minute},
	}}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dsn := os.Getenv("QRTZ_DSN")
	if dsn == "" {
		log.Fatal().Msg("QRTZ_DSN is not set: user:password@tcp(127.0.0.1:3306)/database")
	}
	db, err := sql.Open("mysql", dsn)
	must(err)
	s, err := qrtz.Open(db, qrtz.Config{App: "rent", DSN: dsn, Logger: &log.Logger})
	must(err)
	must(s.Migrate(ctx))
	register(s, func(_ context.Context, to, text string) error {
		log.Info().Str("to", to).Msg(text) // no mails from an example
		return nil
	})
	must(s.Declare(ctx, jobs()...))
	must(s.Run(ctx))
}

func must(err error) {
	if err != nil {
		log.Fatal().Err(err).Send()
	}
}
