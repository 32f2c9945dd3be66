package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/schema"
)

// database is the name of the database that the cluster works on.
const database = "torture"

// stopLimit is how long a worker may take to stop beyond its DrainTimeout: handlers get their last words, results are written.
const stopLimit = 25 * time.Second

// torture is one run of the program.
type torture struct {
	*timeline
	dir      string
	duration time.Duration
	seed     uint64
	only     string
	pace     pace

	servers   servers
	db        *sql.DB // straight to the first server that lives
	dsns      []string
	processes []*process
	lines     []*line // of each process
	apps      []*appUnder
	calmApp   *appUnder  // whose workers and rows no fault touches
	calm      []*process // its workers, and others that no fault touches
	guests    []*process // come and go
	twins     []*process // likewise, two at a time
	exactApps []*appUnder
	exact     []*process // their workers
	twinning  trouble
	records   *records
	judge     *judge

	clock    serverClock
	stalls   stalls
	leaks    leaks
	locks    locks
	poisons  poisons
	tables   sync.RWMutex // read while a fault leaves a transaction open
	changing spans        // of tables
	wide     trouble      // an open transaction that holds up a whole app
	crowds   spans        // many fires at once

	from, until time.Time // of all lasting schedules
	serverDown  trouble
	faults      sync.WaitGroup // under way

	mu   sync.Mutex
	down []bool // servers that are
}

// appUnder is an app under torture.
type appUnder struct {
	name string
	*qrtz.Scheduler

	change trouble // of its switch, or of one of its nodes

	mu       sync.Mutex
	passing  []string // names of jobs that come and go
	declared int
}

func newTorture(dir string, duration time.Duration, seed uint64, only string, t *timeline) *torture {
	return &torture{timeline: t, dir: dir, duration: duration, seed: seed, only: only, pace: paceOf(duration)}
}

// begin starts servers and workers and declares the schedules.
func (t *torture) begin(ctx context.Context, start func(context.Context, string, []string) (servers, error)) (err error) {
	if t.servers, err = start(ctx, filepath.Join(t.dir, "db"), t.serverEnv()); err != nil {
		return err
	}
	t.down = make([]bool, t.servers.Nodes())
	if err := t.openDatabase(ctx); err != nil {
		return err
	}
	dice := rand.New(rand.NewPCG(t.seed, 4))
	t.records = newRecords(t.dir)
	t.judge = newJudge(t)
	for _, w := range []struct {
		app, id string
		workers int
	}{{"a", "n1", 64}, {"a", "n2", 64}, {"a", "n3", 4}, {"b", "n1", 64}, {"b", "n2", 32}} {
		if err := t.addWorker(w.app, w.id, w.workers, dice.Uint64()); err != nil { //nolint:contextcheck // a worker lives until it is stopped
			return err
		}
	}
	if err := t.addCalmWorkers(); err != nil { //nolint:contextcheck // likewise
		return err
	}
	if err := t.addExactWorkers(); err != nil { //nolint:contextcheck // likewise
		return err
	}
	if err := t.awaitWorkers(ctx); err != nil {
		return err
	}
	t.from = time.Now().Add(max(5*time.Second, time.Since(t.start))) // where all goes slowly, declaring does, too
	t.until = t.from.Add(t.duration)
	for _, name := range []string{"a", "b"} {
		if err := t.addApp(ctx, name, lastingJobs(dice, t.from, t.until)); err != nil {
			return fmt.Errorf("app %s: %w", name, err)
		}
	}
	if err := t.addPromises(ctx); err != nil {
		return fmt.Errorf("promises: %w", err)
	}
	if err := t.addCalmApps(ctx, dice); err != nil {
		return err
	}
	return t.addExactApps(ctx)
}

// awaitWorkers waits until all have joined: a machine that has much to do takes a while.
func (t *torture) awaitWorkers(ctx context.Context) error {
	for limit := time.Now().Add(time.Minute); ; {
		said, err := t.records.said()
		if err != nil {
			return err
		}
		now := time.Now()
		if !slices.ContainsFunc(slices.Concat(t.processes, t.calm, t.exact), func(p *process) bool { return !hasJoined(said, p, now) }) {
			return nil
		}
		if now.After(limit) || !sleepUntil(ctx, now.Add(100*time.Millisecond)) {
			return errors.Join(errors.New("the workers have not joined within a minute"), context.Cause(ctx))
		}
	}
}

func (t *torture) openDatabase(ctx context.Context) error {
	root, err := sql.Open("mysql", t.servers.DSN(0, ""))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	var version, comment string
	if err := root.QueryRowContext(ctx, `SELECT @@version, @@version_comment`).Scan(&version, &comment); err != nil {
		return fmt.Errorf("the server does not answer: %w", err)
	}
	t.note("%d × %s", t.servers.Nodes(), versionText(version, comment))
	if _, err := root.ExecContext(ctx, `CREATE DATABASE `+database); err != nil {
		return err
	}
	for i := range t.servers.Nodes() {
		t.dsns = append(t.dsns, t.servers.DSN(i, database))
	}
	t.db = sql.OpenDB(&anyServer{t: t})
	t.db.SetMaxIdleConns(4)
	if _, err = schema.Up(ctx, t.db, schema.DefaultPrefix); err != nil {
		return err
	}
	if err := t.prepareTables(ctx); err != nil {
		return err
	}
	return t.makeProbe(ctx)
}

func (t *torture) addApp(ctx context.Context, name string, jobs []qrtz.Job) error {
	cfg := t.pace.config
	cfg.App = name
	s, err := qrtz.Open(t.db, cfg)
	if err != nil {
		return err
	}
	a := &appUnder{name: name, Scheduler: s}
	t.apps = append(t.apps, a)
	schedules := 0
	for _, j := range jobs {
		schedules += len(j.Schedules)
	}
	if err := s.Declare(ctx, jobs...); err != nil {
		return err
	}
	t.note("app %s: %d jobs with %d schedules that last, others come and go", name, len(jobs), schedules)
	return nil
}

func (t *torture) addWorker(app, id string, workers int, seed uint64) error {
	dsn := t.dsns[len(t.processes)%len(t.dsns)]
	upstream, err := address(dsn)
	if err != nil {
		return err
	}
	l, err := newLine(app+"-"+id, upstream)
	if err != nil {
		return err
	}
	if dsn, err = redirected(dsn, l.addr()); err != nil {
		return err
	}
	p := t.newProcess(app, id, dsn, workers, seed)
	p.line = l
	t.processes, t.lines = append(t.processes, p), append(t.lines, l)
	return p.start()
}

func (t *torture) newProcess(app, id, dsn string, workers int, seed uint64) *process {
	cfg := t.pace.config
	return &process{app: app, id: id, dir: t.dir, spec: workerSpec{
		DSN: dsn, Borrows: id == "n2" || id == "small", App: app, ID: id, Workers: workers, Seed: seed, NodeTimeout: t.pace.nodeTimeout(),
		Poll: cfg.PollInterval, Misfire: cfg.MisfireInterval, MisfireAfter: cfg.MisfireAfter, Drain: cfg.DrainTimeout, Sample: sampleEvery(t.duration),
	}}
}

// run carries out the plan, checks all the while, heals everything, and checks again when all is done.
func (t *torture) run(ctx context.Context) error {
	faults := plan(t.seed, t.duration, t.pace, t.only)
	t.note("%d faults planned", len(faults))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var checks sync.WaitGroup
	checks.Go(func() {
		if err := t.watch(ctx); err != nil {
			cancel(err)
		}
	})
	t.faults.Go(func() { t.ask(ctx) })
	t.beExact(ctx)
	checks.Go(func() { t.judge.queues.watch(ctx, t.judge.db) })
	checks.Go(func() { t.judge.instances.watch(ctx, t.judge.db) })
	checks.Go(func() { t.clock.watch(ctx, t.judge.db) })
	checks.Go(func() { t.watchServer(ctx) })
	for i, dsn := range t.dsns {
		checks.Go(func() {
			if err := t.stalls.watch(ctx, dsn, i); err != nil {
				cancel(err)
			}
		})
	}
	start := t.from.Add(2 * time.Second)
	for _, f := range faults {
		if !sleepUntil(ctx, start.Add(f.at)) {
			break
		}
		t.faults.Go(func() { f.kind.do(t, ctx, f) })
	}
	sleepUntil(ctx, t.until)
	t.faults.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	t.note("nothing goes wrong any more: within %s everything must be right", t.pace.settle())
	left, err := t.settle(ctx)
	cancel(nil)
	checks.Wait()
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		return t.judge.fail(ctx, left)
	}
	if err := t.stopAll(); err != nil {
		return err
	}
	return t.judge.final(context.WithoutCancel(ctx))
}

// watch checks every few seconds, until ctx ends.
func (t *torture) watch(ctx context.Context) error {
	ticker := time.NewTicker(t.pace.checks)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, p := range slices.Concat(t.processes, t.calm, t.exact) {
			if err := p.died(); err != nil {
				return err
			}
		}
		if err := t.judge.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// settle waits until every lasting schedule is COMPLETE and nothing waits or runs. It returns what is left when the
// time for that is over.
func (t *torture) settle(ctx context.Context) (left []finding, err error) {
	limit := time.Now().Add(t.pace.settle())
	for {
		left, err := t.judge.unfinished(ctx)
		if err != nil || len(left) == 0 || time.Now().After(limit) {
			return left, err
		}
		if !sleepUntil(ctx, time.Now().Add(time.Second)) {
			return nil, context.Cause(ctx)
		}
	}
}

// stopAll stops the workers in order.
func (t *torture) stopAll() error {
	t.note("stopping all workers")
	processes := slices.Concat(t.processes, t.calm, t.exact)
	errs := make([]error, len(processes))
	var all sync.WaitGroup
	for i, p := range processes {
		all.Go(func() { errs[i] = p.stop(stopLimit + p.spec.Drain) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// end leaves nothing behind but the directory. It does so though ctx may have ended.
func (t *torture) end(ctx context.Context) error {
	for _, p := range slices.Concat(t.processes, t.calm, t.exact, t.guests, t.twins) {
		if p.life() != nil {
			p.kill()
		}
	}
	for _, l := range t.lines {
		l.cut()
	}
	var err error
	if t.db != nil {
		err = t.db.Close()
	}
	if t.servers != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, t.servers.Stop(ctx))
	}
	if err == nil {
		_ = os.RemoveAll(filepath.Join(t.dir, "db")) // large, and of no further use
	}
	return err
}

// sleepUntil waits; false if ctx ended before.
func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// placesOf are the workers of an app, also of one that no fault touches.
func (t *torture) placesOf(app string) []*process {
	return slices.DeleteFunc(slices.Concat(t.processes, t.calm), func(p *process) bool { return p.app != app })
}

func (t *torture) processesOf(app string) []*process {
	return slices.DeleteFunc(slices.Clone(t.processes), func(p *process) bool { return p.app != app })
}
