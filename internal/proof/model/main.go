// Command model plays random histories of a cluster by the engine, on a private server, and by a model of its rules, and compares the
// tables after each step. README.md says what the model is.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
	"github.com/qrtz-go/qrtz/schema"
)

// plan is what the command line asks for.
type plan struct {
	duration time.Duration
	steps    int
	seed     int
	workers  int
	length   int
	faults   bool
	shrink   time.Duration
}

func main() {
	var p plan
	flag.DurationVar(&p.duration, "duration", 0, "how long to play; 0: until --steps are done, or a minute")
	flag.IntVar(&p.steps, "steps", 0, "how many steps to play in all")
	flag.IntVar(&p.seed, "seed", 0, "of the first history; each further one has the next (0: a random one)")
	flag.IntVar(&p.workers, "workers", 1, "how many histories to play at a time")
	flag.IntVar(&p.length, "length", 100, "steps of a history, after those that set it up")
	flag.BoolVar(&p.faults, "faults", true, "freezes and lost answers")
	flag.DurationVar(&p.shrink, "shrink", 3*time.Minute, "how long to look for the shortest history that shows a difference")
	flag.Parse()
	if p.duration == 0 && p.steps == 0 {
		p.duration = time.Minute
	}
	if p.seed == 0 {
		p.seed = 1 + rand.IntN(1_000_000)*1000
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := p.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// memory is where the data of the server lives, if the machine has it: nothing is to be kept.
const memory = "/dev/shm"

func (p plan) run(ctx context.Context) error {
	parent := ""
	if _, err := os.Stat(memory); err == nil {
		parent = memory
	}
	dir, err := os.MkdirTemp(parent, "qrtz-model-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := mysqld.Start(ctx, mysqld.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop(context.WithoutCancel(ctx)) }()
	admin, err := sql.Open("mysql", server.DSN(""))
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }()
	var version string
	if err := admin.QueryRowContext(ctx, `SELECT VERSION()`).Scan(&version); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s, from seed %d, %d at a time\n", version, p.seed, p.workers)
	t := &tally{plan: p, begin: time.Now()}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for n := range p.workers {
		name := fmt.Sprintf("qrtz_model_%d", n)
		if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
			return err
		}
		cfg, err := mysql.ParseDSN(server.DSN(name))
		if err != nil {
			return err
		}
		all.Go(func() {
			if err := t.work(ctx, cfg); err != nil {
				t.fail(err)
				cancel()
			}
		})
	}
	all.Wait()
	t.say()
	return errors.Join(t.failed...)
}

var errDifferent = errors.New("the engine and the model differ")

// tally is what all workers have done.
type tally struct {
	plan
	begin time.Time

	mu        sync.Mutex
	histories int
	counts
	said   time.Time
	failed []error
}

func (t *tally) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintln(os.Stdout, err) // at once: others may take their time
	t.failed = append(t.failed, errDifferent)
}

// next is the seed of the next history, if there is to be one.
func (t *tally) next(ctx context.Context) (seed int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := ctx.Err() != nil || t.duration > 0 && time.Since(t.begin) >= t.duration || t.plan.steps > 0 && t.counts.steps >= t.plan.steps
	seed = t.seed + t.histories
	t.histories++
	return seed, !over
}

func (t *tally) add(c counts) {
	t.mu.Lock()
	t.counts.steps += c.steps
	t.counts.faults += c.faults
	t.slow += c.slow
	t.most = max(t.most, c.most)
	say := time.Since(t.said) >= time.Minute
	if say {
		t.said = time.Now()
	}
	t.mu.Unlock()
	if say {
		t.say()
	}
}

func (t *tally) say() {
	t.mu.Lock()
	defer t.mu.Unlock()
	took := time.Since(t.begin)
	_, _ = fmt.Fprintf(os.Stdout, "%s: %d steps, %.0f a second, in %d histories, with %d freezes and lost answers, up to %d models at a time; %d given up, since the machine was too slow\n",
		took.Round(time.Second), t.counts.steps, float64(t.counts.steps)/took.Seconds(), t.histories, t.counts.faults, t.most, t.slow)
}

// work plays history after history in a database of its own.
func (t *tally) work(ctx context.Context, cfg *mysql.Config) error {
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		return err
	}
	_, err = schema.Up(ctx, db, schema.DefaultPrefix)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	w, err := newWorld(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return err
	}
	defer w.close()
	histories := drawHistory(t.plan.faults, t.length)
	for {
		seed, ok := t.next(ctx)
		if !ok {
			return nil
		}
		done, err := w.try(histories.Example(seed), seed, t.shrink) //nolint:contextcheck // a history is played to its end
		t.add(done)
		if err != nil {
			return fmt.Errorf("history of seed %d: %w", seed, err)
		}
	}
}

// try plays a history. If it shows a difference, the error has the shortest one that does.
func (w *world) try(steps []Step, seed int, limit time.Duration) (counts, error) {
	play := func(steps []Step) (*player, error) {
		p, err := newPlayer(w)
		if err == nil {
			err = p.play(steps)
		}
		return p, err
	}
	p, err := play(steps)
	if errors.Is(err, errSlow) {
		p.counts.slow, err = 1, nil
	}
	if err == nil {
		return p.counts, nil
	}
	_, _ = fmt.Fprintf(os.Stdout, "seed %d: %v\n", seed, err)
	least := shrink(steps[:min(p.counts.steps+1, len(steps))], limit, func(steps []Step) bool {
		_, err := play(steps)
		return err != nil && !errors.Is(err, errSlow)
	})
	if _, e := play(least); e != nil && !errors.Is(e, errSlow) {
		err = e
	}
	return p.counts, fmt.Errorf("%w\n\n%s", err, history(least))
}
