package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz"
)

// Queued is how long enqueued runs wait for their handlers, from the return of Enqueue, or of the COMMIT of the caller's
// transaction, to the handler's first line.
type Queued struct {
	From   string `json:"from"` // where they were enqueued
	Rate   int    `json:"rate"` // a second
	Nodes  int    `json:"nodes"`
	Behind int    `json:"behind,omitempty"` // so many runs that are PENDING and that no node can run
	Late
}

// Backlog is how fast runs that are PENDING are carried out.
type Backlog struct {
	Runs       int     `json:"runs"`
	Nodes      int     `json:"nodes"`
	Workers    int     `json:"workers"`
	PerSecond  float64 `json:"per_second"` // from the first start to the last result on record
	Statements float64 `json:"statements"` // a run
	ServerCPU  float64 `json:"server_cores"`
	NodeCPU    float64 `json:"node_cores"`
}

const (
	asked = "asked" // the class of runs that are enqueued

	here   = "the same process"
	hereTx = "the same process, in a transaction"
	there  = "another process"

	drainLimit = 2 * time.Minute
)

// askedFor is how a node of a measurement enqueues.
type askedFor struct {
	Rate   int  // runs a second; 0: it does not
	InTx   bool // each in a transaction of the caller's
	Client bool // it carries out nothing
}

// queue measures the way of a run that is enqueued, and how fast many are carried out.
func (s *site) queue(ctx context.Context, r *Report) error {
	for _, rate := range s.askRates {
		for _, c := range []struct {
			from          string
			nodes, behind int
		}{{here, 1, 0}, {hereTx, 1, 0}, {there, 1, 0}, {there, lateNodes, 0}, {there, lateNodes, s.askBehind}} {
			one, err := s.queued(ctx, c.from, rate, c.nodes, c.behind)
			if err != nil {
				return err
			}
			r.Queued = append(r.Queued, one)
			s.say("queue: %d a second from %s, %d nodes, behind %d others: %d runs, p50 %.2f ms, p99 %.2f ms, max %.2f ms",
				rate, c.from, c.nodes, c.behind, one.Fires, one.P50, one.P99, one.Max)
		}
	}
	for _, c := range s.backlogBy {
		one, err := s.backlog(ctx, c)
		if err != nil {
			return err
		}
		r.Backlog = append(r.Backlog, one)
		s.say("queue: a backlog of %d runs, %d nodes with %d workers: %.0f/s, %.3f statements each, cores: server %.2f, nodes %.2f",
			one.Runs, one.Nodes, one.Workers, one.PerSecond, one.Statements, one.ServerCPU, one.NodeCPU)
	}
	return nil
}

func (s *site) queued(ctx context.Context, from string, rate, nodes, behind int) (Queued, error) {
	d, err := s.database(ctx)
	if err != nil {
		return Queued{}, err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	if err := d.askedJob(ctx); err != nil {
		return Queued{}, err
	}
	if behind > 0 {
		if err := d.foreign(ctx, behind); err != nil {
			return Queued{}, err
		}
	}
	begin := time.Now().Add(s.settle + 2*time.Second)
	o := NodeOptions{From: begin, Until: begin.Add(s.lateFor)}
	if from != there {
		o.Asked = askedFor{Rate: rate, InTx: from == hereTx}
	}
	f, err := s.startNodes(ctx, d, nodes, o)
	if err != nil {
		return Queued{}, err
	}
	defer f.kill()
	if from == there {
		o.ID, o.DSN, o.Asked = "client", d.dsn, askedFor{Rate: rate, Client: true}
		client, err := s.startNode(o)
		if err != nil {
			return Queued{}, err
		}
		f.nodes = append(f.nodes, client)
	}
	if !sleep(ctx, time.Until(o.Until.Add(2*time.Second))) {
		return Queued{}, ctx.Err()
	}
	sum, err := f.stop()
	if err != nil {
		return Queued{}, err
	}
	late := newHistogram()
	for id, committed := range sum.Committed {
		started, ok := sum.Started[id]
		if !ok {
			return Queued{}, fmt.Errorf("run %d was enqueued and has not begun", id)
		}
		if committed >= o.From.UnixMicro() {
			_ = late.RecordValue(min(max(started-committed, 1), late.HighestTrackableValue()))
		}
	}
	all := summary{Fires: late.TotalCount(), Late: late.Export()}
	return Queued{From: from, Rate: rate, Nodes: nodes, Behind: behind, Late: all.lateness()}, nil
}

const (
	askedJobSQL = `INSERT INTO QRTZ_JOB (APPLICATION, NAME, STATE, JOB_CLASS, UPDATE_TIME) VALUES (?, ?, 'INIT', ?, 0)`

	backlogSQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE, AVAILABLE_AT)
SELECT ?, (SELECT ID FROM QRTZ_JOB WHERE NAME = ?), ?, 'PENDING', ? FROM %s X WHERE N < ?`

	unfinishedSQL = `SELECT EXISTS (SELECT 1 FROM QRTZ_RUN WHERE APPLICATION = ? AND STATE IN ('PENDING', 'RUNNING'))`

	wrongRunsSQL = `SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE <> 'SUCCEEDED' OR FENCE <> 1`
)

func (d *database) askedJob(ctx context.Context) error {
	_, err := d.ExecContext(ctx, askedJobSQL, benchApp, asked, asked)
	return err
}

// foreign adds runs that are PENDING, of a class that no node handles.
func (d *database) foreign(ctx context.Context, n int) error {
	if _, err := d.ExecContext(ctx, askedJobSQL, benchApp, elsewhere, elsewhere); err != nil {
		return err
	}
	due := time.Now().Add(-time.Hour).UnixMilli()
	_, err := d.ExecContext(ctx, fmt.Sprintf(backlogSQL, numbers(n)), benchApp, elsewhere, due, due, n)
	return err
}

// backlog has some nodes carry out runs that are PENDING when they are told of them all at once.
func (s *site) backlog(ctx context.Context, c crew) (Backlog, error) {
	d, err := s.database(ctx)
	if err != nil {
		return Backlog{}, err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	if err := d.askedJob(ctx); err != nil {
		return Backlog{}, err
	}
	b := Backlog{Runs: s.backlogRuns, Nodes: c.nodes, Workers: c.workers}
	if b.Workers == 0 {
		b.Workers = s.Workers
	}
	due := time.Now().Add(meetIn + agreeIn)
	args := []any{benchApp, asked, due.UnixMilli(), due.UnixMilli(), b.Runs}
	if _, err := d.ExecContext(ctx, fmt.Sprintf(backlogSQL, numbers(b.Runs)), args...); err != nil {
		return b, err
	}
	f, err := s.startNodes(ctx, d, c.nodes, NodeOptions{Workers: b.Workers, From: due, Until: due.Add(drainLimit)})
	if err != nil {
		return b, err
	}
	defer f.kill()
	if !sleep(ctx, time.Until(due)) {
		return b, ctx.Err()
	}
	before, err := s.counters(ctx)
	if err != nil {
		return b, err
	}
	looks := int64(0)
	err = until(ctx, drainLimit, func() (bool, error) {
		looks++
		var left bool
		err := d.GetContext(ctx, &left, unfinishedSQL, benchApp)
		return !left, err
	})
	end := time.Now()
	if err != nil {
		return b, err
	}
	after, err := s.counters(ctx)
	if err != nil {
		return b, err
	}
	did := after.since(before)
	sum, err := f.stop()
	if err != nil {
		return b, err
	}
	var wrong int
	if err := d.GetContext(ctx, &wrong, wrongRunsSQL); err != nil || wrong > 0 || sum.Fires != int64(b.Runs) {
		return b, errors.Join(err, fmt.Errorf("%d of %d runs were begun, and %d did not end as they should", sum.Fires, b.Runs, wrong))
	}
	took := end.Sub(sum.First).Seconds()
	b.PerSecond = float64(b.Runs) / took
	b.Statements = float64(did.Statements-looks) / float64(b.Runs)
	b.ServerCPU, b.NodeCPU = did.Server.Seconds()/took, sum.AllCPU.Seconds()/took
	return b, nil
}

// asks are the runs that a process has enqueued and started.
type asks struct {
	mu        sync.Mutex
	started   map[int64]int64 // in microseconds, by id
	committed map[int64]int64
}

func newAsks() *asks { return &asks{started: map[int64]int64{}, committed: map[int64]int64{}} }

const mostAsks = 100_000 // of which a process keeps the times

func (a *asks) note(times map[int64]int64, id int64) {
	now := time.Now().UnixMicro()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(times) < mostAsks {
		times[id] = now
	}
}

// ask enqueues at an uneven pace until a time.
func (a *asks) ask(ctx context.Context, s *qrtz.Scheduler, db *sql.DB, o NodeOptions) error {
	pause := time.Second / time.Duration(o.Asked.Rate)
	for next := time.Now(); next.Before(o.Until) && time.Now().Before(o.Until); next = next.Add(pause/2 + rand.N(pause)) {
		if !sleep(ctx, time.Until(next)) {
			return nil
		}
		id, err := enqueue(ctx, s, db, o.Asked.InTx)
		if err != nil {
			return err
		}
		a.note(a.committed, id)
	}
	return nil
}

func enqueue(ctx context.Context, s *qrtz.Scheduler, db *sql.DB, inTx bool) (int64, error) {
	if !inTx {
		return s.Enqueue(ctx, asked, nil)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	id, err := s.In(tx).Enqueue(ctx, asked, nil)
	if err != nil {
		return 0, err
	}
	sleep(ctx, rand.N(10*time.Millisecond)) // the caller has more to do in it
	return id, tx.Commit()
}
