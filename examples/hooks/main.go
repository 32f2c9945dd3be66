// Hooks calls for a person when a run has failed for good, was lost with its process, or cannot run at all, and says what
// there is to do. One of its jobs fails, one has no handler anywhere, and one takes an hour: end the program with kill -9 and
// start it again, and that run is lost. Run it with "make examples/hooks", or with QRTZ_DSN set and "go run ./examples/hooks".
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/log"

	"github.com/qrtz-go/qrtz"
)

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
	s, err := qrtz.Open(db, qrtz.Config{App: "hooks", DSN: dsn, DrainTimeout: time.Second, Hooks: alerts(), Logger: &log.Logger})
	must(err)
	must(s.Migrate(ctx))
	qrtz.Handle(s, "import", func(context.Context, *qrtz.Run, struct{}) error {
		return errors.New("the file is not there")
	})
	qrtz.Handle(s, "report", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
		log.Info().Msgf("run %d of report has started; to lose it: kill -9 %d", run.ID, os.Getpid())
		select {
		case <-time.After(time.Hour):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	often := []qrtz.Schedule{qrtz.Every(10 * time.Second)}
	must(s.Declare(ctx,
		qrtz.Job{Name: "import", Schedules: often, Options: qrtz.Options{Attempts: 2, Backoff: time.Second}},
		qrtz.Job{Name: "mail", Schedules: often}, // its handler is in a program that does not run
		qrtz.Job{Name: "report"},
	))
	_, err = s.Enqueue(ctx, "report", nil)
	must(err)
	must(s.Run(ctx))
}

// alerts are told of what happens to runs, and choose what a person must see. Hooks run one after the other, and never
// hold up a run. Each event is told by one process; of a program that dies, some may be missing. What must not be
// missed is in QRTZ_RUN.
func alerts() qrtz.Hooks {
	return qrtz.Hooks{
		Finished: func(e qrtz.Event) {
			switch {
			case e.State != qrtz.Failed:
			case !e.RetryAt.IsZero():
				log.Warn().Msgf("run %d of %s has failed, and is tried again at %s: %s", e.RunID, e.Class, e.RetryAt.Local().Format(time.TimeOnly), e.Message)
			default: // it was the last attempt
				call(e, fmt.Sprintf("cure the cause, then try it again: qrtz run retry %d", e.RunID))
			}
		},
		Lost: func(e qrtz.Event) { // with Options.Recovery, another process has been asked to try it again
			call(e, fmt.Sprintf("find out how far it came, then try it again: qrtz run retry %d", e.RunID))
		},
		Stuck: func(e qrtz.Event) { // told once an hour
			call(e, "start a program that handles "+e.Class+", or delete the job")
		},
	}
}

// call calls for a person. In your program it sends a mail or rings a pager, within a timeout, since the hooks behind it wait.
func call(e qrtz.Event, todo string) {
	log.Error().Str("class", e.Class).Str("why", e.Message).Msg(todo)
}

func must(err error) {
	if err != nil {
		log.Fatal().Err(err).Send()
	}
}
