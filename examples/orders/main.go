// Orders is the service of a shop: it takes orders, has their invoices written and paid, and reports on them each night. It shows what
// runs promise to a program with tables of its own: an order and the run that invoices it are committed together; an invoice and a payment
// are written exactly once, although processes are killed and deployed meanwhile, and although the bank fails; a report that is
// interrupted continues where it was. Start as many processes of it as you like, on one database.
//
// Run it with "make examples/orders": that takes orders for half a minute, while one process is stopped by SIGTERM and another one
// killed, and then does the books. Or set QRTZ_DSN, and say "go run ./examples/orders -place 5" in several terminals.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/qrtz-go/qrtz"
)

// settings of a process.
type settings struct {
	node  string
	place float64
	night time.Duration
	quick bool
	demo  bool
	books bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var is settings
	flag.StringVar(&is.node, "node", "", "the name of this process in the cluster")
	flag.Float64Var(&is.place, "place", 0, "how many orders a second come in here")
	flag.DurationVar(&is.night, "night", 0, "how often there is a report; at two each night if 0")
	flag.BoolVar(&is.quick, "quick", false, "notice within seconds that another process has died")
	flag.BoolVar(&is.demo, "demo", false, "start some processes, stop one, kill one, and do the books")
	flag.BoolVar(&is.books, "books", false, "do the books: print what the tables say")
	flag.Parse()
	if err := is.run(ctx); err != nil {
		slog.Error("orders", "error", err)
		os.Exit(1)
	}
}

func (is settings) run(ctx context.Context) error {
	dsn := os.Getenv("QRTZ_DSN")
	if dsn == "" {
		return fmt.Errorf("QRTZ_DSN is not set: user:password@tcp(127.0.0.1:3306)/database")
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	scheduler, err := qrtz.Open(db, is.config(dsn))
	if err != nil {
		return err
	}
	if err := scheduler.Migrate(ctx); err != nil {
		return err
	}
	s := &shop{db: db, bank: &badBank{db: db, slow: 200 * time.Millisecond}, rest: rest}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	switch {
	case is.books:
		return printBooks(ctx, s)
	case is.demo:
		return demo(ctx, s)
	default:
		return is.serve(ctx, s, scheduler)
	}
}

func (is settings) config(dsn string) qrtz.Config {
	cfg := qrtz.Config{App: "orders", NodeID: is.node, DSN: dsn, DrainTimeout: 5 * time.Second, Slog: slog.Default().With("process", is.node)}
	if is.quick {
		cfg.PollInterval, cfg.MisfireInterval, cfg.NodeTimeout = time.Second, 2*time.Second, 4*time.Second
	}
	return cfg
}

// maxConns is how many connections the handlers and the customers share. The scheduler has its own (Config.DSN).
const maxConns = 20

// serve takes orders and carries out jobs until SIGTERM. Then it takes no more orders, and the scheduler waits for its handlers, and hands
// on those that do not end.
func (is settings) serve(ctx context.Context, s *shop, scheduler *qrtz.Scheduler) error {
	s.register(scheduler)
	if err := scheduler.Declare(ctx, declared(is.reports())...); err != nil {
		return err
	}
	var customers sync.WaitGroup
	customers.Go(func() { is.takeOrders(ctx, s) })
	defer customers.Wait()
	return scheduler.Run(ctx)
}

func (is settings) reports() qrtz.Schedule {
	if is.night > 0 {
		return qrtz.Every(is.night)
	}
	return qrtz.Cron("0 0 2 * * ?", "Europe/Berlin")
}

// takeOrders is what a web server does in other programs.
func (is settings) takeOrders(ctx context.Context, s *shop) {
	if is.place <= 0 {
		return
	}
	pause := time.NewTicker(time.Duration(float64(time.Second) / is.place))
	defer pause.Stop()
	customers := []string{"Ada", "Grace", "Edsger", "Barbara", "Mallory"}
	for taken := 0; ; {
		select {
		case <-ctx.Done():
			slog.Info("no more orders", "node", is.node, "taken", taken)
			return
		case <-pause.C:
		}
		o := order{Request: fmt.Sprintf("%x", rand.Uint64()), Customer: customers[rand.IntN(len(customers))], Cents: 100 + rand.Int64N(9900)}
		if _, err := s.place(context.WithoutCancel(ctx), o); err != nil { // SIGTERM does not cut an order off that has come in
			slog.Warn("an order was not taken", "node", is.node, "error", err) // the customer is told, and may send it again
			continue
		}
		if taken++; taken == 1 {
			slog.Info("the first order", "node", is.node)
		}
	}
}

// rest lets others have the database between two pages of a report.
func rest(ctx context.Context) error {
	select {
	case <-time.After(10 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func printBooks(ctx context.Context, s *shop) error {
	b, err := s.books(ctx)
	if err != nil {
		return err
	}
	slog.Info(b.String())
	if len(b.Wrong) > 0 {
		return fmt.Errorf("the books are wrong")
	}
	return nil
}
