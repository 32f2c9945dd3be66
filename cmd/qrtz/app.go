package main

import (
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/internal/cli/admin"
)

func newApp(g *global) *cobra.Command {
	cmd := group(&cobra.Command{Use: "app", Short: "Applications: list, start, stop"})
	cmd.AddCommand(newAppList(g), newAppStart(g), newAppStop(g))
	return cmd
}

type appListOptions struct {
	*global
	asJSON bool
}

func newAppList(g *global) *cobra.Command {
	return command(&cobra.Command{Use: "list", Short: "List the apps"}, &appListOptions{global: g})
}

func (o *appListOptions) flags(f *pflag.FlagSet) { jsonFlag(f, &o.asJSON) }

func (o *appListOptions) validate(args []string) error { return noArgs(args) }

func (o *appListOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onTables(ctx, func(_ *database, s *admin.Store) error {
		apps, err := s.Apps(ctx)
		if err != nil {
			return err
		}
		return printList(cmd.OutOrStdout(), o.asJSON, apps, "APP STATE NODES JOBS SWITCHED LAST_CHECK", func(a app.Record) []any {
			return []any{a.Name, onOff(a.State), a.Nodes, atMost(a.Jobs), a.SwitchedAt, a.CheckedAt}
		})
	})
}

// appSwitchOptions are those of start and stop.
type appSwitchOptions struct {
	*global
	confirmFlags
	app string
	on  bool
}

func newAppStart(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "start APP",
		Short: "Switch an app on",
		Long:  "Switch an app on. Its nodes that the app had stopped start again; what was due in between is passed over.",
	}, &appSwitchOptions{global: g, on: true})
}

func newAppStop(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "stop APP",
		Short: "Switch an app off: it starts nothing new; running jobs continue",
	}, &appSwitchOptions{global: g})
}

func (o *appSwitchOptions) flags(f *pflag.FlagSet) {
	if !o.on {
		o.add(f)
	}
}

func (o *appSwitchOptions) validate(args []string) (err error) {
	if o.app, err = oneArg(args, "the name of an app"); err != nil || o.on {
		return err
	}
	return o.confirmFlags.validate()
}

func (o *appSwitchOptions) run(cmd *cobra.Command) error {
	if !o.on {
		if err := o.ask(cmd, "Stop all schedules of app %q?", o.app); err != nil {
			return err
		}
	}
	ctx := cmd.Context()
	return o.onTables(ctx, func(d *database, s *admin.Store) error {
		if err := s.CheckApp(ctx, o.app); err != nil {
			return err
		}
		var was bool
		err := d.change(ctx, func(db *sqlx.DB, tx *sqlx.Tx, _ time.Time) (err error) {
			was, err = app.NewStore(db, d.prefix, o.app).Switch(ctx, tx, o.on)
			return err
		})
		if err == nil {
			printf(cmd.OutOrStdout(), "app %s is %s\n", cell(o.app), switched(o.on, was))
		}
		return err
	})
}

// switched says how a switch is now, and whether it was so before.
func switched(on, was bool) string {
	text := "off"
	if on {
		text = "on"
	}
	if was == on {
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
