package qrtz_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// cluster is a database and the nodes that a test runs on it, in this process. Its nodes are quick: what takes
// seconds by default takes a second here. At the end of the test they are stopped and what ran is checked.
type cluster struct {
	t   *testing.T
	dsn string
	db  *sql.DB

	mu      sync.Mutex
	started []fire
}

// fire is what a handler saw: a record that does not go through the code under test.
type fire struct {
	qrtz.Run
	seen time.Time // by the clock of this machine, which is the database's too
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	dsn := testdb.DSN(t)
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	migrate(t, db)
	c := &cluster{t: t, dsn: dsn, db: db}
	t.Cleanup(c.inOrder)
	t.Cleanup(c.check)
	return c
}

// migrate creates the tables.
func migrate(t *testing.T, db *sql.DB) {
	t.Helper()
	s, err := qrtz.Open(db, quick(""))
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
}

// testNode is a scheduler that runs until it is stopped.
type testNode struct {
	*qrtz.Scheduler
	halt func() // stops it and waits; calling it again does nothing
}

const misfireAfter = 3 * time.Second

// quick is the configuration of a test's nodes.
func quick(id string) qrtz.Config {
	log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, NoColor: true}).With().Timestamp().Str("n", id).Logger()
	return qrtz.Config{
		App: "test", NodeID: id, Logger: &log,
		PollInterval: 500 * time.Millisecond, MisfireInterval: time.Second, MisfireAfter: misfireAfter, NodeTimeout: 2 * time.Second,
	}
}

// patient is the configuration of nodes that neither die nor run late, however busy the machine is.
func patient(id string) qrtz.Config {
	cfg := quick(id)
	cfg.MisfireAfter, cfg.NodeTimeout = time.Minute, time.Minute
	return cfg
}

// open returns a scheduler with a handler "tick", which records its runs, and what else register adds.
func (c *cluster) open(cfg qrtz.Config, register ...func(*qrtz.Scheduler)) *qrtz.Scheduler {
	c.t.Helper()
	s, err := qrtz.Open(c.db, cfg)
	require.NoError(c.t, err)
	qrtz.Handle(s, "tick", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
		c.record(run)
		return nil
	})
	for _, r := range register {
		r(s)
	}
	return s
}

func (c *cluster) record(run *qrtz.Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = append(c.started, fire{*run, time.Now()})
}

// start runs a scheduler until the test ends or it is halted.
func (c *cluster) start(s *qrtz.Scheduler) *testNode {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	halt := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				c.t.Errorf("a node stopped with an error: %v", err)
			}
		case <-time.After(30 * time.Second):
			c.t.Error("a node did not stop within 30 seconds")
		}
	})
	c.t.Cleanup(halt)
	return &testNode{s, halt}
}

// node opens and starts a node with the handler "tick".
func (c *cluster) node(id string) *testNode {
	c.t.Helper()
	return c.start(c.open(quick(id)))
}

// fires are the runs handlers have seen so far, in the order they began.
func (c *cluster) fires() []fire {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.started)
}

// check is made after every test of a cluster: no fire twice, none early, none out of order, none without a row
// that agrees.
func (c *cluster) check() {
	seen := map[string]string{}
	for _, f := range c.fires() {
		key := fmt.Sprintf("execute %d at %s, attempt %d", f.ScheduleID, f.FireTime.Format(time.StampMilli), f.Attempt)
		if f.ScheduleID == 0 {
			key = fmt.Sprintf("run %d", f.ID)
		}
		if before, ok := seen[key]; ok {
			c.t.Errorf("%s ran twice: on %s and %s", key, before, f.Node)
		}
		seen[key] = f.Node
		if f.seen.Before(f.FireTime) || f.StartedAt.Before(f.FireTime) {
			c.t.Errorf("%s was early", key)
		}
		var node string
		err := c.db.QueryRow(`SELECT COALESCE(HOST_IP, '') FROM QRTZ_RUN WHERE ID = ? AND EXECUTE_ID <=> ? AND FIRE_TIME = ?`,
			f.ID, nullable(f.ScheduleID), f.FireTime.UnixMilli()).Scan(&node)
		if err != nil || node != f.Node {
			c.t.Errorf("%s ran on %s; QRTZ_RUN says %q (%v)", key, f.Node, node, err)
		}
	}
}

// inOrder checks that no fire of an execute started before an earlier one on the same node: between nodes, only
// claims are in order. A fire that its misfire policy runs late may start after later ones.
func (c *cluster) inOrder() {
	fires := c.fires()
	slices.SortStableFunc(fires, func(a, b fire) int {
		return cmp.Or(cmp.Compare(a.ScheduleID, b.ScheduleID), cmp.Compare(a.Node, b.Node), a.FireTime.Compare(b.FireTime))
	})
	for i, f := range fires[min(1, len(fires)):] {
		before := fires[i]
		if f.ScheduleID != 0 && f.ScheduleID == before.ScheduleID && f.Node == before.Node && f.StartedAt.Before(before.StartedAt) &&
			before.StartedAt.Sub(before.FireTime) < misfireAfter {
			c.t.Errorf("execute %d on %s: %s overtook %s", f.ScheduleID, f.Node, f.FireTime.Format(time.StampMilli), before.FireTime.Format(time.StampMilli))
		}
	}
}

func nullable(id int64) sql.NullInt64 { return sql.NullInt64{Int64: id, Valid: id != 0} }

// exec runs a statement as an operator at a SQL console would.
func (c *cluster) exec(query string, args ...any) sql.Result {
	c.t.Helper()
	done, err := c.db.Exec(query, args...)
	require.NoError(c.t, err)
	return done
}

// count is the one number a query returns.
func (c *cluster) count(query string, args ...any) (n int) {
	c.t.Helper()
	require.NoError(c.t, c.db.QueryRow(query, args...).Scan(&n))
	return n
}

// text is the one text a query returns.
func (c *cluster) text(query string, args ...any) (s string) {
	c.t.Helper()
	require.NoError(c.t, c.db.QueryRow(query, args...).Scan(&s))
	return s
}

// patience is how many times longer than a step takes by itself a test waits for it: the machine is busy with other tests, which
// may have the race detector on.
const patience = 5

// eventually waits until a condition holds.
func (c *cluster) eventually(what string, within time.Duration, holds func() bool) {
	c.t.Helper()
	require.Eventually(c.t, holds, patience*within, 20*time.Millisecond, what)
}

// ran waits for n runs to have begun that keep lets through.
func (c *cluster) ran(n int, within time.Duration, keep func(fire) bool) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%d runs", n), within, func() bool {
		return len(slices.DeleteFunc(c.fires(), func(f fire) bool { return !keep(f) })) >= n
	})
}

func all(fire) bool { return true }

func dueAfter(t time.Time) func(fire) bool { return func(f fire) bool { return f.FireTime.After(t) } }

func on(node string, after time.Time) func(fire) bool {
	return func(f fire) bool { return f.Node == node && f.FireTime.After(after) }
}

// ticking declares n schedules with a fixed rate.
func ticking(t *testing.T, s *qrtz.Scheduler, n int, every time.Duration) {
	t.Helper()
	job := qrtz.Job{Name: "ticking", Class: "tick"}
	for i := range n {
		schedule := qrtz.Every(every)
		schedule.Name = fmt.Sprint(i)
		job.Schedules = append(job.Schedules, schedule)
	}
	require.NoError(t, s.Declare(t.Context(), job))
}

// within is how soon an operator's wish has its effect and a run starts: a second or less, and what a busy machine takes.
const within = misfireAfter

// arrives is what comes out of a channel in time.
func arrives[T any](t *testing.T, from <-chan T, in time.Duration) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience * in):
		require.Fail(t, "nothing has come", "within %s", patience*in)
	}
	return value
}

// waits is a handler that waits for the end of its context, and hands over its cause.
func (c *cluster) waits(causes chan error) func(*qrtz.Scheduler) {
	return func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "waits", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			c.record(run)
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		})
	}
}

// addJob adds a job from a SQL console, with the columns of version 1.3.
func (c *cluster) addJob(class string) int64 {
	c.t.Helper()
	id, err := c.exec(`INSERT INTO QRTZ_JOB (APPLICATION, STATE, JOB_CLASS, JOB_DATA, JOB_DESCRIPTION, UPDATE_TIME)
		VALUES ('test', 'EXECUTING', ?, '{}', 'by SQL', 0)`, class).LastInsertId()
	require.NoError(c.t, err)
	return id
}

// addExecute adds an execute from a SQL console, with columns of version 1.3: it does not name its app.
func (c *cluster) addExecute(job int64, kind, cron string, every time.Duration, count int, start, next, end int64) int64 {
	c.t.Helper()
	id, err := c.exec(`INSERT INTO QRTZ_EXECUTE (PID, JOB_TYPE, STATE, CRON, ZONE_ID, REPEAT_COUNT, REPEAT_INTERVAL, NEXT_FIRE_TIME,
		HOST_IP, HOST_NAME, START_TIME, END_TIME) VALUES (?, ?, 'EXECUTING', ?, 'UTC', ?, ?, ?, 'console', 'console', ?, ?)`,
		job, kind, cron, count, every.Milliseconds(), next, start, end).LastInsertId()
	require.NoError(c.t, err)
	return id
}

func (c *cluster) state(execute int64) string {
	return c.text(`SELECT STATE FROM QRTZ_EXECUTE WHERE ID = ?`, execute)
}

func (c *cluster) waitForState(execute int64, state string) {
	c.t.Helper()
	c.eventually("state "+state, 10*time.Second, func() bool { return c.state(execute) == state })
}
