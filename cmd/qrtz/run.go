package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/internal/admin"
)

func newRun(g *global) *cobra.Command {
	run := group(&cobra.Command{Use: "run", Short: "Runs: what has happened, happens, and waits"})
	run.AddCommand(newRunList(g), newRunShow(g), newRunCancel(g), newRunRetry(g))
	return run
}

func newRunList(g *global) *cobra.Command {
	var l listing
	var job string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, the newest first",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := l.check(cmd, runStates...); err != nil {
				return err
			}
			return g.onTables(cmd, func(ctx context.Context, _ *database, s *admin.Store) error {
				app, id, err := findJob(ctx, s, l.app, job)
				if err != nil {
					return err
				}
				runs, err := s.Runs(ctx, admin.RunFilter{App: app, State: l.state, JobID: id, Limit: l.limit})
				if err != nil {
					return err
				}
				return printRuns(cmd.OutOrStdout(), l.asJSON, runs.Rows)
			})
		},
	}
	l.flags(cmd, "runs", runStates...)
	l.limitFlag(cmd, 20)
	cmd.Flags().StringVar(&job, "job", "", "only those of this job, by name or id")
	return cmd
}

func printRuns(out io.Writer, asJSON bool, runs []admin.Run) error {
	return printList(out, asJSON, runs, "ID APP JOB STATE ATTEMPT NODE FIRE LATE TOOK MESSAGE", func(r admin.Run) []any {
		return []any{r.ID, r.App, r.Job(), r.State, r.Attempt, r.Node, r.Fire, between(r.Fire, r.StartedAt), between(r.StartedAt, r.FinishedAt), short(r.Message, 60)}
	})
}

func newRunShow(g *global) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a run",
		Args:  idArg("the id of a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.onTables(cmd, func(ctx context.Context, _ *database, s *admin.Store) error {
				r, err := s.Run(ctx, argID(args))
				if err != nil {
					return err
				}
				return showRun(cmd.OutOrStdout(), asJSON, r)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

func showRun(out io.Writer, asJSON bool, r admin.Run) error {
	if asJSON {
		return printJSON(out, r)
	}
	state := r.State
	if r.Cancelling {
		state += ", to be cancelled"
	}
	facts := []fact{
		{"run", r.ID},
		{"app", r.App},
		{"job", r.Job()},
		{"job id", r.JobID},
		{"execute", r.ExecuteID},
		{"state", state},
		{"attempt", r.Attempt},
		{"recovers run", r.Recovers},
		{"node", r.Node},
		{"fence", r.Fence},
		{"fire", r.Fire},
	}
	if r.State == "SKIPPED" && r.Fires > 1 {
		facts = append(facts, fact{"stands for fires", r.Fires}, fact{"the last of them", r.LastFire})
	}
	if r.State == "PENDING" {
		facts = append(facts, fact{"available", r.AvailableAt})
	}
	facts = append(
		facts, fact{"claimed", r.ClaimedAt}, fact{"started", r.StartedAt}, fact{"finished", r.FinishedAt},
		fact{"late", between(r.Fire, r.StartedAt)}, fact{"took", between(r.StartedAt, r.FinishedAt)},
		fact{"progress, %", r.Progress}, fact{"data", r.Data},
	)
	if err := printFacts(out, facts...); err != nil {
		return err
	}
	if r.Message != nil { // with the stack of a panic, in its lines
		printf(out, "\n%s\n", visible(*r.Message))
	}
	return nil
}
