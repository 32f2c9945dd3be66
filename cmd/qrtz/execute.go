package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/internal/admin"
)

func newExecute(g *global) *cobra.Command {
	execute := group(&cobra.Command{Use: "execute", Short: "Executes: the schedules of jobs"})
	execute.AddCommand(newExecuteList(g), newExecutePause(g), newExecuteResume(g), newExecuteDelete(g))
	return execute
}

func newExecuteList(g *global) *cobra.Command {
	var l listing
	var job string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the schedules",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := l.check(cmd, scheduleStates...); err != nil {
				return err
			}
			return g.onTables(cmd, func(ctx context.Context, _ *database, s *admin.Store) error {
				app, id, err := findJob(ctx, s, l.app, job)
				if err != nil {
					return err
				}
				executes, err := s.Executes(ctx, admin.ExecuteFilter{App: app, JobID: id, State: l.state, Limit: l.limit})
				if err != nil {
					return err
				}
				return printExecutes(cmd.OutOrStdout(), l.asJSON, executes.Rows)
			})
		},
	}
	l.flags(cmd, "schedules", scheduleStates...)
	l.limitFlag(cmd, 1000)
	cmd.Flags().StringVar(&job, "job", "", "only those of this job, by name or id")
	return cmd
}

// findJob is the id of the job that a flag names, and its app; with no name it is none, of the app that is given.
func findJob(ctx context.Context, s *admin.Store, app, job string) (string, int64, error) {
	if job == "" {
		return app, 0, nil
	}
	j, err := s.Job(ctx, app, job)
	return j.App, j.ID, err
}

func printExecutes(out io.Writer, asJSON bool, executes []admin.Execute) error {
	return printList(out, asJSON, executes, "ID APP JOB NAME STATE SCHEDULE ZONE NEXT PREVIOUS FIRED MISFIRE REASON", func(e admin.Execute) []any {
		return []any{e.ID, e.App, e.Job(), e.Name, e.State, e.Schedule, e.Zone, e.Next, e.Prev, e.Fired, e.Misfire, short(e.Reason, 60)}
	})
}
