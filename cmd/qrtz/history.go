package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/internal/admin"
)

func newHistory(g *global) *cobra.Command {
	history := group(&cobra.Command{Use: "history", Short: "The history of runs"})
	history.AddCommand(newHistoryClean(g))
	return history
}

func newHistoryClean(g *global) *cobra.Command {
	var c admin.Cleaning
	var olderThan age
	var yes bool
	cmd := &cobra.Command{
		Use:   "clean --older-than AGE",
		Short: "Delete old runs",
		Long: `Delete the runs that finished longer ago than an age, in small batches by primary key, never
one that is PENDING or RUNNING. Jobs have their own rules, which the nodes apply by
themselves: KEEP_FOR, 30 days unless told otherwise, and KEEP_RUNS.`,
		Example: "  qrtz history clean --older-than 30d --dry-run",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("older-than") {
				return usagef(cmd, "--older-than is missing: want an age, for example --older-than 30d")
			}
			if err := checkState(cmd, &c.State, endStates); err != nil {
				return err
			}
			if !c.DryRun {
				if err := needsYes(cmd, yes); err != nil {
					return err
				}
			}
			c.OlderThan = time.Duration(olderThan)
			return g.onTables(cmd, func(ctx context.Context, _ *database, s *admin.Store) error { return cleanHistory(ctx, cmd, s, c, yes) })
		},
	}
	cmd.Flags().Var(&olderThan, "older-than", "how long ago they have finished, for example 30d")
	cmd.Flags().StringVar(&c.App, "app", "", "only runs of this app")
	cmd.Flags().StringVar(&c.State, "state", "", "only those in this state: "+strings.Join(endStates, ", "))
	cmd.Flags().BoolVar(&c.DryRun, "dry-run", false, "only count")
	yesFlag(cmd, &yes)
	return cmd
}

func cleanHistory(ctx context.Context, cmd *cobra.Command, s *admin.Store, c admin.Cleaning, yes bool) error {
	out := cmd.OutOrStdout()
	if c.DryRun || !yes {
		count := c
		count.DryRun = true
		found, err := s.Clean(ctx, count)
		if err != nil {
			return err
		}
		text := byState(found)
		if c.DryRun || len(found) == 0 {
			printf(out, "would delete %s\n", text)
			return nil
		}
		if err := confirm(cmd, yes, "Delete %s?", text); err != nil {
			return err
		}
	}
	told := time.Now()
	c.Progress = func(looked, found int) {
		if time.Since(told) >= time.Second {
			told = time.Now()
			printf(cmd.ErrOrStderr(), "%d runs looked at, %d deleted …\n", looked, found)
		}
	}
	found, err := s.Clean(ctx, c)
	printf(out, "deleted %s\n", byState(found))
	return err
}

// byState is how many runs, and how many of each state.
func byState(counts map[string]int) string {
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
