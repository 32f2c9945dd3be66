package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/internal/admin"
)

func newJob(g *global) *cobra.Command {
	job := group(&cobra.Command{Use: "job", Short: "Jobs: what is run"})
	job.AddCommand(newJobList(g), newJobShow(g), newJobPause(g), newJobResume(g), newJobRun(g), newJobDelete(g))
	return job
}

// nameOrID is what job commands take.
const nameOrID = "the name or id of a job"

func newJobList(g *global) *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the jobs",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := l.check(cmd, scheduleStates...); err != nil {
				return err
			}
			return g.onTables(cmd, func(ctx context.Context, _ *database, s *admin.Store) error {
				jobs, err := s.Jobs(ctx, admin.JobFilter{App: l.app, State: l.state, Limit: l.limit})
				if err != nil {
					return err
				}
				return printList(cmd.OutOrStdout(), l.asJSON, jobs.Rows, "ID APP NAME CLASS STATE SCHEDULES NEXT DESCRIPTION", func(j admin.Job) []any {
					return []any{j.ID, j.App, j.Name, j.Class, j.State, atMost(j.Executes), j.Next, short(j.Description, 40)}
				})
			})
		},
	}
	l.flags(cmd, "jobs", scheduleStates...)
	l.limitFlag(cmd, 1000)
	return cmd
}

func newJobShow(g *global) *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use:   "show NAME|ID",
		Short: "Show a job, its schedules and its latest runs",
		Args:  oneArg(nameOrID),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.onTables(cmd, func(ctx context.Context, _ *database, s *admin.Store) error { return showJob(ctx, cmd, s, l, args[0]) })
		},
	}
	l.flags(cmd, "the job")
	return cmd
}

func showJob(ctx context.Context, cmd *cobra.Command, s *admin.Store, l listing, name string) error {
	const latest = 5
	j, err := s.Job(ctx, l.app, name)
	if err != nil {
		return err
	}
	executes, err := s.Executes(ctx, admin.ExecuteFilter{App: j.App, JobID: j.ID, Limit: 1000})
	if err != nil {
		return err
	}
	runs, err := s.Runs(ctx, admin.RunFilter{App: j.App, JobID: j.ID, Limit: latest})
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if l.asJSON {
		return printJSON(out, struct {
			admin.Job
			Schedules []admin.Execute `json:"schedules"`
			Latest    []admin.Run     `json:"latest_runs"`
		}{j, executes.Rows, runs.Rows})
	}
	err = printFacts(out, append([]fact{
		{"job", j.ID}, {"app", j.App}, {"name", j.Name}, {"class", j.Class}, {"state", j.State}, {"description", j.Description}, {"data", j.Data},
	}, rules(j)...)...)
	if err != nil {
		return err
	}
	printf(out, "\nschedules\n")
	if err := printExecutes(out, false, executes.Rows); err != nil {
		return err
	}
	printf(out, "\nlatest runs\n")
	return printRuns(out, false, runs.Rows)
}

// rules are what a job asks of its runs.
func rules(j admin.Job) []fact {
	overlap, attempts, history := j.Overlap, fmt.Sprint(j.Attempts), j.History
	if j.Overlap == "QUEUE" {
		overlap += fmt.Sprintf(", at most %d waiting", j.QueueLimit)
	}
	if j.Attempts > 1 {
		attempts += fmt.Sprintf(", after %s to %s", milliseconds(j.Backoff), milliseconds(j.MaxBackoff))
	}
	if j.KeepFor > 0 {
		history += ", for " + milliseconds(j.KeepFor)
	}
	if j.KeepRuns > 0 {
		history += fmt.Sprintf(", the latest %d", j.KeepRuns)
	}
	timeout := ""
	if j.Timeout > 0 {
		timeout = milliseconds(j.Timeout)
	}
	return []fact{{"recovery", j.Recovery}, {"overlap", overlap}, {"timeout", timeout}, {"attempts", attempts}, {"history", history}}
}

func milliseconds(ms int64) string {
	a := age(time.Duration(ms) * time.Millisecond)
	return a.String()
}
