package main

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/internal/admin"
)

// onRun makes a change to a run that the user names.
func onRun(cmd *cobra.Command, g *global, args []string, do func(context.Context, stores, *sqlx.Tx, time.Time, admin.Run) error) (r admin.Run, err error) {
	err = g.onTables(cmd, func(ctx context.Context, d *database, s *admin.Store) error {
		if r, err = s.Run(ctx, argID(args)); err != nil {
			return err
		}
		return d.changeIn(ctx, r.App, func(s stores, tx *sqlx.Tx, now time.Time) error { return do(ctx, s, tx, now, r) })
	})
	return r, err
}

func newRunCancel(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a PENDING run, or ask the node of a RUNNING one to cancel it",
		Long:  "Cancel a PENDING run, or ask the node of a RUNNING one to cancel its context, which\nhappens within a second. The run ends when its handler returns.",
		Args:  idArg("the id of a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := onRun(cmd, g, args, func(ctx context.Context, s stores, tx *sqlx.Tx, now time.Time, r admin.Run) error {
				return s.runs.Cancel(ctx, tx, now, r.ID)
			})
			if err == nil {
				printf(cmd.OutOrStdout(), "asked for run %d of job %s to be cancelled\n", r.ID, cell(r.Job()))
			}
			return err
		},
	}
}

func newRunRetry(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "retry ID",
		Short: "Try a run again that FAILED, was LOST or CANCELLED",
		Args:  idArg("the id of a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var id int64
			r, err := onRun(cmd, g, args, func(ctx context.Context, s stores, tx *sqlx.Tx, now time.Time, r admin.Run) (err error) {
				id, err = s.runs.Retry(ctx, tx, now, r.ID)
				return err
			})
			if err == nil {
				printf(cmd.OutOrStdout(), "run %d retries run %d (attempt %d)\n", id, r.ID, r.Attempt+1)
			}
			return err
		},
	}
}
