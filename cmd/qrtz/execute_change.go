package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/internal/admin"
)

// onExecute runs a command on an execute that the user names.
func onExecute(cmd *cobra.Command, g *global, args []string, run func(context.Context, *admin.Store, admin.Execute) error) error {
	return g.onTables(cmd, func(ctx context.Context, _ *database, s *admin.Store) error {
		e, err := s.Execute(ctx, argID(args))
		if err != nil {
			return err
		}
		return run(ctx, s, e)
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
	return onExecute(cmd, g, args, func(ctx context.Context, s *admin.Store, e admin.Execute) error {
		change, state := s.Resume, "EXECUTING"
		if pause {
			change, state = s.Pause, "PAUSED"
		}
		n, err := change(ctx, []admin.Execute{e})
		switch {
		case err != nil:
			return err
		case n == 1:
			printf(cmd.OutOrStdout(), "%s is %s\n", executeTitle(e), state)
		case e.State == state:
			printf(cmd.OutOrStdout(), "%s is %s, as it was before\n", executeTitle(e), state)
		default:
			return fmt.Errorf("%s is %s, which cannot become %s", executeTitle(e), e.State, state)
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
			return onExecute(cmd, g, args, func(ctx context.Context, s *admin.Store, e admin.Execute) error {
				if err := confirm(cmd, yes, "Delete %s?", executeTitle(e)); err != nil {
					return err
				}
				if err := s.DeleteExecute(ctx, e.ID); err != nil {
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
