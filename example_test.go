package qrtz_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/servers/throwaway"
)

type invoice struct{ Customer string }

var errClosed = errors.New("the account is closed")

func send(context.Context, invoice) error { return nil }

// What a job may ask of its runs, and how a handler answers.
func Example_options() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	qrtz.Handle(s, "invoice", func(ctx context.Context, run *qrtz.Run, i invoice) error {
		run.Message("to " + i.Customer)
		err := send(ctx, i) // ctx ends when the run times out, is cancelled, or lost to this process
		switch {
		case errors.Is(err, errClosed):
			return qrtz.NoRetry(err) // a further attempt would not help
		case err != nil && run.Attempt == 1:
			return qrtz.RetryAfter(err, time.Minute) // in place of the backoff
		}
		return err
	})
	err := s.Declare(ctx, qrtz.Job{
		Name: "invoice", Data: invoice{"everybody"},
		Schedules: []qrtz.Schedule{qrtz.Cron("0 0 6 1 * ?", "Europe/Berlin")},
		Options: qrtz.Options{
			Recovery: true, // tried again elsewhere if its node dies
			Overlap:  qrtz.OverlapQueue,
			Timeout:  time.Hour,
			Attempts: 5, Backoff: time.Minute,
			KeepFor: 365 * 24 * time.Hour,
		},
	})
	must(err)
}

// How much of the cluster, and of this process, work may take.
func Example_limits() {
	var db *sql.DB
	ctx := context.Background()

	s, err := qrtz.Open(db, qrtz.Config{
		App: "billing", Workers: 32,
		Limits:   map[string]int{"render": 4}, // of this process, which has four cores
		Reserved: 8,                           // workers that slow classes leave to quick ones
	})
	must(err)
	must(s.Declare(ctx, qrtz.Job{
		Name: "import", Options: qrtz.Options{
			MaxRunning: 3, // in the whole cluster: the partner allows no more connections
			Priority:   qrtz.PriorityLow,
		},
	}))
}

// Schedules of one job, each with a name and data of its own.
func ExampleCron() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	must(s.Declare(ctx, qrtz.Job{
		Name: "invoice", Data: invoice{"everybody"},
		Schedules: []qrtz.Schedule{
			qrtz.Cron("0 0 6 1 * ?", "Europe/Berlin", qrtz.Named("monthly"), qrtz.CatchingUp(3)),
			qrtz.Every(time.Hour, qrtz.Named("trial"), qrtz.Times(24), qrtz.OnMisfire(qrtz.Skip), qrtz.WithData(invoice{"Ada"})),
			qrtz.At(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), qrtz.Named("once")),
		},
	}))
}

// A schedule for each customer, added and deleted while the program runs.
func ExampleClient_Schedule() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	must(s.Schedule(ctx, "invoice", qrtz.Cron("0 0 6 1 * ?", "Europe/Berlin", qrtz.Named("Ada"), qrtz.WithData(invoice{"Ada"}))))
	must(s.Unschedule(ctx, "invoice", "Ada"))
}

// A program that declares all jobs of its app completes the schedules of those that it has no more.
func ExampleClient_DeclareAll() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	notDeclared, err := s.DeclareAll(ctx,
		qrtz.Job{Name: "invoice"},
		qrtz.Job{Name: "reminder", Was: []string{"dunning"}}, // the job "dunning" has this name from now on
	)
	must(err)
	must(s.Retire(ctx, notDeclared...))
}

// What zero cannot say, since it is the default.
func ExampleOptions() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	must(s.Declare(ctx, qrtz.Job{Name: "invoice", Options: qrtz.Options{
		KeepFor:  qrtz.Forever,
		Attempts: qrtz.Unlimited, Backoff: qrtz.NoBackoff,
	}}))
}

// A hook posts failures that will not be tried again to a webhook.
func ExampleHooks() {
	var db *sql.DB

	client := http.Client{Timeout: 10 * time.Second} // a hook that hangs holds up those behind it
	alert := func(e qrtz.Event) {
		if e.State == qrtz.Succeeded || !e.RetryAt.IsZero() {
			return
		}
		body, _ := json.Marshal(e)
		resp, err := client.Post("https://alerts.example.com/qrtz", "application/json", bytes.NewReader(body))
		if err != nil {
			log.Printf("alert: %v", err)
			return
		}
		_ = resp.Body.Close()
	}
	s, err := qrtz.Open(db, qrtz.Config{App: "billing", Hooks: qrtz.Hooks{Finished: alert, Lost: alert}})
	must(err)
	_ = s
}

// A run is enqueued with the order it belongs to, or not at all.
func ExampleScheduler_In() {
	var db *sql.DB
	var s *qrtz.Scheduler
	ctx := context.Background()

	tx, err := db.BeginTx(ctx, nil)
	must(err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, `INSERT INTO orders (customer) VALUES (?)`, "Ada")
	must(err)
	runID, err := s.In(tx).Enqueue(ctx, "invoice", invoice{"Ada"})
	must(err)
	must(tx.Commit()) // now it is there, and starts as soon as a worker is free
	log.Printf("run %d", runID)
}

// A scheduler that runs beside busy handlers has connections of its own.
func ExampleOpen() {
	ctx := context.Background()

	dsn := os.Getenv("DSN") // app:secret@tcp(127.0.0.1:3306)/app
	db, err := sql.Open("mysql", dsn)
	must(err)
	s, err := qrtz.Open(db, qrtz.Config{App: "billing", DSN: dsn})
	must(err)
	must(s.Run(ctx))
}

// A program that only enqueues has no handlers and never calls Run.
func ExampleClient() {
	var db *sql.DB
	ctx := context.Background()

	s, err := qrtz.Open(db, qrtz.Config{App: "billing"})
	must(err)
	runID, err := s.Enqueue(ctx, "invoice", invoice{"Grace"}, qrtz.StartAt(time.Now().Add(time.Hour)))
	must(err)
	must(s.Pause(ctx, "invoice", "")) // its schedules; what is enqueued runs all the same
	must(s.Resume(ctx, "invoice", ""))
	err = s.Cancel(ctx, runID)
	if errors.Is(err, qrtz.ErrWrongState) {
		log.Print("too late: it has ended")
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A shop is synchronised by one run at a time, and an invoice is sent once, however often the program asks.
func ExampleWithKey() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	_, err := s.Enqueue(ctx, "sync", nil, qrtz.WithKey("shop 7"), qrtz.WithAttempts(5))
	if err != nil && !errors.Is(err, qrtz.ErrKeyTaken) {
		log.Fatal(err)
	}
	runID, err := s.Enqueue(ctx, "invoice", invoice{"Ada"}, qrtz.Once("invoice 4711"))
	switch {
	case errors.Is(err, qrtz.ErrCommitUnknown):
		log.Print("ask again: there will be one run, whatever became of the first call")
	case errors.Is(err, qrtz.ErrKeyTaken):
		log.Printf("run %d is there already", runID)
	default:
		must(err)
	}
}

func ExampleClient_EnqueueMany() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	requests := []qrtz.Request{
		{Job: "invoice", Data: invoice{"Ada"}},
		{Job: "invoice", Data: invoice{"Grace"}, Options: []qrtz.EnqueueOption{qrtz.Once("invoice 4712"), qrtz.StartAt(time.Now().Add(time.Hour))}},
	}
	all, err := s.EnqueueMany(ctx, requests)
	must(err)
	for i, e := range all {
		log.Print(requests[i].Data, e.RunID, e.Taken)
	}
}

// A system that remembers the keys it has seen refuses the second attempt to do the same work.
func ExampleRun_Key() {
	var s *qrtz.Scheduler

	qrtz.Handle(s, "pay", func(ctx context.Context, run *qrtz.Run, _ invoice) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://bank.example.com/payments", nil)
		if err != nil {
			return err
		}
		request.Header.Set("Idempotency-Key", run.Key())
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

// A program from its start to its end: a run is enqueued, carried out, and waited for.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	dsn, drop := exampleDatabase() // yours: app:secret@tcp(127.0.0.1:3306)/app
	defer drop()
	db, err := sql.Open("mysql", dsn)
	must(err)
	defer func() { must(db.Close()) }()

	quiet := zerolog.Nop()
	s, err := qrtz.Open(db, qrtz.Config{App: "billing", DSN: dsn, Logger: &quiet})
	must(err)
	must(s.Migrate(ctx)) // creates the tables
	qrtz.Handle(s, "invoice", func(_ context.Context, run *qrtz.Run, i invoice) error {
		run.Message("sent to " + i.Customer)
		return nil
	})
	must(s.Declare(ctx, qrtz.Job{Name: "invoice", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 6 1 * ?", "Europe/Berlin")}}))
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()

	runID, err := s.Enqueue(ctx, "invoice", invoice{"Ada"}, qrtz.Once("invoice 4711"))
	must(err)
	run, err := s.Wait(ctx, runID)
	must(err)
	fmt.Println(run.Job, run.State, run.Attempt, run.Message)
	stop()
	must(<-ended)
	// Output: invoice SUCCEEDED 1 sent to Ada
}

// Each setting that cannot work is named, with its value.
func ExampleConfig_Validate() {
	fmt.Println(qrtz.Config{App: "billing", MisfireAfter: 3 * time.Second}.Validate())
	// Output: MisfireAfter (3s) must exceed PollInterval (5s)
}

// A job with all that it may have.
func ExampleJob() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	must(s.Declare(ctx, qrtz.Job{
		Name: "dunning", Class: "letter", Description: "reminds customers who have not paid",
		Data:      map[string]string{"template": "reminder"},
		Schedules: []qrtz.Schedule{qrtz.Cron("0 0 8 ? * MON-FRI", "Europe/Berlin")},
		Options:   qrtz.Options{Overlap: qrtz.OverlapSkip, Attempts: 3, Recovery: true},
		Was:       []string{"reminder"}, // its name until last month
	}))
}

// The first fire is at the start of the schedule, and all others are whole intervals after it.
func ExampleEvery() {
	from := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	rate := qrtz.Every(15*time.Minute, qrtz.Named("feed"), qrtz.Starting(from), qrtz.Ending(from.AddDate(0, 1, 0)))
	fmt.Println(rate.Name, rate.Start.Format(time.DateTime), rate.End.Format(time.DateTime))
	// Output: feed 2030-01-01 00:00:00 2030-02-01 00:00:00
}

// A single fire. A program that declares it again after it has run does not run it again.
func ExampleAt() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	opening := time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)
	must(s.Declare(ctx, qrtz.Job{Name: "open the shop", Schedules: []qrtz.Schedule{qrtz.At(opening)}}))
}

// recorder takes what is enqueued, in a test that needs no database.
type recorder []string

func (r *recorder) Enqueue(_ context.Context, job string, data any, _ ...qrtz.EnqueueOption) (int64, error) {
	*r = append(*r, fmt.Sprint(job, " ", data))
	return int64(len(*r)), nil
}

// Code that only enqueues asks for an Enqueuer: a Scheduler, the Client of a transaction, or a test's own.
func ExampleEnqueuer() {
	order := func(ctx context.Context, c qrtz.Enqueuer, customer string) error {
		_, err := c.Enqueue(ctx, "invoice", invoice{customer})
		return err
	}
	var asked recorder
	must(order(context.Background(), &asked, "Ada"))
	fmt.Println(asked)
	// Output: [invoice {Ada}]
}

// A run that is due tomorrow, and is called off.
func ExampleStartAt() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	runID, err := s.Enqueue(ctx, "invoice", invoice{"Ada"}, qrtz.StartAt(time.Now().Add(24*time.Hour)), qrtz.WithTimeout(time.Minute))
	must(err)
	must(s.Cancel(ctx, runID))
}

// What failed for good is tried again, now that its cause is gone.
func ExampleClient_Retry() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	failed, err := s.Runs(ctx, qrtz.RunFilter{Job: "invoice", State: qrtz.Failed})
	must(err)
	for _, run := range failed.Rows {
		attempts, err := s.Attempts(ctx, run.ID)
		must(err)
		if last := attempts[len(attempts)-1]; last.State != qrtz.Failed {
			continue // it has been tried again already
		}
		_, err = s.Retry(ctx, run.ID)
		must(err)
	}
}

// Which processes there are, and what they can run.
func ExampleClient_Nodes() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	nodes, err := s.Nodes(ctx)
	must(err)
	for _, node := range nodes {
		if node.State == qrtz.NodeAlive && node.On {
			log.Print(node.ID, node.Classes, node.Running)
		}
	}
}

// What an operator has changed since the program declared the job.
func ExampleClient_FindJob() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	job, err := s.FindJob(ctx, "invoice")
	must(err)
	for _, d := range job.Differs {
		log.Print(d) // ATTEMPTS is "9", declared "5"
	}
}

// An attempt that has ended may be followed by another one: Wait waits for the last.
func ExampleRunInfo_Ended() {
	fmt.Println(qrtz.RunInfo{State: qrtz.Pending}.Ended(), qrtz.RunInfo{State: qrtz.Lost}.Ended())
	// Output: false true
}

// An event is one value, to be logged or sent as it is.
func ExampleEvent() {
	lost := func(e qrtz.Event) {
		fmt.Println(e.Job, e.Schedule, e.State, "on", e.Node, "again:", !e.RetryAt.IsZero())
	}
	hooks := qrtz.Hooks{Lost: lost}
	hooks.Lost(qrtz.Event{Job: "invoice", Schedule: "monthly", State: qrtz.Lost, Node: "10.0.0.7"})
	// Output: invoice monthly LOST on 10.0.0.7 again: false
}

// A typo in a field of the data fails the run, in place of being overlooked.
func ExampleUnknownFields() {
	var db *sql.DB

	_, err := qrtz.Open(db, qrtz.Config{App: "billing", UnknownFields: qrtz.UnknownRefused})
	must(err)
}

// A deployment stops the app for the time of a migration. What is due meanwhile is passed over.
func ExampleClient_SwitchApp() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	must(s.SwitchApp(ctx, false))
	// … migrate …
	must(s.SwitchApp(ctx, true))
}

// exampleDatabase makes a database for an example that runs.
func exampleDatabase() (dsn string, drop func()) {
	d, err := throwaway.Create(context.Background())
	must(err)
	return d.Config().FormatDSN(), func() { must(d.Drop()) }
}
