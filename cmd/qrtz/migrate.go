package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/schema"
)

func newMigrate(g *global) *cobra.Command {
	migrate := group(&cobra.Command{Use: "migrate", Short: "Create the tables, or bring them up to date"})
	migrate.AddCommand(newMigrateUp(g), newMigrateStatus(g), newMigratePrint(g))
	return migrate
}

func newMigrateUp(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run the migrations that the database lacks",
		Long:  "Run the migrations that the database lacks. Tables of version 1.3 are upgraded in place.\nIt may run on several machines at once, and again.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.with(cmd.Context(), func(d *database) error { return migrateUp(cmd.Context(), cmd.OutOrStdout(), d) })
		},
	}
}

// with runs a command on the database.
func (g *global) with(ctx context.Context, run func(*database) error) (err error) {
	d, err := g.database(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	return run(d)
}

func migrateUp(ctx context.Context, out io.Writer, d *database) error {
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
}

func newMigrateStatus(g *global) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which migrations the database has",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.with(cmd.Context(), func(d *database) error {
				return migrateStatus(cmd.Context(), cmd.OutOrStdout(), d, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

func migrateStatus(ctx context.Context, out io.Writer, d *database, asJSON bool) error {
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
	if asJSON {
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
}

func newMigratePrint(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "print",
		Short: "Print all migrations as one SQL script, for a database that qrtz may not change",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := schema.Print(schema.Prefix(g.prefix))
			if err != nil {
				return fmt.Errorf("--prefix: %w", err)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
}
