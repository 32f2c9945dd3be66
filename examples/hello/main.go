// Hello greets the world every two seconds, on any number of processes that share one database: the program of the
// README. It shows how a program opens a scheduler, registers a handler, declares a job, and stops cleanly on SIGTERM
// or Ctrl-C. Run it with "make examples/hello", or with QRTZ_DSN set and "go run ./examples/hello".
package main

import (
	"context"
	"database/sql"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/log"

	"github.com/qrtz-go/qrtz"
)

type greeting struct{ Name string }

func main() {
	log.Logger = log.Output(zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: time.TimeOnly})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dsn := os.Getenv("QRTZ_DSN")
	if dsn == "" {
		log.Fatal().Msg("QRTZ_DSN is not set: user:password@tcp(127.0.0.1:3306)/database")
	}
	db, err := sql.Open("mysql", dsn)
	must(err)
	s, err := qrtz.Open(db, qrtz.Config{App: "hello", DSN: dsn, Logger: &log.Logger})
	must(err)
	must(s.Migrate(ctx)) // creates the tables
	qrtz.Handle(s, "greet", func(_ context.Context, run *qrtz.Run, g greeting) error {
		log.Info().Msgf("hello %s, due at %s", g.Name, run.FireTime.Format(time.TimeOnly))
		return nil
	})
	must(s.Declare(ctx, qrtz.Job{
		Name: "greet", Data: greeting{"world"},
		Schedules: []qrtz.Schedule{qrtz.Cron("0/2 * * * * ?", "Europe/Berlin")},
	}))
	must(s.Run(ctx)) // until SIGTERM or Ctrl-C
}

func must(err error) {
	if err != nil {
		log.Fatal().Err(err).Send()
	}
}
