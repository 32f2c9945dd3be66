// Qrtz is the command line of qrtz, clustered job scheduling for Go on MySQL.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/schema"
)

// Exit codes.
const (
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx := untilSignal(context.Background())
	err := newRoot().ExecuteContext(ctx)
	if err == nil {
		return
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "qrtz: interrupted")
		os.Exit(exitInterrupted)
	}
	var usage usageError
	fmt.Fprintln(os.Stderr, "qrtz:", visible(err.Error()))
	if errors.As(err, &usage) {
		fmt.Fprintf(os.Stderr, "Run `%s --help` for usage.\n", usage.command)
		os.Exit(exitUsage)
	}
	os.Exit(exitError)
}

// untilSignal is a context that ends with the first SIGINT or SIGTERM. The second ends the process.
func untilSignal(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx
}

// global holds the flags that all commands share.
type global struct{ dsn, prefix string }

func newRoot() *cobra.Command {
	g := &global{}
	root := group(&cobra.Command{
		Use:   "qrtz",
		Short: "Clustered job scheduling on MySQL",
		Long: `Clustered job scheduling on MySQL: several processes share one database, and every
point of every schedule is run by exactly one of them.

The database is --dsn, else QRTZ_DSN, else a private server that qrtz starts and keeps
for itself. A DSN is that of github.com/go-sql-driver/mysql, for example ` + exampleDSN,
		SilenceErrors: true, // main prints them
		SilenceUsage:  true,
	})
	root.PersistentFlags().StringVar(&g.dsn, "dsn", "", "the database, for example "+exampleDSN+" (default $"+dsnEnv+")")
	root.PersistentFlags().StringVar(&g.prefix, "prefix", string(schema.DefaultPrefix), "what the table names begin with")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{cmd.CommandPath(), err} })
	root.AddCommand(newMigrate(g), newNext(), newApp(g), newNode(g), newJob(g), newExecute(g), newRun(g), newHistory(g), newDemo(g), newBench())
	return root
}

// options are what a command is told by its flags and arguments. Every command has a type of its own for them.
type options interface {
	flags(f *pflag.FlagSet)       // adds its flags
	validate(args []string) error // takes the arguments, and refuses what cannot be meant
	run(cmd *cobra.Command) error
}

// command makes cmd a command with options: flags, validate, run.
func command(cmd *cobra.Command, o options) *cobra.Command {
	o.flags(cmd.Flags())
	cmd.Args = cobra.ArbitraryArgs // validate says what is wrong with them
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.validate(args); err != nil {
			return usageError{cmd.CommandPath(), err}
		}
		return o.run(cmd)
	}
	return cmd
}

// usageError is a command line that cannot be understood, as opposed to a command that failed.
type usageError struct {
	command string
	err     error
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// group makes cmd a command that only has subcommands, and answers a wrong one like a wrong flag.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				names = append(names, c.Name())
			}
		}
		return usageError{cmd.CommandPath(), fmt.Errorf("unknown command %q: want one of %s", args[0], strings.Join(names, ", "))}
	}
	return cmd
}
