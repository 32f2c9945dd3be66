// Package qrtztest drives a scheduler step by step, for tests of programs that use qrtz: time passes when the test says so,
// and what is due runs at once, in order, in the test's goroutine.
//
//	kit := qrtztest.New(t, db, qrtz.Config{App: "billing"}, func(s *qrtz.Scheduler) {
//		qrtz.Handle(s, "invoice", sendInvoices)
//	})
//	kit.Declare(jobs...)
//	kit.Advance(24 * time.Hour)
//	kit.RequireRan("invoice", 1)
//
// It runs on a real database with the real tables, claims and results, so that what a test sees is what will happen.
// Give each test a database of its own, or at least an app.
package qrtztest

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/schema"
)

// Start is the time at which every kit begins. How far it can go, the server decides: to 2038 in MariaDB before 11.5.
var Start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Kit is a scheduler with a clock of its own.
type Kit struct {
	// Scheduler is what is tested. Enqueue, pause, cancel through it as your program does.
	Scheduler *qrtz.Scheduler

	// DB is the database with the kit's time as its clock. A transaction for Scheduler.In must be begun here.
	DB *sql.DB

	tb    testing.TB
	clock *clock
	node  *qrtz.Manual // nil while no node runs
	told  []qrtz.Event
}

// New returns a kit on a database of the test's, in which it creates the qrtz tables if they are missing. register adds
// the handlers. The kit holds one connection of db, or two, until the test ends.
//
// The kit's scheduler is the only node: it applies misfire policies when it starts and after Skip. Handlers run in
// no time, but Options.Timeout counts real time. Config.Hooks are called at once.
func New(tb testing.TB, db *sql.DB, cfg qrtz.Config, register func(*qrtz.Scheduler)) *Kit {
	tb.Helper()
	k := &Kit{tb: tb, clock: &clock{}}
	k.clock.set(Start) // which every server takes
	k.DB = sql.OpenDB(&connector{db, k.clock})
	tb.Cleanup(func() { k.check(k.DB.Close()) })
	prefix := schema.DefaultPrefix
	if cfg.Prefix != "" {
		prefix = schema.Prefix(cfg.Prefix)
	}
	_, err := schema.Up(tb.Context(), db, prefix)
	k.check(err)
	k.Scheduler, err = qrtz.Open(k.DB, cfg)
	k.check(err)
	if register != nil {
		register(k.Scheduler)
	}
	k.join()
	tb.Cleanup(func() { k.node.Leave(context.WithoutCancel(tb.Context())) })
	return k
}

func (k *Kit) check(err error) {
	k.tb.Helper()
	if err != nil {
		k.tb.Fatal(err)
	}
}

// setTime makes sure that the server takes the time: MariaDB keeps silent when it does not.
func (k *Kit) setTime(t time.Time) {
	k.tb.Helper()
	k.clock.set(t)
	var told int64
	k.check(k.DB.QueryRowContext(k.tb.Context(), `SELECT UNIX_TIMESTAMP()`).Scan(&told))
	if told != t.Unix() {
		k.tb.Fatalf("qrtztest: the server says %s when told to say %s; its TIMESTAMP does not reach that far", time.Unix(told, 0).UTC(), t)
	}
}

func (k *Kit) join() {
	k.tb.Helper()
	node, err := k.Scheduler.Manual(k.tb.Context())
	k.check(err)
	k.node = node
}

// Declare declares jobs, as a program does when it starts. Nothing runs yet.
func (k *Kit) Declare(jobs ...qrtz.Job) {
	k.tb.Helper()
	k.check(k.Scheduler.Declare(k.tb.Context(), jobs...))
}

// Now is the kit's time.
func (k *Kit) Now() time.Time { return k.clock.now() }

// Advance lets time pass, at least none, and runs everything that comes due until then, the end included: fires, what was
// enqueued, retries. It returns what ran and what was skipped.
func (k *Kit) Advance(d time.Duration) []qrtz.Event {
	k.tb.Helper()
	return k.AdvanceTo(k.Now().Add(d))
}

// AdvanceTo is Advance up to a time.
func (k *Kit) AdvanceTo(t time.Time) []qrtz.Event {
	k.tb.Helper()
	if t.Before(k.Now()) {
		k.tb.Fatalf("qrtztest: it is %s already; time cannot go back to %s", k.Now(), t)
	}
	before := len(k.told)
	for {
		told, next, err := k.node.RunDue(k.tb.Context())
		k.told = append(k.told, told...)
		k.check(err)
		if next.IsZero() || next.After(t) {
			break
		}
		k.setTime(next)
	}
	k.setTime(t)
	return slices.Clone(k.told[before:])
}

// Skip lets time pass while no node runs, and then starts one again. What is late by more than Config.MisfireAfter is
// then decided by its misfire policy. It returns what ran and what was skipped.
func (k *Kit) Skip(d time.Duration) []qrtz.Event {
	k.tb.Helper()
	k.node.Leave(k.tb.Context())
	k.setTime(k.Now().Add(d))
	k.join()
	return k.Advance(0)
}

// Runs are the runs that have ended so far, in order.
func (k *Kit) Runs() []qrtz.Event {
	return k.filter(func(e qrtz.Event) bool { return e.State != qrtz.Skipped })
}

// Ran are the runs of a class that have ended so far.
func (k *Kit) Ran(class string) []qrtz.Event {
	return k.filter(func(e qrtz.Event) bool { return e.State != qrtz.Skipped && e.Class == class })
}

// Skipped are the fires of a class that were put on record as skipped so far, each event with its Count.
func (k *Kit) Skipped(class string) []qrtz.Event {
	return k.filter(func(e qrtz.Event) bool { return e.State == qrtz.Skipped && e.Class == class })
}

// RequireRan fails the test unless exactly n runs of a class have ended so far, and returns them.
func (k *Kit) RequireRan(class string, n int) []qrtz.Event {
	k.tb.Helper()
	ran := k.Ran(class)
	if len(ran) != n {
		k.tb.Fatalf("qrtztest: %d runs of class %q, want %d: %+v", len(ran), class, n, ran)
	}
	return ran
}

func (k *Kit) filter(keep func(qrtz.Event) bool) []qrtz.Event {
	return slices.DeleteFunc(slices.Clone(k.told), func(e qrtz.Event) bool { return !keep(e) })
}
