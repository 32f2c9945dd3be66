package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/admin"
)

// onExecute runs a command on an execute that the user names.
func onExecute(cmd *cobra.Command, g *global, args []string, run func(context.Context, *database, admin.Execute) error) error {
	return g.onTables(cmd, func(ctx context.Context, d *database, s *admin.Store) error {
		e, err := s.Execute(ctx, argID(args))
		if err != nil {
			return err
		}
		return run(ctx, d, e)
	})
}

func executeTitle(e admin.Execute) string {
	return fmt.Sprintf("execute %d of job %d (%s) of app %s", e.ID, e.JobID, cell(e.Job()), cell(e.App))
}

func newExecutePause(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "pause ID",
		Short: "Pause a schedule",
		Args:  idArg("the id of an execute"),
		RunE:  func(cmd *cobra.Command, args []string) error { return pauseExecute(cmd, g, args, true) },
	}
}

func newExecuteResume(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "resume ID",
		Short: "Resume a schedule; what was due in between is passed over",
		Args:  idArg("the id of an execute"),
		RunE:  func(cmd *cobra.Command, args []string) error { return pauseExecute(cmd, g, args, false) },
	}
}

func pauseExecute(cmd *cobra.Command, g *global, args []string, pause bool) error {
	return onExecute(cmd, g, args, func(ctx context.Context, d *database, e admin.Execute) error {
		all, err := pauseExecutes(ctx, d, e.App, pause, func(stores, *sqlx.Tx) ([]int64, error) { return []int64{e.ID}, nil })
		if err != nil {
			return err
		}
		want, c := execute.Executing, all[0]
		if pause {
			want = execute.Paused
		}
		switch {
		case c.From != c.To:
			printf(cmd.OutOrStdout(), "%s is %s\n", executeTitle(e), c.To)
		case c.To == want:
			printf(cmd.OutOrStdout(), "%s is %s, as it was before\n", executeTitle(e), c.To)
		default:
			return fmt.Errorf("%s is %s, which cannot become %s", executeTitle(e), c.To, want)
		}
		return nil
	})
}

func newExecuteDelete(g *global) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a schedule; its history stays",
		Args:  idArg("the id of an execute"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needsYes(cmd, yes); err != nil {
				return err
			}
			return onExecute(cmd, g, args, func(ctx context.Context, d *database, e admin.Execute) error {
				if err := confirm(cmd, yes, "Delete %s?", executeTitle(e)); err != nil {
					return err
				}
				err := d.changeIn(ctx, e.App, func(s stores, tx *sqlx.Tx, now time.Time) error { return s.DeleteExecute(ctx, tx, now, e.ID) })
				if err != nil {
					return err
				}
				printf(cmd.OutOrStdout(), "deleted %s\n", executeTitle(e))
				return nil
			})
		},
	}
	yesFlag(cmd, &yes)
	return cmd
}
