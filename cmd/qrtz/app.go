package main

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/internal/admin"
)

func newApp(g *global) *cobra.Command {
	cmd := group(&cobra.Command{Use: "app", Short: "Applications: list, start, stop"})
	cmd.AddCommand(newAppList(g), newAppStart(g), newAppStop(g))
	return cmd
}

func newAppList(g *global) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the apps",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.onTables(cmd, func(ctx context.Context, _ *database, s *admin.Store) error {
				apps, err := s.Apps(ctx)
				if err != nil {
					return err
				}
				return printList(cmd.OutOrStdout(), asJSON, apps, "APP STATE NODES JOBS SWITCHED LAST_CHECK", func(a admin.App) []any {
					return []any{a.Name, onOff(a.State), a.Nodes, atMost(a.Jobs), a.SwitchedAt, a.CheckedAt}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

func newAppStart(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "start APP",
		Short: "Switch an app on",
		Long:  "Switch an app on. Its nodes that the app had stopped start again; what was due in between is passed over.",
		Args:  oneArg("the name of an app"),
		RunE:  func(cmd *cobra.Command, args []string) error { return switchApp(cmd, g, args[0], true) },
	}
}

func newAppStop(g *global) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "stop APP",
		Short: "Switch an app off: nothing of it starts any more, what runs goes on",
		Args:  oneArg("the name of an app"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needsYes(cmd, yes); err != nil {
				return err
			}
			if err := confirm(cmd, yes, "Stop all schedules of app %q?", args[0]); err != nil {
				return err
			}
			return switchApp(cmd, g, args[0], false)
		},
	}
	yesFlag(cmd, &yes)
	return cmd
}

func switchApp(cmd *cobra.Command, g *global, name string, on bool) error {
	return g.onTables(cmd, func(ctx context.Context, d *database, s *admin.Store) error {
		if err := s.CheckApp(ctx, name); err != nil {
			return err
		}
		var was bool
		err := d.change(ctx, func(db *sqlx.DB, tx *sqlx.Tx, _ time.Time) (err error) {
			was, err = app.NewStore(db, d.prefix, name).Switch(ctx, tx, on)
			return err
		})
		if err == nil {
			printf(cmd.OutOrStdout(), "app %s is %s\n", cell(name), switched(on, was != on))
		}
		return err
	})
}

func switched(on, changed bool) string {
	text := "off"
	if on {
		text = "on"
	}
	if !changed {
		text += ", as it was before"
	}
	return text
}

func onOff(state string) string {
	if state == "Y" {
		return "on"
	}
	return "off"
}
