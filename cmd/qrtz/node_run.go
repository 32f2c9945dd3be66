package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/cli/worker"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	engineConns  = 2  // beside the scheduler's own
	handlerConns = 32 // at most, of the statements of class sql; its own, so that slow ones do not hold up heartbeats
)

// nodeRunOptions leave zero values, the defaults, to qrtz.Config.
type nodeRunOptions struct {
	*global
	cfg        qrtz.Config
	allowShell bool
	clockSkew  time.Duration
	logLevel   string

	level zerolog.Level
}

func newNodeRun(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "run --app APP",
		Short: "Run a node with the built-in classes http, sql, noop and sleep",
		Long: `Run a node of an app with the built-in classes http, sql, noop and sleep, and shell if
--allow-shell is given. Then anyone who can write to QRTZ_JOB can run commands as this user.

The first SIGINT or SIGTERM drains: the node starts nothing new, and running jobs may finish
within --drain. A second one quits at once.`,
		Example: "  qrtz node run --app billing --dsn " + exampleDSN,
	}, &nodeRunOptions{global: g})
}

func (o *nodeRunOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.cfg.App, "app", "", "the app whose schedules to run")
	f.StringVar(&o.cfg.NodeID, "id", "", "the node's id (default this machine's address)")
	f.IntVar(&o.cfg.Workers, "workers", 0, "how many runs at once (default 64)")
	f.DurationVar(&o.cfg.PollInterval, "poll", 0, "how often to read what is due, and how far ahead (default 5s)")
	f.DurationVar(&o.cfg.MisfireInterval, "misfire-interval", 0, "how often one node makes a pass of the misfire handler (default 15s)")
	f.DurationVar(&o.cfg.MisfireAfter, "misfire-after", 0, "how late a fire is a misfire (default 1m)")
	f.DurationVar(&o.cfg.NodeTimeout, "node-timeout", 0, "how long a node may send no heartbeat until it is dead (default 22.5s)")
	f.DurationVar(&o.cfg.DrainTimeout, "drain", 0, "how long running jobs may continue when the node stops (default 20s)")
	f.BoolVar(&o.allowShell, "allow-shell", false, "also run class shell: commands that jobs give")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn, error or disabled")
	f.DurationVar(&o.clockSkew, "clock-skew", 0, "pretend that this machine's clock is wrong by this much")
	_ = f.MarkHidden("clock-skew") // it exists
}

func (o *nodeRunOptions) validate(args []string) (err error) {
	if err := noArgs(args); err != nil {
		return err
	}
	if o.cfg.App == "" {
		return errors.New("--app is missing: want the name of an app, for example --app billing")
	}
	if o.level, err = zerolog.ParseLevel(o.logLevel); err != nil || o.logLevel == "" {
		return fmt.Errorf("--log-level %q: want debug, info, warn, error or disabled", o.logLevel)
	}
	o.cfg.Prefix = o.prefix
	return o.cfg.Validate()
}

func (o *nodeRunOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.with(ctx, func(d *database) error { return o.runOn(ctx, d, newLogger(os.Stderr, o.level)) })
}

// newLogger writes for people on a terminal, and JSON otherwise.
func newLogger(out *os.File, level zerolog.Level) zerolog.Logger {
	var w io.Writer = out
	if isatty.IsTerminal(out.Fd()) {
		w = zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05.000"}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

func (o *nodeRunOptions) runOn(ctx context.Context, d *database, log zerolog.Logger) error {
	engine, err := d.pool(engineConns)
	if err != nil {
		return err
	}
	statements, err := d.pool(handlerConns)
	if err != nil {
		return err
	}
	if d.private { // no operator would
		if _, err := schema.Up(ctx, engine, d.prefix); err != nil {
			return err
		}
	}
	o.cfg.DSN = d.cfg.FormatDSN()
	o.cfg.Logger = &log
	if o.clockSkew != 0 {
		o.cfg.Wall = func() time.Time { return time.Now().Add(o.clockSkew) }
	}
	s, err := qrtz.Open(engine, o.cfg)
	if err != nil {
		return err
	}
	opts := worker.Options{AllowShell: o.allowShell}
	worker.Register(s, statements, opts)
	log.Info().Str("app", o.cfg.App).Strs("classes", worker.Classes(opts)).Str("database", fmt.Sprintf("%s(%s)/%s", d.cfg.Net, d.cfg.Addr, d.cfg.DBName)).Msg("starting")
	defer context.AfterFunc(ctx, func() { log.Info().Msg("stopping; a second signal quits at once") })()
	if err := s.Run(ctx); err != nil {
		return err
	}
	log.Info().Msg("stopped")
	return nil
}
