package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/internal/cli/admin"
	"github.com/qrtz-go/qrtz/run"
)

func newRun(g *global) *cobra.Command {
	cmd := group(&cobra.Command{Use: "run", Short: "Runs: list, show, cancel, retry"})
	cmd.AddCommand(newRunList(g), newRunShow(g), newRunCancel(g), newRunRetry(g))
	return cmd
}

type runListOptions struct {
	*global
	listFlags
	job, key string
	schedule int64
	since    age
}

func newRunList(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "list",
		Short: "List runs, the newest first",
		Long: `List runs, the newest first: of a schedule by fire time; of an app, in a state, or of the
latest time, by the time at which they were due; else by id.`,
	}, &runListOptions{global: g, listFlags: listFlags{states: runStates}})
}

func (o *runListOptions) flags(f *pflag.FlagSet) {
	o.add(f, "runs", 20)
	f.StringVar(&o.job, "job", "", "only those of this job, by name or id")
	f.Int64Var(&o.schedule, "schedule", 0, "only those of this schedule, by its id")
	f.StringVar(&o.key, "key", "", "with --job: only those with this key")
	f.Var(&o.since, "since", "only those that were due within this time, for example 2h or 7d")
}

func (o *runListOptions) validate(args []string) error {
	if err := noArgs(args); err != nil {
		return err
	}
	switch {
	case o.schedule < 0:
		return fmt.Errorf("--schedule %d: want the id of a schedule", o.schedule)
	case o.key != "" && (o.job == "" || o.schedule != 0):
		return errors.New("--key belongs to a job: give --job with it, and no --schedule")
	case o.job != "" && o.schedule != 0:
		return errors.New("--schedule is of one job: give no --job with it")
	}
	return o.listFlags.validate()
}

func (o *runListOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onTables(ctx, func(_ *database, s *admin.Store) error {
		app, id, err := findJob(ctx, s, o.app, o.job)
		if err != nil {
			return err
		}
		filter := run.Filter{App: app, JobID: id, ExecuteID: o.schedule, Key: o.key, State: run.State(o.state), After: o.from, Limit: o.limit}
		if o.schedule != 0 {
			e, err := s.Execute(ctx, o.schedule)
			if err != nil {
				return err
			}
			filter.App = e.App
		}
		if o.since > 0 {
			now, err := s.Now(ctx)
			if err != nil {
				return err
			}
			filter.Since = now.Add(-time.Duration(o.since))
		}
		part, err := s.Runs(ctx, filter)
		if err != nil {
			return o.refusal(cmd, err)
		}
		return printPart(cmd, o.asJSON, part, runHead, runLine)
	})
}

const runHead = "ID APP JOB STATE ATTEMPT NODE FIRE LATE TOOK MESSAGE"

func runLine(r run.Record) []any {
	return []any{r.ID, r.App, r.Job(), r.State, r.Attempt, r.Node, r.Fire, between(r.Fire, r.StartedAt), between(r.StartedAt, r.FinishedAt), short(reason(r.Message, r.Why), 60)}
}

func printRuns(out io.Writer, runs []run.Record) error {
	return printList(out, false, runs, runHead, runLine)
}

type runShowOptions struct {
	*global
	id     int64
	asJSON bool
}

func newRunShow(g *global) *cobra.Command {
	return command(&cobra.Command{Use: "show ID", Short: "Show a run and all its attempts"}, &runShowOptions{global: g})
}

func (o *runShowOptions) flags(f *pflag.FlagSet) { jsonFlag(f, &o.asJSON) }

func (o *runShowOptions) validate(args []string) (err error) {
	o.id, err = idArg(args, "the id of a run")
	return err
}

func (o *runShowOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onTables(ctx, func(_ *database, s *admin.Store) error {
		r, err := s.Run(ctx, o.id)
		if err != nil {
			return err
		}
		attempts, err := s.Attempts(ctx, r)
		if err != nil {
			return err
		}
		if o.asJSON {
			return printJSON(cmd.OutOrStdout(), struct {
				run.Record
				Attempts []run.Record `json:"attempts"`
			}{r, attempts})
		}
		if err := showRun(cmd.OutOrStdout(), r); err != nil || len(attempts) < 2 {
			return err
		}
		printf(cmd.OutOrStdout(), "\nattempts\n")
		return printRuns(cmd.OutOrStdout(), attempts)
	})
}

func showRun(out io.Writer, r run.Record) error {
	state := string(r.State)
	if r.Cancelling {
		state += ", to be cancelled"
	}
	facts := []fact{
		{"run", r.ID},
		{"app", r.App},
		{"job", r.Job()},
		{"job id", r.JobID},
		{"schedule", r.ExecuteID},
		{"state", state},
		{"reason", r.Why},
		{"key", r.Key},
		{"attempt", r.Attempt},
		{"recovers run", r.Recovers},
		{"node", r.Node},
		{"fence", r.Fence},
		{"fire", r.Fire},
	}
	if r.State == "SKIPPED" && r.Fires > 1 {
		facts = append(facts, fact{"stands for fires", r.Fires}, fact{"the last of them", r.LastFire})
	}
	if r.State == "PENDING" {
		facts = append(facts, fact{"available", r.AvailableAt})
	}
	facts = append(
		facts, fact{"claimed", r.ClaimedAt}, fact{"started", r.StartedAt}, fact{"finished", r.FinishedAt},
		fact{"late", between(r.Fire, r.StartedAt)}, fact{"took", between(r.StartedAt, r.FinishedAt)},
		fact{"progress, %", r.Progress}, fact{"data", r.Data},
	)
	if err := printFacts(out, facts...); err != nil {
		return err
	}
	if r.Message != nil { // with the stack of a panic, in its lines
		printf(out, "\n%s\n", visible(*r.Message))
	}
	return nil
}

// runChangeOptions are those of cancel and retry.
type runChangeOptions struct {
	*global
	id     int64
	change func(ctx context.Context, s stores, tx *sqlx.Tx, now time.Time, id int64) (newID int64, err error)
	said   func(ctx context.Context, out io.Writer, s *admin.Store, r run.Record, newID int64) error
}

func newRunCancel(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a PENDING run, or ask the node of a RUNNING one to cancel it",
		Long: `Cancel a PENDING run, or ask the node of a RUNNING one to cancel its context, which
happens within a second. The run ends when its handler returns. The id of any of its attempts
names the run.`,
	}, &runChangeOptions{
		global: g,
		change: func(ctx context.Context, s stores, tx *sqlx.Tx, now time.Time, id int64) (int64, error) {
			_, err := s.runs.Cancel(ctx, tx, now, id)
			return 0, err
		},
		said: func(_ context.Context, out io.Writer, _ *admin.Store, r run.Record, _ int64) error {
			printf(out, "asked for run %d of job %s to be cancelled\n", r.ID, cell(r.Job()))
			return nil
		},
	})
}

func newRunRetry(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "retry ID",
		Short: "Try a run again that FAILED, was LOST or CANCELLED",
		Long: `Try a run again whose latest attempt FAILED, was LOST or CANCELLED. The id of any of its
attempts names the run.`,
	}, &runChangeOptions{
		global: g,
		change: func(ctx context.Context, s stores, tx *sqlx.Tx, now time.Time, id int64) (int64, error) {
			return s.runs.Retry(ctx, tx, now, id)
		},
		said: func(ctx context.Context, out io.Writer, s *admin.Store, r run.Record, newID int64) error {
			next, err := s.Run(ctx, newID)
			if err == nil {
				printf(out, "run %d retries run %d (attempt %d)\n", newID, r.ID, next.Attempt)
			}
			return err
		},
	})
}

func (o *runChangeOptions) flags(*pflag.FlagSet) {}

func (o *runChangeOptions) validate(args []string) (err error) {
	o.id, err = idArg(args, "the id of a run")
	return err
}

func (o *runChangeOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onTables(ctx, func(d *database, s *admin.Store) error {
		r, err := anAttempt(ctx, s, o.id)
		if err != nil {
			return err
		}
		var newID int64
		err = d.changeIn(ctx, r.App, func(s stores, tx *sqlx.Tx, now time.Time) (err error) {
			newID, err = o.change(ctx, s, tx, now, o.id)
			return err
		})
		if err == nil {
			err = o.said(ctx, cmd.OutOrStdout(), s, r, newID)
		}
		return err
	})
}

// anAttempt finds a run by its id, or else an attempt of the run whose first attempt had it.
func anAttempt(ctx context.Context, s *admin.Store, id int64) (run.Record, error) {
	r, err := s.Run(ctx, id)
	if err == nil {
		return r, nil
	}
	if all, err2 := s.Attempts(ctx, run.Record{Origin: id}); err2 == nil && len(all) > 0 {
		return all[0], nil
	}
	return r, err
}
