package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/admin"
)

// onRun runs a command on a run that the user names, with a scheduler of its app.
func onRun(cmd *cobra.Command, g *global, args []string, do func(context.Context, *qrtz.Scheduler, admin.Run) error) error {
	return g.onTables(cmd, func(ctx context.Context, d *database, s *admin.Store) error {
		r, err := s.Run(ctx, argID(args))
		if err != nil {
			return err
		}
		db, err := d.pool(1)
		if err != nil {
			return err
		}
		scheduler, err := qrtz.Open(db, qrtz.Config{App: r.App, Prefix: g.prefix})
		if err != nil {
			return err
		}
		return do(ctx, scheduler, r)
	})
}

func newRunCancel(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a run that waits, or ask the node of one that runs to cancel it",
		Long:  "Cancel a run that waits, or ask the node of one that runs to cancel its context, which\nhappens within a second. The run ends when its handler returns.",
		Args:  idArg("the id of a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onRun(cmd, g, args, func(ctx context.Context, s *qrtz.Scheduler, r admin.Run) error {
				if err := s.Cancel(ctx, r.ID); err != nil {
					return err
				}
				printf(cmd.OutOrStdout(), "asked for run %d of job %s to be cancelled\n", r.ID, cell(r.Job()))
				return nil
			})
		},
	}
}

func newRunRetry(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "retry ID",
		Short: "Try a run again that FAILED, was LOST or CANCELLED",
		Args:  idArg("the id of a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onRun(cmd, g, args, func(ctx context.Context, s *qrtz.Scheduler, r admin.Run) error {
				id, err := s.Retry(ctx, r.ID)
				if err != nil {
					return err
				}
				printf(cmd.OutOrStdout(), "run %d is attempt %d of what run %d was\n", id, r.Attempt+1, r.ID)
				return nil
			})
		},
	}
}
