// Command peers measures qrtz beside other schedulers on the same machine, in the same run: recurring fires beside Quartz on the
// same database server, enqueued runs beside River on PostgreSQL and asynq on Redis. A peer whose runtime is not installed is left
// out, with a word on what to install. It uses no other server than those that it starts itself, in temporary directories.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/qrtz-go/qrtz/internal/proof/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if os.Getenv(specEnv) != "" {
		err = node(ctx, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		printf(os.Stderr, "peers: %v\n", err)
		os.Exit(1)
	}
}

// part is something to measure.
type part struct {
	name string
	run  func(*runner, context.Context) error
}

// parts have the names that they have in qrtz bench, so that one --only serves both.
var parts = []part{
	{"claims", (*runner).claims},
	{"lateness", (*runner).lateness},
	{"enqueue", (*runner).enqueue},
	{"queue", (*runner).queue},
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	r := &runner{extent: fullExtent, progress: progress}
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(progress)
	quick := f.Bool("quick", false, "rougher, in less than six minutes")
	only := f.String("only", "", "some of claims,lateness,enqueue,queue (default all); what else qrtz bench knows is not measured here")
	into := f.String("json", "", "write the figures to a file beside this one, with -peers in its name")
	page := f.String("markdown", "", "write the tables to this file, between their marks if it has them")
	f.String("svg", "", "of qrtz bench, not used here")
	f.Int("workers", 0, "of qrtz bench, not used here")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if r.report.Quick = *quick; *quick {
		r.extent = quickExtent
	}
	wanted := func(name string) bool { return *only == "" || slices.Contains(strings.Split(*only, ","), name) }
	if !slices.ContainsFunc(parts, func(p part) bool { return wanted(p.name) }) {
		return nil
	}
	r.report.At = time.Now().Truncate(time.Second)
	r.machine()
	defer r.close(ctx)
	for _, p := range parts {
		if !wanted(p.name) {
			continue
		}
		began := time.Now()
		if err := p.run(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		r.say("%s took %.0f s", p.name, time.Since(began).Seconds())
	}
	if *page != "" {
		if err := intoPage(*page, r.report.Markdown()); err != nil {
			return err
		}
	}
	if *into != "" {
		text, err := json.MarshalIndent(r.report, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(strings.TrimSuffix(*into, ".json")+"-peers.json", append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return r.report.Print(out)
}

// runner is a run of the benchmark.
type runner struct {
	extent
	report   Report
	progress io.Writer

	maria  *mariadb
	quartz *quartzPeer
	queues map[string]queuePeer // those that are here
	gone   map[string]bool      // peers that are not
}

func (r *runner) say(format string, args ...any) { printf(r.progress, format+"\n", args...) }

func (r *runner) condition(name, text string) {
	if c := [2]string{name, text}; text != "" && !slices.Contains(r.report.Conditions, c) {
		r.report.Conditions = append(r.report.Conditions, c)
	}
}

func (r *runner) machine() {
	facts := bench.Machine()
	for _, name := range []string{"processor", "cores", "memory", "file system", "kernel", "go"} {
		r.condition(name, facts[name])
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		if load, _, ok := strings.Cut(string(text), " "); ok {
			r.condition("load before", fmt.Sprintf("%s processes wanted one of the %d cores in the minute before the run", load, runtime.NumCPU()))
		}
	}
	r.condition("connections", fmt.Sprintf("by TCP on the loopback interface, at most %d of a process, beside those that qrtz opens itself; %d of Quartz", nodeConnections, quartzBatch.workers+2))
}

// missing notes a peer that is not here, and passes on other errors.
func (r *runner) missing(name string, err error) error {
	if !errors.Is(err, errAbsent) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if r.gone == nil {
		r.gone = map[string]bool{}
	}
	r.gone[name] = true
	text := fmt.Sprintf("%s: %v", name, err)
	r.report.Absent = append(r.report.Absent, text)
	r.say("%s", text)
	return nil
}

func (r *runner) mariadb(ctx context.Context) (*mariadb, error) {
	if r.maria == nil {
		var err error
		if r.maria, err = startMariaDB(ctx); err != nil {
			return nil, err
		}
		r.condition("server of qrtz and Quartz", r.maria.info)
	}
	return r.maria, nil
}

// fire finds a peer with recurring fires; nil if it is not here.
func (r *runner) fire(ctx context.Context, name string) (firePeer, error) {
	m, err := r.mariadb(ctx)
	if err != nil {
		return nil, err
	}
	if name == nameQrtz {
		q := &qrtzPeer{mariadb: m}
		return q, nil
	}
	if r.gone[name] {
		return nil, nil
	}
	if r.quartz == nil {
		if r.quartz, err = openQuartz(ctx, m); err != nil {
			return nil, r.missing(name, err)
		}
	}
	return r.quartz, nil
}

var firePeers = []string{nameQrtz, nameQuartz}

// queuePeers are the peers with enqueued runs and their libraries.
var queuePeers = []struct {
	name, library string
	start         func(ctx context.Context, r *runner) (queuePeer, error)
}{
	{nameQrtz, libQrtz, func(ctx context.Context, r *runner) (queuePeer, error) {
		m, err := r.mariadb(ctx)
		return &qrtzPeer{mariadb: m}, err
	}},
	{nameRiver, libRiver, func(ctx context.Context, _ *runner) (queuePeer, error) { return startPostgres(ctx) }},
	{nameAsynqAlways, libAsynq, func(ctx context.Context, _ *runner) (queuePeer, error) { return startRedis(ctx, "always") }},
	{nameAsynqSecond, libAsynq, func(ctx context.Context, _ *runner) (queuePeer, error) { return startRedis(ctx, "everysec") }},
}

// eachQueue does something with each peer that is here.
func (r *runner) eachQueue(ctx context.Context, do func(name, library string, p queuePeer) error) error {
	for _, one := range queuePeers {
		p, ok := r.queues[one.name]
		if !ok && !r.gone[one.name] {
			var err error
			if p, err = one.start(ctx, r); err != nil {
				if err := r.missing(one.name, err); err != nil {
					return err
				}
				continue
			}
			if r.queues == nil {
				r.queues = map[string]queuePeer{}
			}
			r.queues[one.name] = p
			if one.name != nameQrtz {
				r.condition("server of "+one.name, p.about())
				r.condition(one.library, libraryVersion(one.library))
			}
		}
		if p == nil {
			continue
		}
		if err := do(one.name, one.library, p); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

func libraryVersion(library string) string {
	switch library {
	case libRiver:
		return version("github.com/riverqueue/river")
	case libAsynq:
		return version("github.com/hibiken/asynq")
	}
	return ""
}

// version is that of a module of this program.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, m := range info.Deps {
			if m.Path == module {
				return m.Path + " " + m.Version
			}
		}
	}
	return module
}

func (r *runner) close(ctx context.Context) {
	for _, p := range r.queues {
		p.close()
	}
	if r.quartz != nil {
		r.quartz.close()
	}
	if r.maria != nil {
		_ = r.maria.stop(ctx)
	}
}

// eachFire does something with each peer, each of its settings and numbers of processes.
func (r *runner) eachFire(ctx context.Context, settings map[string][]fireSetting, nodes []int, do func(p firePeer, name string, f fireSetting, nodes int) error) error {
	for _, name := range firePeers {
		p, err := r.fire(ctx, name)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		for _, f := range settings[name] {
			for _, n := range nodes {
				if err := do(p, name, f, n); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	return nil
}

func (r *runner) claims(ctx context.Context) error {
	return r.eachFire(ctx, r.fires, r.nodes, func(p firePeer, name string, f fireSetting, nodes int) error {
		s := r.stairs[name]
		if f.noHistory {
			s = r.noHistory
		}
		all, about, err := climb(ctx, p, f, nodes, s)
		if err != nil {
			return err
		}
		c := Claims{Peer: name, Settings: f.label, Nodes: nodes}
		for _, one := range all {
			if one.keptUp() {
				c.Kept = one
			}
			if one.Started > c.Most.Started {
				c.Most = one
			}
		}
		if name != nameQrtz {
			r.condition(name, about)
		}
		r.report.Claims = append(r.report.Claims, c)
		r.say("claims: %s (%s), %d processes: %d/s kept up with, %.0f/s at most, %.3f statements and %.3f ms of the server a fire",
			name, f.label, nodes, c.Kept.Due, c.Most.Started, c.Most.Statements, c.Most.ServerMs)
		return nil
	})
}

func (r *runner) lateness(ctx context.Context) error {
	return r.eachFire(ctx, r.late, []int{r.lateNodes}, func(p firePeer, name string, f fireSetting, nodes int) error {
		all, about, err := climb(ctx, p, f, nodes, r.lateRates)
		if err != nil {
			return err
		}
		if name != nameQrtz {
			r.condition(name, about)
		}
		for _, one := range all {
			r.report.Lateness = append(r.report.Lateness, Lateness{Peer: name, Settings: f.label, Nodes: nodes, Fires: one})
			r.say("lateness: %s (%s), %d processes, %d/s: p50 %.2f ms, p99 %.2f ms, %d of %d early, %.1f statements and %.2f ms of the server a fire",
				name, f.label, nodes, one.Due, one.P50, one.P99, one.Early, one.Count, one.Statements, one.ServerMs)
		}
		return nil
	})
}

func (r *runner) enqueue(ctx context.Context) error {
	return r.eachQueue(ctx, func(name, library string, p queuePeer) error {
		for _, c := range r.enqueueCalls {
			e, err := enqueueing(ctx, name, library, p, c.connections, c.atOnce, r.enqueueFor)
			if errors.Is(err, errNotInBulk) {
				continue
			}
			if err != nil {
				return err
			}
			r.report.Enqueue = append(r.report.Enqueue, e)
			r.say("enqueue: %s, %d connections, %d at once: %.0f/s", name, c.connections, c.atOnce, e.PerSecond)
		}
		return nil
	})
}

func (r *runner) queue(ctx context.Context) error {
	doubt := func(name string, twice int) {
		if twice > 0 {
			r.report.Doubts = append(r.report.Doubts, fmt.Sprintf("%s started %d runs again that it had started", name, twice))
		}
	}
	return r.eachQueue(ctx, func(name, library string, p queuePeer) error {
		for _, s := range r.queued[name] {
			for _, from := range []struct {
				name  string
				nodes int
			}{{here, 1}, {there, 1}, {there, 3}} {
				all, twice, err := queued(ctx, name, library, p, s, from.name, from.nodes, r.pace)
				if err != nil {
					return err
				}
				doubt(name, twice)
				r.report.Queued = append(r.report.Queued, all...)
				for _, q := range all {
					r.say("queue: %s (%s), %d/s from %s, %d processes: %d runs, p50 %.2f ms, p99 %.2f ms", name, s.label, q.Rate, q.From, q.Nodes, q.Count, q.P50, q.P99)
				}
			}
		}
		for _, s := range r.backlog[name] {
			for _, n := range r.nodes {
				b, twice, err := backlog(ctx, name, library, p, s, n, r.backlogRuns, r.backlogFor)
				if err != nil {
					return err
				}
				doubt(name, twice)
				r.report.Backlog = append(r.report.Backlog, b)
				r.say("queue: %s (%s), a backlog by %d processes: %.0f/s", name, s.label, n, b.PerSecond)
			}
		}
		return nil
	})
}
