package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/schema"
)

func newMigrate(g *global) *cobra.Command {
	cmd := group(&cobra.Command{Use: "migrate", Short: "Create the tables, or bring them up to date"})
	cmd.AddCommand(newMigrateUp(g), newMigrateStatus(g), newMigratePrint(g))
	return cmd
}

type migrateUpOptions struct{ *global }

func newMigrateUp(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "up",
		Short: "Run the migrations that the database lacks",
		Long: `Run the migrations that the database lacks. Tables of version 1.3 are upgraded in place.
It may run on several machines at once, and again.`,
	}, &migrateUpOptions{g})
}

func (o *migrateUpOptions) flags(*pflag.FlagSet) {}

func (o *migrateUpOptions) validate(args []string) error { return noArgs(args) }

func (o *migrateUpOptions) run(cmd *cobra.Command) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	return o.with(ctx, func(d *database) error {
		db, err := d.pool(1)
		if err != nil {
			return err
		}
		done, err := schema.Up(ctx, db, d.prefix)
		for _, m := range done {
			printf(out, "migration %d (%s) done\n", m.Version, m.Name)
		}
		if err == nil && len(done) == 0 {
			printf(out, "up to date: the %s tables have all %d migrations\n", d.prefix, schema.Latest())
		}
		return err
	})
}

type migrateStatusOptions struct {
	*global
	asJSON bool
}

func newMigrateStatus(g *global) *cobra.Command {
	return command(&cobra.Command{Use: "status", Short: "Show which migrations the database has"}, &migrateStatusOptions{global: g})
}

func (o *migrateStatusOptions) flags(f *pflag.FlagSet) { jsonFlag(f, &o.asJSON) }

func (o *migrateStatusOptions) validate(args []string) error { return noArgs(args) }

func (o *migrateStatusOptions) run(cmd *cobra.Command) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	return o.with(ctx, func(d *database) error {
		db, err := d.pool(1)
		if err != nil {
			return err
		}
		all, err := schema.Status(ctx, db, d.prefix)
		if err != nil {
			return err
		}
		type line struct {
			Version int    `json:"version"`
			Name    string `json:"name"`
			Applied bool   `json:"applied"`
		}
		lines := make([]line, len(all))
		for i, m := range all {
			lines[i] = line{m.Version, m.Name, m.Applied}
		}
		if o.asJSON {
			return printJSON(out, lines)
		}
		for _, l := range lines {
			state := "missing"
			if l.Applied {
				state = "applied"
			}
			printf(out, "%d  %-7s  %s\n", l.Version, state, l.Name)
		}
		return nil
	})
}

type migratePrintOptions struct{ *global }

func newMigratePrint(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "print",
		Short: "Print all migrations as one SQL script, for a database that qrtz may not change",
	}, &migratePrintOptions{g})
}

func (o *migratePrintOptions) flags(*pflag.FlagSet) {}

func (o *migratePrintOptions) validate(args []string) error { return noArgs(args) }

func (o *migratePrintOptions) run(cmd *cobra.Command) error {
	text, err := schema.Print(schema.Prefix(o.prefix))
	if err != nil {
		return fmt.Errorf("--prefix: %w", err)
	}
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}
