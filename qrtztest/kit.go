// Package qrtztest is for tests of programs that use qrtz. It makes a database for each test, and drives a scheduler step by step:
// time passes when the test says so, and what is due runs at once, in order, in the test's goroutine.
//
//	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "billing"}, func(s *qrtz.Scheduler) {
//		qrtz.Handle(s, "invoice", sendInvoices)
//	})
//	kit.Declare(jobs...)
//	kit.Advance(24 * time.Hour)
//	kit.Expect("invoice", qrtz.Succeeded)
//
// It runs on a real database with the real tables, claims and results, so that what a test sees is what will happen. Nothing is left
// to chance: a retry comes after exactly its backoff. A test can have runs take their time (Hold), kill, freeze and restart the node that
// carries them out, and skip over an outage.
//
// Programs do not link the package testing with it: it only asks for the few methods of a TB.
package qrtztest

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/schema"
)

// Start is the time at which every kit begins. How far it can go, the server decides: to 2038 in MariaDB before 11.5.
var Start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Kit is a scheduler with a clock of its own.
type Kit struct {
	// Scheduler is what is tested. Enqueue, pause, cancel through it as your program does.
	Scheduler *qrtz.Scheduler

	// DB is the database with the kit's time as its clock: the pool given to New, if it is one of Database's. A transaction
	// for Scheduler.In must be begun here.
	DB *sql.DB

	tb     TB
	cfg    qrtz.Config
	prefix schema.Prefix
	clock  *clock
	node   *qrtz.Manual   // nil while no node runs
	nodes  int            // there have been so far
	frozen []*qrtz.Manual // whose held runs may still continue
	told   []qrtz.Event
}

// New returns a kit on a database of the test's: Database makes one. It creates the qrtz tables there if they are missing. register
// adds the handlers. On any other pool the kit holds one connection, or two, until the test ends.
//
// The kit's scheduler is the only node: "node-1", or what Config names it with such a number. It applies misfire policies when it starts and after Skip.
// Handlers run in no time. Options.Timeout counts real time, or the kit's for runs that are held. Config.Hooks are called at once.
// JSON data with a field that a handler does not know is refused, unless Config.UnknownFields says otherwise. Nothing is logged, unless
// Config has a logger. Config.Workers, Limits and Reserved have no effect, nor has any interval but PollInterval, NodeTimeout and
// MisfireAfter. A scheduler that has its own DSN uses DB all the same.
func New(tb TB, db *sql.DB, cfg qrtz.Config, register func(*qrtz.Scheduler)) *Kit {
	tb.Helper()
	if cfg.UnknownFields == "" {
		cfg.UnknownFields = qrtz.UnknownRefused
	}
	if cfg.Logger == nil && cfg.Slog == nil {
		log := zerolog.Nop()
		cfg.Logger = &log
	}
	k := &Kit{tb: tb, cfg: cfg, prefix: schema.DefaultPrefix}
	if cfg.Prefix != "" {
		k.prefix = schema.Prefix(cfg.Prefix)
	}
	if k.cfg.NodeID == "" {
		k.cfg.NodeID = "node"
	}
	if db == nil {
		tb.Fatal("qrtztest: New was given no database: want that of Database")
	}
	k.takeDatabase(db)
	k.takeApp(db)
	_, err := schema.Up(tb.Context(), db, k.prefix)
	k.check(err)
	k.Scheduler, err = qrtz.Open(k.DB, cfg)
	k.check(err)
	if register != nil {
		register(k.Scheduler)
	}
	k.join()
	tb.Cleanup(k.end)
	return k
}

// takenApp is an app that has a kit.
type takenApp struct {
	db     *sql.DB
	prefix schema.Prefix
	app    string
}

var takenApps sync.Map

// takeApp ends a test that has a second kit for its app. It would wait for ever for the first one's node to die, since the
// database's time stands still.
func (k *Kit) takeApp(db *sql.DB) {
	k.tb.Helper()
	taken := takenApp{db, k.prefix, k.cfg.App}
	if _, another := takenApps.LoadOrStore(taken, true); another {
		k.tb.Fatalf("qrtztest: app %q has a kit on this database already: want one, or another Database", k.cfg.App)
	}
	k.tb.Cleanup(func() { takenApps.Delete(taken) })
}

// takeDatabase gives the database the kit's time.
func (k *Kit) takeDatabase(db *sql.DB) {
	if own, ok := clocks.Load(db); ok {
		k.DB, k.clock = db, own.(*clock)
		k.clock.set(Start)
		return
	}
	k.clock = &clock{}
	k.clock.set(Start) // which every server takes
	k.DB = sql.OpenDB(&borrower{db, k.clock})
	k.tb.Cleanup(func() { k.check(k.DB.Close()) })
}

func (k *Kit) check(err error) {
	k.tb.Helper()
	check(k.tb, err)
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

// join has a node join, under a name that none has had before.
func (k *Kit) join() {
	k.tb.Helper()
	k.nodes++
	name := fmt.Sprintf("%s-%d", k.cfg.NodeID, k.nodes)
	node, err := k.Scheduler.Manual(k.tb.Context(), name)
	k.check(err)
	k.node = node
}

// end leaves nothing behind that waits.
func (k *Kit) end() {
	for _, n := range k.frozen {
		n.Abandon()
	}
	k.node.Leave(context.WithoutCancel(k.tb.Context()))
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
	next := k.runDue()
	for ; !next.IsZero() && !next.After(t); next = k.runDue() {
		k.setTime(next)
	}
	if k.setTime(t); k.node.Waiting() {
		k.runDue() // who waits may be cancelled
	}
	return k.since(before)
}

// since are the events after the first so many.
func (k *Kit) since(before int) []qrtz.Event { return slices.Clone(k.told[before:]) }

// runDue runs what is due now, and returns when there will be more.
func (k *Kit) runDue() (next time.Time) {
	k.tb.Helper()
	told, next, err := k.node.RunDue(k.tb.Context())
	k.told = append(k.told, told...)
	k.check(err)
	return next
}

// Skip lets time pass while no node runs, and then starts one again. What is late by more than Config.MisfireAfter is
// then decided by its misfire policy. Runs that are held do not continue. It returns what ran and what was skipped.
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

func (k *Kit) filter(keep func(qrtz.Event) bool) []qrtz.Event {
	return slices.DeleteFunc(slices.Clone(k.told), func(e qrtz.Event) bool { return !keep(e) })
}
