package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/internal/cli/admin"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

func newHistory(g *global) *cobra.Command {
	cmd := group(&cobra.Command{Use: "history", Short: "The history of runs"})
	cmd.AddCommand(newHistoryClean(g))
	return cmd
}

type historyCleanOptions struct {
	*global
	confirmFlags
	run.Cleaning
	state        string
	olderThan    age
	isAgeMissing func() bool
}

func newHistoryClean(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "clean --older-than AGE",
		Short: "Delete old runs",
		Long: `Delete the runs that finished longer ago than an age, in small batches by primary key, never
one that is PENDING or RUNNING. Jobs have their own rules, which the nodes apply by
themselves: KEEP_FOR, 30 days unless told otherwise, and KEEP_RUNS.`,
		Example: "  qrtz history clean --older-than 30d --dry-run",
	}, &historyCleanOptions{global: g})
}

func (o *historyCleanOptions) flags(f *pflag.FlagSet) {
	f.Var(&o.olderThan, "older-than", "how long ago they have finished, for example 30d")
	f.StringVar(&o.App, "app", "", "only runs of this app")
	f.StringVar(&o.state, "state", "", "only those in this state: "+strings.Join(endStates, ", "))
	f.BoolVar(&o.DryRun, "dry-run", false, "only count")
	o.add(f)
	o.isAgeMissing = func() bool { return !f.Changed("older-than") }
}

// endStates are the states in which a run has ended.
var endStates = runStates[2:]

func (o *historyCleanOptions) validate(args []string) error {
	if err := noArgs(args); err != nil {
		return err
	}
	if o.isAgeMissing() {
		return errors.New("--older-than is missing: want an age, for example --older-than 30d")
	}
	if err := oneOf("--state", &o.state, endStates); err != nil {
		return err
	}
	o.OlderThan, o.State = time.Duration(o.olderThan), run.State(o.state)
	if o.DryRun {
		return nil
	}
	return o.confirmFlags.validate()
}

func (o *historyCleanOptions) run(cmd *cobra.Command) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	return o.onTables(ctx, func(d *database, _ *admin.Store) error {
		db, err := d.pool(1)
		if err != nil {
			return err
		}
		tables := schema.Tables{DB: sqlx.NewDb(db, "mysql"), Prefix: d.prefix}
		if o.DryRun || !o.yes {
			count := o.Cleaning
			count.DryRun = true
			found, err := run.Clean(ctx, tables, count)
			if err != nil {
				return err
			}
			text := byState(found)
			if o.DryRun || len(found) == 0 {
				printf(out, "would delete %s\n", text)
				return nil
			}
			if err := o.ask(cmd, "Delete %s?", text); err != nil {
				return err
			}
		}
		told := time.Now()
		o.Progress = func(looked, found int) {
			if time.Since(told) >= time.Second {
				told = time.Now()
				printf(cmd.ErrOrStderr(), "%d runs looked at, %d deleted …\n", looked, found)
			}
		}
		found, err := run.Clean(ctx, tables, o.Cleaning)
		printf(out, "deleted %s\n", byState(found))
		return err
	})
}

// byState is how many runs, and how many of each state.
func byState(counts map[run.State]int) string {
	if len(counts) == 0 {
		return "no runs"
	}
	sum := 0
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		sum += counts[state]
		parts = append(parts, fmt.Sprintf("%s %d", cell(state), counts[state]))
	}
	return fmt.Sprintf("%d runs (%s)", sum, strings.Join(parts, ", "))
}
