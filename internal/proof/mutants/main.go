// Mutants changes the engine's code in hundreds of small ways, and looks which of them the tests notice: make mutations. The
// README beside it says how.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/token"
	"hash/fnv"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
)

const (
	memoryDir = "/dev/shm"
	stopLimit = 30 * time.Second
)

// options are what a run is told.
type options struct {
	packages, with   []string // directories of the module: what is mutated, and whose tests are the further stage
	sample, jobs     int
	seed             uint64
	only             *regexp.Regexp // of keys; nil: all
	list             bool
	model, torture   time.Duration
	out, equivalents string
	progress         io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	packages := flag.String("pkg", "run execute poller node misfire cron", "the packages to mutate")
	with := flag.String("with", ". run execute poller node misfire internal/cli/admin", "the packages whose tests are tried when those of the own package notice nothing")
	only := flag.String("only", "", "mutate only what has a key that this pattern matches")
	flag.IntVar(&o.sample, "sample", 100, "mutations of each package; 0: all")
	flag.Uint64Var(&o.seed, "seed", 1, "which ones are chosen")
	flag.IntVar(&o.jobs, "jobs", 2, "tests at once")
	flag.BoolVar(&o.list, "list", false, "only list the mutations")
	flag.DurationVar(&o.model, "model", 0, "have the model look for so long at each that no test notices")
	flag.DurationVar(&o.torture, "torture", 0, "have the torture look for so long at each that nothing else notices")
	flag.StringVar(&o.out, "out", ".cache/mutations.txt", "the report")
	flag.StringVar(&o.equivalents, "equivalents", "internal/proof/mutants/equivalent.txt", "mutations that change nothing, with reasons")
	flag.Parse()
	o.packages, o.with, o.progress = strings.Fields(*packages), strings.Fields(*with), os.Stderr
	var err error
	if *only != "" {
		o.only, err = regexp.Compile(*only)
	}
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	module, err := os.Getwd()
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	sources, err := load(ctx, module, fset, dots(o.packages)...)
	if err != nil {
		return err
	}
	b := find(fset, sources)
	reasons, err := readEquivalents(o.equivalents)
	if err != nil {
		return err
	}
	r := b.choose(o, reasons)
	if o.list {
		for _, c := range r.outcomes {
			if _, err := fmt.Fprintf(out, "%s/%s %s\n", c.source.name, c.where(), c.key); err != nil {
				return err
			}
		}
		return nil
	}
	if err := b.try(ctx, o, module, sources, r); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil { //nolint:gosec // a report
		return err
	}
	file, err := os.Create(o.out)
	if err != nil {
		return err
	}
	return errors.Join(r.write(io.MultiWriter(out, file)), file.Close())
}

func dots(dirs []string) (patterns []string) {
	for _, d := range dirs {
		patterns = append(patterns, "./"+d)
	}
	return patterns
}

// choose takes a sample of the points of each package. A point stays in the sample of a seed as long as its code stays.
func (b *board) choose(o options, reasons map[string]string) *report {
	r := &report{equivalent: map[*point]string{}, all: map[string]int{}, seed: o.seed}
	chosen := map[string][]*point{}
	stale := map[string]bool{}
	for key := range reasons {
		name, _, _ := strings.Cut(key, " ")
		stale[key] = slices.ContainsFunc(b.points, func(p *point) bool { return p.source.name == name })
	}
	for _, p := range b.points {
		name := p.source.name
		r.all[name]++
		stale[p.key] = false
		if o.only != nil && !o.only.MatchString(p.key) {
			continue
		}
		if why := reasons[p.key]; why != "" {
			r.equivalent[p] = why
		} else if !p.dropped {
			chosen[name] = append(chosen[name], p)
		}
	}
	for _, name := range sortedKeys(chosen) {
		points := chosen[name]
		slices.SortFunc(points, func(x, y *point) int { return cmp.Compare(lot(o.seed, x.key), lot(o.seed, y.key)) })
		if o.sample > 0 {
			points = points[:min(o.sample, len(points))]
		}
		for _, p := range points {
			r.outcomes = append(r.outcomes, outcome{point: p})
		}
	}
	for _, key := range sortedKeys(stale) {
		if stale[key] {
			r.stale = append(r.stale, key)
		}
	}
	return r
}

func lot(seed uint64, key string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", seed, key)
	x := h.Sum64() // of which keys that end alike share bits
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// try looks, stage by stage, which mutations are noticed.
func (b *board) try(ctx context.Context, o options, module string, sources []*source, r *report) (err error) {
	dir, err := os.MkdirTemp("", "qrtz-mutants-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := &bench{board: b, module: module, dir: dir, jobs: o.jobs}
	overlay, err := b.compile(ctx, module, dir, sources)
	if err != nil {
		return err
	}
	r.outcomes = slices.DeleteFunc(r.outcomes, func(c outcome) bool { return c.dropped })
	stopServer, err := t.serve(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, stopServer(ctx))
	}()

	r.stages = []string{"own", "others"}
	suites := map[string]*suite{}
	for _, d := range o.packages {
		if err := t.stage(ctx, o, overlay, "own", d, suites, r, func(p *point) bool { return p.source.dir == filepath.Join(module, d) }); err != nil {
			return err
		}
	}
	for _, d := range o.with {
		if err := t.stage(ctx, o, overlay, "others", d, suites, r, func(p *point) bool { return p.source.dir != filepath.Join(module, d) }); err != nil {
			return err
		}
	}
	if o.model > 0 {
		r.stages = append(r.stages, "model")
		if err := t.program(ctx, o, overlay, "model", "internal/proof/model", o.model, r); err != nil {
			return err
		}
	}
	if o.torture > 0 {
		r.stages = append(r.stages, "torture")
		if err := t.program(ctx, o, overlay, "torture", "internal/proof/torture", o.torture, r); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// serve starts a private server for all tests, or takes the one of the environment. Its data are in memory where there is room for that.
func (t *bench) serve(ctx context.Context) (stop func(context.Context) error, err error) {
	if t.dsn = os.Getenv("QRTZ_TEST_DSN"); t.dsn != "" {
		return func(context.Context) error { return nil }, nil
	}
	if info, err := os.Stat(memoryDir); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		_ = os.Setenv("TMPDIR", memoryDir)
		defer func() { _ = os.Unsetenv("TMPDIR") }()
	}
	server, err := mysqld.Start(ctx, mysqld.Options{Args: []string{"--innodb-buffer-pool-size=256M"}})
	if err != nil {
		return nil, err
	}
	t.dsn = server.DSN("")
	return server.Stop, server.Guard()
}

// stage has the tests of a package look at what no test has noticed yet.
func (t *bench) stage(ctx context.Context, o options, overlay, name, dir string, suites map[string]*suite, r *report, of func(*point) bool) error {
	left := r.left(of)
	if len(left) == 0 {
		return nil
	}
	s := suites[dir]
	if s == nil {
		var err error
		if s, err = t.build(ctx, overlay, filepath.Base(filepath.Join(t.module, dir)), dir); err != nil {
			return err
		}
		began := time.Now()
		if err := t.survey(ctx, s); err != nil {
			return err
		}
		say(o, "%s: %d tests run alone in %v", s.name, len(s.tests), time.Since(began).Round(time.Second))
		for _, b := range s.broken {
			r.broken = append(r.broken, s.name+"."+b)
		}
		suites[dir] = s
	}
	return t.look(ctx, o, name, left, func(c *outcome) string {
		by, reached := t.notice(ctx, s, c.point)
		c.reached += reached
		return by
	})
}

// program has the model or the torture look at what no test has noticed.
func (t *bench) program(ctx context.Context, o options, overlay, name, dir string, duration time.Duration, r *report) error {
	s := &suite{name: name, dir: filepath.Join(t.module, dir), binary: filepath.Join(t.dir, name)}
	args := []string{"--duration", duration.String(), "--seed", fmt.Sprint(o.seed)}
	build := []string{"build", "-overlay", overlay, "-o", s.binary, "."}
	if name == "model" {
		args = []string{"-test.run", "^TestModel", "-test.timeout", (2*duration + time.Minute).String()}
		build = []string{"test", "-c", "-overlay", overlay, "-o", s.binary, "."}
	}
	if err := s.compile(ctx, build); err != nil {
		return err
	}
	env := []string{"QRTZ_MODEL_FOR=" + duration.String()}
	return t.look(ctx, o, name, r.left(func(*point) bool { return true }), func(c *outcome) string {
		if t.command(ctx, s.dir, c.id, 3*duration+time.Minute, env, s.binary, args...).failed {
			return name
		}
		return ""
	})
}

// left are the outcomes that nothing has noticed.
func (r *report) left(of func(*point) bool) (left []*outcome) {
	for i := range r.outcomes {
		if c := &r.outcomes[i]; c.stage == "" && of(c.point) {
			left = append(left, c)
		}
	}
	return left
}

func (t *bench) look(ctx context.Context, o options, stage string, left []*outcome, by func(*outcome) string) error {
	var mu sync.Mutex
	began, done, noticed := time.Now(), 0, 0
	return each(o.jobs, len(left), func(i int) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c := left[i]
		if c.by = by(c); c.by != "" {
			c.stage = stage
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		if c.by != "" {
			noticed++
		} else {
			say(o, "%s has not noticed:\n%s", stage, c.describe())
		}
		if done%20 == 0 || done == len(left) {
			say(o, "%s of %s: %d of %d tried, %d noticed, %v", stage, c.source.name, done, len(left), noticed, time.Since(began).Round(time.Second))
		}
		return nil
	})
}

func say(o options, format string, args ...any) { _, _ = fmt.Fprintf(o.progress, format+"\n", args...) }
