// Command example is the program of the README.
package main

import (
	"context"
	"database/sql"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/qrtz-go/qrtz"
)

type greeting struct{ Name string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db, err := sql.Open("mysql", os.Getenv("DSN")) // user:password@tcp(host:3306)/database
	must(err)
	must(qrtz.Migrate(ctx, db))
	s, err := qrtz.Open(db, qrtz.Config{App: "hello", DSN: os.Getenv("DSN")})
	must(err)
	qrtz.Handle(s, "greet", func(_ context.Context, run *qrtz.Run, g greeting) error {
		log.Printf("hello %s, due at %s", g.Name, run.FireTime.Format(time.TimeOnly))
		return nil
	})
	must(s.Declare(ctx, qrtz.Job{
		Name: "greet", Data: greeting{"world"},
		Schedules: []qrtz.Schedule{qrtz.Cron("0/2 * * * * ?", "Europe/Berlin")},
	}))
	must(s.Run(ctx)) // until Ctrl-C
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
