// Torture runs a cluster of worker processes on private database servers, breaks everything that breaks in practice
// in a random but seeded order, and checks all the while, and at the end, that what must always hold did hold.
//
//	torture --duration 10m --seed 42 [--galera]
//
// The exit code is 0 if nothing was wrong. Otherwise it prints the seed, what was wrong, the rows and the timeline
// around it, and keeps the directory with the logs of servers and workers and the handlers' own records.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

func main() {
	if text := os.Getenv(workerEnv); text != "" {
		os.Exit(workerMain(text))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "torture:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	duration := flags.Duration("duration", time.Minute, "how long things go wrong; below 3m all intervals are shorter")
	seed := flags.Uint64("seed", 0, "what the sequence of faults comes from (default: the clock)")
	galera := flags.Bool("galera", false, "on a Galera cluster of three instead of one server")
	keep := flags.Bool("keep", false, "keep the directory with logs and records in any case")
	only := flags.String("only", "", "only faults whose kind contains this, for example freeze")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *duration < 20*time.Second || flags.NArg() > 0 {
		return errors.New("usage: torture [--duration 1m] [--seed 42] [--galera] [--keep] [--only KIND]; 20s at least")
	}
	if len(kindsCalled(*only)) == 0 {
		var names []string
		for _, k := range kinds() {
			names = append(names, k.name)
		}
		return fmt.Errorf("--only %q: no kind of fault is called so; want a part of one of: %s", *only, strings.Join(names, ", "))
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) % 1e9
	}
	_ = mysql.SetLogger(silence{}) // a lost connection is no news here; every error is returned as well

	dir, err := os.MkdirTemp("", "qrtz-torture-")
	if err != nil {
		return err
	}
	t := newTimeline(out)
	_, _ = fmt.Fprintf(out, "torture: seed %d, %s, in %s\n", *seed, *duration, dir)
	one := newTorture(dir, *duration, *seed, *only, t)
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\nseed %d; the logs and records are in %s", err, *seed, dir)
		} else if !*keep {
			err = os.RemoveAll(dir)
		}
	}()
	start := startServer
	if *galera {
		start = startGalera
	}
	if err := one.begin(ctx, start); err != nil {
		return errors.Join(err, one.end(ctx))
	}
	return errors.Join(one.run(ctx), one.end(ctx))
}

// silence is a logger of the MySQL driver that logs nothing.
type silence struct{}

func (silence) Print(...any) {}
