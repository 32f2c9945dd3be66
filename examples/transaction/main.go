// Transaction takes two orders and asks, in the transaction of each order, for a run that confirms it. It shows that the run
// exists exactly if its order was committed: the first order is rolled back, and leaves no run behind. The run is completed in the
// transaction that confirms the order. Run it with
// "make examples/transaction", or with QRTZ_DSN set and "go run ./examples/transaction"; it ends by itself.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/log"

	"github.com/qrtz-go/qrtz"
)

// The program makes this table in the database that it is given.
const createOrders = `CREATE TABLE IF NOT EXISTS EXAMPLE_ORDERS (
	ID BIGINT AUTO_INCREMENT PRIMARY KEY, CUSTOMER VARCHAR(50) NOT NULL, BOTTLES INT NOT NULL, CONFIRMED_BY BIGINT)`

const inTheCellar = 100

type order struct {
	ID       int64
	Customer string
	Bottles  int
}

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
	_, err = db.ExecContext(ctx, createOrders)
	must(err)
	s, err := qrtz.Open(db, qrtz.Config{App: "transaction", DSN: dsn, Logger: &log.Logger})
	must(err)
	must(s.Migrate(ctx))
	qrtz.Handle(s, "confirm", func(ctx context.Context, run *qrtz.Run, o order) error {
		if err := confirm(ctx, db, run, o); err != nil {
			return err
		}
		log.Info().Msgf("run %d confirms the order of %s", run.ID, o.Customer)
		stop() // there is nothing else to wait for in this example
		return nil
	})
	must(s.Declare(ctx, qrtz.Job{Name: "confirm"})) // without a schedule, it runs when it is asked to

	for _, o := range []order{{Customer: "Grace", Bottles: 1000}, {Customer: "Ada", Bottles: 6}} {
		runID, err := take(ctx, db, s, o)
		if err != nil {
			log.Warn().Err(err).Msgf("the order of %s is rolled back, and with it run %d", o.Customer, runID)
			continue
		}
		log.Info().Msgf("the order of %s is committed, and with it run %d", o.Customer, runID)
	}
	must(s.Run(ctx))
}

// confirm confirms an order and completes its run: both, or neither. However often it is tried, it is done once.
func confirm(ctx context.Context, db *sql.DB, run *qrtz.Run, o order) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, `UPDATE EXAMPLE_ORDERS SET CONFIRMED_BY = ? WHERE ID = ?`, run.ID, o.ID); err != nil {
		return err
	}
	if err := run.CompleteIn(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// take writes an order and asks for its confirmation: both, or neither.
func take(ctx context.Context, db *sql.DB, s *qrtz.Scheduler, o order) (runID int64, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	inserted, err := tx.ExecContext(ctx, `INSERT INTO EXAMPLE_ORDERS (CUSTOMER, BOTTLES) VALUES (?, ?)`, o.Customer, o.Bottles)
	if err != nil {
		return 0, err
	}
	if o.ID, err = inserted.LastInsertId(); err != nil {
		return 0, err
	}
	if runID, err = s.In(tx).Enqueue(ctx, "confirm", o); err != nil {
		return 0, err
	}
	if o.Bottles > inTheCellar {
		return runID, fmt.Errorf("%d bottles are more than the %d in the cellar", o.Bottles, inTheCellar)
	}
	return runID, tx.Commit()
}

func must(err error) {
	if err != nil {
		log.Fatal().Err(err).Send()
	}
}
