package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/proof/check"
	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	demoApp       = "demo"
	demoName      = "qrtz_demo" // the demo's database, or what its name begins with on a server of the user's
	demoQuick     = 20 * time.Second
	joinLimit     = 20 * time.Second // for all nodes to join and see each other
	lastRunsLimit = 20 * time.Second // for the last runs to end
)

type demoOptions struct {
	*global
	nodes  int
	length time.Duration
}

func newDemo(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "demo",
		Short: "See it work: nodes, fires, a kill, a takeover, the account",
		Long: `See it work: start some nodes, each a process of its own, let them share a dozen schedules,
kill one of them in the middle, start it again, and give account at the end: what should have
been run, what was, by which node and how late. The handlers keep a record of their own for that.

It works on a private throwaway server or, given a DSN, in a database of its own on that server,
which it drops at the end. The exit code is 0 only if no fire was run twice, missed or early.`,
	}, &demoOptions{global: g})
}

func (o *demoOptions) flags(f *pflag.FlagSet) {
	f.IntVar(&o.nodes, "nodes", 3, "how many nodes")
	f.DurationVar(&o.length, "for", 30*time.Second, "how long the schedules run")
}

func (o *demoOptions) validate(args []string) error {
	if err := noArgs(args); err != nil {
		return err
	}
	if o.nodes < 2 || o.nodes > 20 {
		return fmt.Errorf("--nodes %d: want 2 to 20, because one is killed", o.nodes)
	}
	if o.length < 5*time.Second || o.length > time.Hour {
		return fmt.Errorf("--for %s: want 5s to 1h", o.length)
	}
	return nil
}

func (o *demoOptions) run(cmd *cobra.Command) error {
	d := &demo{out: cmd.OutOrStdout(), length: o.length, names: map[int64]string{}, prefix: schema.Prefix(o.prefix)}
	return d.run(cmd.Context(), o.global, o.nodes)
}

// demo is one demonstration under way.
type demo struct {
	out    io.Writer
	length time.Duration
	prefix schema.Prefix

	db         *sqlx.DB
	dsn        string
	logs       string // directory of the nodes' logs
	nodes      []*demoNode
	names      map[int64]string // of the executes
	ahead      time.Duration    // of the database's clock, before ours
	start, end time.Time        // of all schedules, by the database's clock
}

func (d *demo) run(ctx context.Context, g *global, nodes int) (err error) {
	if err := d.prefix.Validate(); err != nil {
		return fmt.Errorf("--prefix: %w", err)
	}
	cleanUp, err := d.openDatabase(ctx, g)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cleanUp()) }()
	if d.logs, err = os.MkdirTemp("", "qrtz-demo-"); err != nil {
		return err
	}
	defer func() {
		d.stopNodes()
		if err == nil || ctx.Err() != nil {
			_ = os.RemoveAll(d.logs)
		} else {
			err = fmt.Errorf("%w\nthe nodes' logs are in %s", err, d.logs)
		}
	}()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	if err := d.startNodes(ctx, nodes); err != nil {
		return err
	}
	if err := d.declare(ctx); err != nil {
		return err
	}
	w := newWatch(d)
	if err := w.run(ctx); err != nil {
		return err
	}
	d.say("all schedules have ended: stopping the nodes (SIGTERM)")
	d.stopNodes()
	return d.account(ctx, w)
}

// openDatabase makes the demo's database: on a throwaway server, or on the user's.
func (d *demo) openDatabase(ctx context.Context, g *global) (cleanUp func() error, err error) {
	cfg, err := g.config(false)
	if err != nil {
		return nil, err
	}
	name := demoName
	var stop func(context.Context) error
	if cfg == nil {
		server, err := mysqld.Start(ctx, mysqld.Options{})
		if err != nil {
			return nil, fmt.Errorf("start a private server: %w", err)
		}
		stop = func(ctx context.Context) error { return errors.Join(d.db.Close(), server.Stop(ctx)) }
		if cfg, err = parseDSN(server.DSN("")); err != nil {
			return nil, errors.Join(err, server.Stop(context.WithoutCancel(ctx)))
		}
		printf(d.out, "a private throwaway server, process %d\n", server.PID())
	} else {
		name = fmt.Sprintf("%s_%d_%x", demoName, os.Getpid(), time.Now().UnixMilli())
		stop = func(ctx context.Context) error { return errors.Join(dropDatabase(ctx, d.db, name), d.db.Close()) }
	}
	if err := createDatabase(ctx, cfg, name, ""); err != nil {
		return nil, err
	}
	cfg.DBName = name
	d.dsn = cfg.FormatDSN()
	db, err := openPool(cfg, name, 4)
	if err != nil {
		return nil, err
	}
	d.db = sqlx.NewDb(db, "mysql")
	printf(d.out, "database %s at %s(%s)\n", name, cfg.Net, cfg.Addr)
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit) // also after an interrupt
		defer cancel()
		return stop(ctx)
	}, nil
}

func dropDatabase(ctx context.Context, db *sqlx.DB, name string) error {
	if _, err := db.ExecContext(ctx, "DROP DATABASE `"+name+"`"); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

// prepare makes the tables and compares clocks.
func (d *demo) prepare(ctx context.Context) error {
	if _, err := schema.Up(ctx, d.db.DB, d.prefix); err != nil {
		return err
	}
	if _, err := d.db.ExecContext(ctx, recordTableSQL); err != nil {
		return fmt.Errorf("create the record of fires: %w", err)
	}
	var micros int64
	if err := d.db.GetContext(ctx, &micros, `SELECT `+schema.NowSQL); err != nil {
		return fmt.Errorf("read the database's clock: %w", err)
	}
	d.ahead = time.Until(time.UnixMicro(micros))
	return nil
}

// now is the database's time, as good as one reading of it makes it.
func (d *demo) now() time.Time { return time.Now().Add(d.ahead) }

const namesSQL = `SELECT E.ID, CONCAT_WS('/', J.NAME, NULLIF(E.NAME, '')) AS NAME FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID`

// declare adds the schedules and learns their ids.
func (d *demo) declare(ctx context.Context) error {
	s, err := qrtz.Open(d.db.DB, qrtz.Config{App: demoApp, Prefix: string(d.prefix)})
	if err != nil {
		return err
	}
	d.start = d.now().Truncate(time.Second).Add(2 * time.Second)
	d.end = d.start.Add(d.length)
	jobs := demoJobs(d.start, d.length)
	if err := s.Declare(ctx, jobs...); err != nil {
		return err
	}
	var executes []struct {
		ID   int64  `db:"ID"`
		Name string `db:"NAME"`
	}
	if err := d.db.SelectContext(ctx, &executes, d.prefix.SQL(namesSQL)); err != nil {
		return fmt.Errorf("read the schedules: %w", err)
	}
	for _, e := range executes {
		d.names[e.ID] = e.Name
	}
	printf(d.out, "%d jobs with %d schedules, from %s for %s\n\n", len(jobs), len(executes), d.start.Format("15:04:05"), d.length)
	return nil
}

// say prints one line with the second it happened in.
func (d *demo) say(format string, args ...any) {
	printf(d.out, "%4.0f s  %s\n", d.now().Sub(d.start).Seconds(), fmt.Sprintf(format, args...))
}

// account recomputes what should have happened and says what did.
func (d *demo) account(ctx context.Context, w *watch) error {
	r, err := check.Run(ctx, d.db.DB, string(d.prefix), check.Options{App: demoApp, From: d.start, Until: d.end, RecordTable: recordTable})
	if err != nil {
		return err
	}
	printf(d.out, "\nThe account of %d schedules, recomputed from what is stored, against the runs and the handlers' own record:\n", r.Executes)
	line := func(what string, n int, remark string) { printf(d.out, "  %-10s %6d  %s\n", what, n, remark) }
	line("expected", r.Expected, "fires")
	line("run", r.Run, w.shares())
	if r.Lost > 0 {
		line("lost", r.Lost, "with "+w.victim.id+": it had claimed them when it was killed, and they are on record as its runs")
	}
	if n := len(w.recovered); n > 0 {
		line("recovered", n, "lost runs of a job that asks for recovery; their fires count as run")
	}
	if r.Skipped+r.Pending+r.Waiting > 0 {
		line("other", r.Skipped+r.Pending+r.Waiting, fmt.Sprintf("%d skipped, %d pending, %d waiting", r.Skipped, r.Pending, r.Waiting))
	}
	line("double", r.Double, "")
	line("missing", r.Missing, "")
	line("early", r.Early, "")
	printf(d.out, "  %-10s p50 %s, p99 %s, max %s\n", "late", ms(r.P50), ms(r.P99), ms(r.Max))
	if w.taken > 0 {
		printf(d.out, "  %-10s %6d  schedules of %s by others, the first fires at most %s late\n", "taken over", w.taken, w.victim.id, ms(w.takenLate))
	}
	if !r.Ok() {
		return fmt.Errorf("the account does not balance:\n%s", r)
	}
	printf(d.out, "\nNo fire was run twice, none is missing, none was early.\n")
	return nil
}

// ms shows a duration in whole milliseconds.
func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
