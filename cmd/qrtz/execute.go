package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/cli/admin"
)

func newExecute(g *global) *cobra.Command {
	cmd := group(&cobra.Command{Use: "execute", Aliases: []string{"schedule"}, Short: "Schedules of jobs (executes): list, pause, resume, delete"})
	cmd.AddCommand(newExecuteList(g), newExecutePause(g), newExecuteResume(g), newExecuteDelete(g))
	return cmd
}

type executeListOptions struct {
	*global
	listFlags
	job string
}

func newExecuteList(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "list",
		Short: "List the schedules",
		Long: `List the schedules, by id. Those of an app, or in a state, are listed by their next fire, the
next to fire first; those without a next fire are the last.`,
	}, &executeListOptions{global: g, listFlags: listFlags{states: scheduleStates}})
}

func (o *executeListOptions) flags(f *pflag.FlagSet) {
	o.add(f, "schedules", 1000)
	f.StringVar(&o.job, "job", "", "only those of this job, by name or id")
}

func (o *executeListOptions) validate(args []string) error {
	if err := noArgs(args); err != nil {
		return err
	}
	return o.listFlags.validate()
}

func (o *executeListOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onTables(ctx, func(_ *database, s *admin.Store) error {
		app, id, err := findJob(ctx, s, o.app, o.job)
		if err != nil {
			return err
		}
		part, err := s.Executes(ctx, execute.Filter{App: app, JobID: id, State: execute.State(o.state), After: o.from, Limit: o.limit})
		if err != nil {
			return o.refusal(cmd, err)
		}
		return printPart(cmd, o.asJSON, part, executeHead, executeLine)
	})
}

// findJob is the id of the job that a flag names, and its app; with no name it is none, of the app that is given.
func findJob(ctx context.Context, s *admin.Store, app, job string) (string, int64, error) {
	if job == "" {
		return app, 0, nil
	}
	j, err := s.Job(ctx, app, job)
	return j.App, j.ID, err
}

const executeHead = "ID APP JOB NAME STATE SCHEDULE ZONE NEXT PREVIOUS FIRED MISFIRE DIFFERS REASON"

func executeLine(e execute.Record) []any {
	return []any{e.ID, e.App, e.Job(), e.Name, e.State, e.Schedule, e.Zone, e.Next, e.Prev, e.Fired, e.Misfire, differs(e.Differs), short(reason(e.Reason, e.Why), 60)}
}

// reason is what a row says, or else why it cannot run by itself.
func reason(said *string, why string) *string {
	if said == nil && why != "" {
		return &why
	}
	return said
}

func printExecutes(out io.Writer, executes []execute.Record) error {
	return printList(out, false, executes, executeHead, executeLine)
}

func executeTitle(e execute.Record) string {
	return fmt.Sprintf("schedule %d of job %d (%s) of app %s", e.ID, e.JobID, cell(e.Job()), cell(e.App))
}

// executePauseOptions are those of pause and resume.
type executePauseOptions struct {
	*global
	id    int64
	pause bool
}

func newExecutePause(g *global) *cobra.Command {
	return command(&cobra.Command{Use: "pause ID", Short: "Pause a schedule"}, &executePauseOptions{global: g, pause: true})
}

func newExecuteResume(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "resume ID",
		Short: "Resume a schedule, or start one that is INIT; what was due in a pause is passed over",
	}, &executePauseOptions{global: g})
}

func (o *executePauseOptions) flags(*pflag.FlagSet) {}

func (o *executePauseOptions) validate(args []string) (err error) {
	o.id, err = idArg(args, "the id of a schedule")
	return err
}

func (o *executePauseOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onTables(ctx, func(d *database, s *admin.Store) error {
		e, err := s.Execute(ctx, o.id)
		if err != nil {
			return err
		}
		all, err := pauseExecutes(ctx, d, e.App, o.pause, func(stores, *sqlx.Tx) ([]int64, error) { return []int64{e.ID}, nil })
		if err != nil {
			return err
		}
		want, c := execute.Executing, all[0]
		if o.pause {
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

// pauseExecutes pauses or resumes executes of an app.
func pauseExecutes(ctx context.Context, d *database, app string, pause bool, which func(stores, *sqlx.Tx) ([]int64, error)) (all []execute.Changed, err error) {
	err = d.changeIn(ctx, app, func(s stores, tx *sqlx.Tx, now time.Time) error {
		ids, err := which(s, tx)
		if err != nil {
			return err
		}
		change := s.executes.Resume
		if pause {
			change = s.executes.Pause
		}
		all, err = change(ctx, tx, now, ids...)
		return err
	})
	return all, err
}

type executeDeleteOptions struct {
	*global
	confirmFlags
	id int64
}

func newExecuteDelete(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "delete ID",
		Short: "Delete a schedule; its history stays",
		Long: `Delete a schedule. Its runs that are RUNNING continue, those that are PENDING are CANCELLED, its
history stays. If a program declares it, it stays deleted until the program declares it otherwise.`,
	}, &executeDeleteOptions{global: g})
}

func (o *executeDeleteOptions) flags(f *pflag.FlagSet) { o.add(f) }

func (o *executeDeleteOptions) validate(args []string) (err error) {
	if o.id, err = idArg(args, "the id of a schedule"); err != nil {
		return err
	}
	return o.confirmFlags.validate()
}

func (o *executeDeleteOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onTables(ctx, func(d *database, s *admin.Store) error {
		e, err := s.Execute(ctx, o.id)
		if err != nil {
			return err
		}
		if err := o.ask(cmd, "Delete %s?", executeTitle(e)); err != nil {
			return err
		}
		err = d.changeIn(ctx, e.App, func(s stores, tx *sqlx.Tx, now time.Time) error { return s.executes.DeleteExecute(ctx, tx, now, e.ID) })
		if err == nil {
			printf(cmd.OutOrStdout(), "deleted %s\n", executeTitle(e))
		}
		return err
	})
}
