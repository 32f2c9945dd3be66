package qrtztest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/qrtztest"
)

func Example() {
	t := newTest() // yours is a *testing.T
	defer t.end()
	broken := true
	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "billing"}, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "invoice", func(context.Context, *qrtz.Run, struct{}) error {
			if broken {
				return errors.New("no paper")
			}
			return nil
		})
	})
	kit.Declare(qrtz.Job{
		Name: "invoice", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 6 1 * ?", "UTC")},
		Options: qrtz.Options{Attempts: 2, Backoff: time.Hour},
	})
	kit.AdvanceTo(time.Date(2030, 1, 1, 6, 0, 0, 0, time.UTC)) // the kit starts on 2030-01-01, at midnight
	kit.Expect("invoice", qrtz.Failed)
	broken = false
	kit.Advance(time.Hour) // the retry, after exactly its backoff
	kit.Expect("invoice", qrtz.Failed, qrtz.Succeeded)
	kit.Skip(40 * 24 * time.Hour) // an outage; its misfire policy decides about 1 February
	kit.Expect("invoice", qrtz.Failed, qrtz.Succeeded, qrtz.Succeeded)
	fmt.Println("as expected")
	// Output: as expected
}

// counter is a service under test: its handler counts.
type counter struct{ n int }

func (c *counter) count(s *qrtz.Scheduler) {
	qrtz.Handle(s, "count", func(context.Context, *qrtz.Run, struct{}) error { c.n++; return nil })
}

func ExampleDatabase() {
	t := newTest() // yours is a *testing.T
	defer t.end()
	db := qrtztest.Database(t, "parseTime=true")
	_, err := db.Exec(`CREATE TABLE orders (id INT PRIMARY KEY, placed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)`)
	fmt.Println(err)
	kit := qrtztest.New(t, db, qrtz.Config{App: "shop"}, nil)
	kit.Advance(24 * time.Hour)
	_, err = db.Exec(`INSERT INTO orders (id) VALUES (1)`)
	fmt.Println(err)
	var year int // the program's statements share the kit's time
	err = db.QueryRow(`SELECT YEAR(placed) FROM orders`).Scan(&year)
	fmt.Println(year, err)
	// Output:
	// <nil>
	// <nil>
	// 2030 <nil>
}

func ExampleDSN() {
	t := newTest() // yours is a *testing.T
	defer t.end()
	dsn := qrtztest.DSN(t) // for programs that the test starts
	db, err := sql.Open("mysql", dsn)
	fmt.Println(err)
	defer func() { _ = db.Close() }()
	s, err := qrtz.Open(db, qrtz.Config{App: "shop", DSN: dsn})
	fmt.Println(s != nil, err)
	// Output:
	// <nil>
	// true <nil>
}

func ExampleKit_Hold() {
	t := newTest() // yours is a *testing.T
	defer t.end()
	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "shop"}, new(counter).count)
	kit.Declare(qrtz.Job{
		Name: "count", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour)}, Options: qrtz.Options{Overlap: qrtz.OverlapSkip},
	})
	held := kit.Hold("count")
	kit.Advance(time.Hour) // the first run still goes
	fmt.Println(len(held.Runs()), "run goes")
	kit.Expect("count", qrtz.Skipped)
	held.Release()
	kit.Expect("count", qrtz.Skipped, qrtz.Succeeded)
	// Output: 1 run goes
}

func ExampleKit_Kill() {
	t := newTest() // yours is a *testing.T
	defer t.end()
	var c counter
	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "shop"}, c.count)
	kit.Declare(qrtz.Job{Name: "count", Schedules: []qrtz.Schedule{qrtz.At(kit.Now())}, Options: qrtz.Options{Recovery: true}})
	kit.HoldResult("count")
	kit.Advance(0)
	kit.Kill() // the work is done, and the tables do not know
	kit.Advance(time.Minute)
	kit.Expect("count", qrtz.Lost, qrtz.Succeeded)
	fmt.Println("counted", c.n)
	// Output: counted 2
}

func ExampleKit_Freeze() {
	t := newTest() // yours is a *testing.T
	defer t.end()
	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "shop"}, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "count", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
			fmt.Println("attempt", run.Attempt)
			return nil
		})
	})
	kit.Declare(qrtz.Job{Name: "count", Schedules: []qrtz.Schedule{qrtz.At(kit.Now())}, Options: qrtz.Options{Recovery: true}})
	held := kit.Hold("count")
	kit.Advance(0)
	kit.Freeze()
	kit.Advance(time.Minute) // its run is LOST and recovered
	held.Release()           // the frozen process wakes up
	// Output:
	// attempt 2
	// attempt 1
}

func ExampleKit_Restart() {
	t := newTest() // yours is a *testing.T
	defer t.end()
	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "shop"}, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "count", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			fmt.Println(errors.Is(context.Cause(ctx), qrtz.ErrDrained))
			return nil
		})
	})
	kit.Declare(qrtz.Job{Name: "count", Schedules: []qrtz.Schedule{qrtz.At(kit.Now())}})
	kit.Hold("count")
	kit.Advance(0)
	kit.Restart() // as SIGTERM does, once DrainTimeout is over
	kit.Expect("count", qrtz.Succeeded)
	// Output: true
}

func ExampleKit_Account() {
	t := newTest() // yours is a *testing.T
	defer t.end()
	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "shop"}, new(counter).count)
	kit.Declare(qrtz.Job{Name: "count", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 6 * * ?", "Europe/Berlin")}})
	kit.Advance(24 * time.Hour)
	fmt.Println(kit.Account())
	// Output:
	// It is 2030-01-02 00:00:00 UTC. What has happened so far:
	//   2030-01-01 06:00:00 CET  job "count" SUCCEEDED (run 1, attempt 1, on node-1)
	// What is to come:
	//   the schedule of job "count" is EXECUTING, next fire 2030-01-02 05:00:00 UTC
}

// test stands in for a *testing.T, which an example has none of.
type test struct {
	cleanups []func()
	ctx      context.Context
	cancel   func()
}

func newTest() *test {
	t := &test{}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

func (t *test) Helper()                           {}
func (t *test) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *test) Context() context.Context          { return t.ctx }
func (t *test) Fatalf(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }

func (t *test) Fatal(args ...any) {
	fmt.Println(args...)
	runtime.Goexit()
}

func (t *test) end() {
	t.cancel()
	for i := range t.cleanups {
		t.cleanups[len(t.cleanups)-1-i]()
	}
}
