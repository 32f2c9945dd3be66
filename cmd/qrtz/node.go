package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/worker"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	engineConns  = 2  // beside the scheduler's own
	handlerConns = 32 // at most, of the statements of class sql; its own, so that slow ones do not hold up heartbeats
)

func newNode(g *global) *cobra.Command {
	node := group(&cobra.Command{Use: "node", Short: "Nodes: run one; list, start, stop, drain"})
	node.AddCommand(newNodeRun(g), newNodeList(g), newNodeStart(g), newNodeStop(g), newNodeDrain(g))
	return node
}

// nodeFlags are the flags of `node run`. Zero values leave the defaults to qrtz.Config.
type nodeFlags struct {
	cfg        qrtz.Config
	allowShell bool
	clockSkew  time.Duration
	logLevel   string
}

func newNodeRun(g *global) *cobra.Command {
	f := nodeFlags{}
	cmd := &cobra.Command{
		Use:   "run --app APP",
		Short: "Run a node with the built-in classes http, sql, noop and sleep",
		Long: `Run a node of an app with the built-in classes http, sql, noop and sleep, and shell if
--allow-shell is given. Whoever can write to QRTZ_JOB can then run commands as this user.

The first SIGINT or SIGTERM drains: nothing new is started, and what runs may finish
within --drain. A second one quits at once.`,
		Example: "  qrtz node run --app billing --dsn " + exampleDSN,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.cfg.App == "" {
				return usagef(cmd, "--app is missing: want the name of an app, for example --app billing")
			}
			level, err := zerolog.ParseLevel(f.logLevel)
			if err != nil || f.logLevel == "" {
				return usagef(cmd, "--log-level %q: want debug, info, warn, error or disabled", f.logLevel)
			}
			f.cfg.Prefix = g.prefix
			if err := f.cfg.Validate(); err != nil {
				return usageError{cmd.CommandPath(), err}
			}
			return g.with(cmd.Context(), func(d *database) error { return runNode(cmd.Context(), d, f, newLogger(os.Stderr, level)) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cfg.App, "app", "", "the app whose schedules to run")
	flags.StringVar(&f.cfg.NodeID, "id", "", "the node's id (default this machine's address)")
	flags.IntVar(&f.cfg.Workers, "workers", 0, "how many runs at once (default 64)")
	flags.DurationVar(&f.cfg.PollInterval, "poll", 0, "how often to read what is due, and how far ahead (default 5s)")
	flags.DurationVar(&f.cfg.MisfireInterval, "misfire-interval", 0, "how often one node repairs and fails over (default 15s)")
	flags.DurationVar(&f.cfg.MisfireAfter, "misfire-after", 0, "how late a fire is a misfire (default 1m)")
	flags.DurationVar(&f.cfg.NodeTimeout, "node-timeout", 0, "how old a heartbeat means death (default 22.5s)")
	flags.DurationVar(&f.cfg.DrainTimeout, "drain", 0, "how long what runs may go on when stopping (default 30s)")
	flags.BoolVar(&f.allowShell, "allow-shell", false, "also run class shell: commands that jobs give")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn, error or disabled")
	flags.DurationVar(&f.clockSkew, "clock-skew", 0, "pretend that this machine's clock is wrong by this much")
	_ = flags.MarkHidden("clock-skew") // it exists
	return cmd
}

// newLogger writes for people on a terminal, and JSON otherwise.
func newLogger(out *os.File, level zerolog.Level) zerolog.Logger {
	var w io.Writer = out
	if isatty.IsTerminal(out.Fd()) {
		w = zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05.000"}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

func runNode(ctx context.Context, d *database, f nodeFlags, log zerolog.Logger) error {
	engine, err := d.pool(engineConns)
	if err != nil {
		return err
	}
	statements, err := d.pool(handlerConns)
	if err != nil {
		return err
	}
	if d.private { // nobody else would
		if _, err := schema.Up(ctx, engine, d.prefix); err != nil {
			return err
		}
	}
	f.cfg.DSN = d.cfg.FormatDSN()
	f.cfg.Logger = &log
	if f.clockSkew != 0 {
		f.cfg.Wall = func() time.Time { return time.Now().Add(f.clockSkew) }
	}
	s, err := qrtz.Open(engine, f.cfg)
	if err != nil {
		return err
	}
	opts := worker.Options{AllowShell: f.allowShell}
	worker.Register(s, statements, opts)
	log.Info().Str("app", f.cfg.App).Strs("classes", worker.Classes(opts)).Str("database", fmt.Sprintf("%s(%s)/%s", d.cfg.Net, d.cfg.Addr, d.cfg.DBName)).Msg("starting")
	defer context.AfterFunc(ctx, func() { log.Info().Msg("stopping; a second signal quits at once") })()
	if err := s.Run(ctx); err != nil {
		return err
	}
	log.Info().Msg("stopped")
	return nil
}
