package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/admin"
)

// onJob runs a command on a job that the user names.
func onJob(cmd *cobra.Command, g *global, app, name string, run func(context.Context, *database, *admin.Store, admin.Job) error) error {
	return g.onTables(cmd, func(ctx context.Context, d *database, s *admin.Store) error {
		j, err := s.Job(ctx, app, name)
		if err != nil {
			return err
		}
		return run(ctx, d, s, j)
	})
}

// jobTitle is how commands speak of a job.
func jobTitle(j admin.Job) string {
	return fmt.Sprintf("job %d (%s) of app %s", j.ID, cell(j.Title()), cell(j.App))
}

func appFlag(cmd *cobra.Command, app *string) {
	cmd.Flags().StringVar(app, "app", "", "the job's app, if several have a job of that name")
}

func newJobPause(g *global) *cobra.Command {
	var app string
	cmd := &cobra.Command{
		Use:   "pause NAME|ID",
		Short: "Pause all schedules of a job",
		Args:  oneArg(nameOrID),
		RunE:  func(cmd *cobra.Command, args []string) error { return pauseJob(cmd, g, app, args[0], true) },
	}
	appFlag(cmd, &app)
	return cmd
}

func newJobResume(g *global) *cobra.Command {
	var app string
	cmd := &cobra.Command{
		Use:   "resume NAME|ID",
		Short: "Resume all schedules of a job; what was due in between is passed over",
		Args:  oneArg(nameOrID),
		RunE:  func(cmd *cobra.Command, args []string) error { return pauseJob(cmd, g, app, args[0], false) },
	}
	appFlag(cmd, &app)
	return cmd
}

func pauseJob(cmd *cobra.Command, g *global, app, name string, pause bool) error {
	return onJob(cmd, g, app, name, func(ctx context.Context, d *database, _ *admin.Store, j admin.Job) error {
		all, err := pauseExecutes(ctx, d, j.App, pause, func(s stores, tx *sqlx.Tx) ([]int64, error) { return s.ExecutesOf(ctx, tx, j.ID) })
		if err != nil {
			return err
		}
		n := 0
		for _, c := range all {
			if c.From != c.To {
				n++
			}
		}
		done := map[bool]string{true: "paused", false: "resumed"}[pause]
		printf(cmd.OutOrStdout(), "%s %d of %d schedules of %s\n", done, n, len(all), jobTitle(j))
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
		change := s.Resume
		if pause {
			change = s.Pause
		}
		all, err = change(ctx, tx, now, ids...)
		return err
	})
	return all, err
}

func newJobDelete(g *global) *cobra.Command {
	var app string
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME|ID",
		Short: "Delete a job with its schedules; its history stays",
		Long:  "Delete a job with its schedules. What is RUNNING continues, what is PENDING is CANCELLED, its history stays.\nA program that declares the job will add it again when it starts.",
		Args:  oneArg(nameOrID),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needsYes(cmd, yes); err != nil {
				return err
			}
			return onJob(cmd, g, app, args[0], func(ctx context.Context, d *database, _ *admin.Store, j admin.Job) error {
				if err := confirm(cmd, yes, "Delete %s with %s schedules?", jobTitle(j), atMost(j.Executes)); err != nil {
					return err
				}
				err := d.changeIn(ctx, j.App, func(s stores, tx *sqlx.Tx, now time.Time) error { return s.DeleteJob(ctx, tx, now, j.ID) })
				if err != nil {
					return err
				}
				printf(cmd.OutOrStdout(), "deleted %s\n", jobTitle(j))
				return nil
			})
		},
	}
	appFlag(cmd, &app)
	yesFlag(cmd, &yes)
	return cmd
}

func newJobRun(g *global) *cobra.Command {
	var app, data string
	var wait bool
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "run NAME|ID",
		Short: "Run a job once, now, whether or not its schedules are paused",
		Long: `Run a job once, now, on whatever node is free, whether or not its schedules are paused.
With --wait the command ends with the run, and fails if the run did. A further attempt
of a job that has several is a run of its own, which it does not wait for.`,
		Args: oneArg(nameOrID),
		RunE: func(cmd *cobra.Command, args []string) error {
			if data != "" && !json.Valid([]byte(data)) {
				return usagef(cmd, "--data %q: want JSON", data)
			}
			return onJob(cmd, g, app, args[0], func(ctx context.Context, d *database, s *admin.Store, j admin.Job) error {
				var own []byte
				if data != "" {
					own = []byte(data)
				}
				var id int64
				err := d.changeIn(ctx, j.App, func(s stores, tx *sqlx.Tx, now time.Time) (err error) {
					if err := s.CheckJob(ctx, tx, j.ID); err != nil {
						return err
					}
					id, err = s.runs.Enqueue(ctx, tx, j.ID, own, now)
					return err
				})
				if err != nil {
					return err
				}
				printf(cmd.OutOrStdout(), "run %d of %s\n", id, jobTitle(j))
				if !wait {
					return nil
				}
				if within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeoutCause(ctx, within, errStillRunning)
					defer cancel()
				}
				return waitForRun(ctx, cmd, s, j, id)
			})
		},
	}
	appFlag(cmd, &app)
	cmd.Flags().StringVar(&data, "data", "", "JSON, in place of the job's data")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it has ended")
	cmd.Flags().DurationVar(&within, "timeout", 0, "with --wait: for at most this long (default without end)")
	return cmd
}

// waitForRun says how a run goes, and fails if it does.
func waitForRun(ctx context.Context, cmd *cobra.Command, s *admin.Store, j admin.Job, id int64) error {
	var last string
	var r admin.Run
	err := every(ctx, 100*time.Millisecond, func() (ended bool, err error) {
		if r, err = s.Run(ctx, id); err != nil {
			return false, err
		}
		if r.State != last {
			printf(cmd.OutOrStdout(), "%s\n", cell(r.State)+onNode(r))
		}
		last = r.State
		return r.Ended(), nil
	})
	var gone admin.NotFoundError
	switch {
	case errors.As(err, &gone) && j.History != "ALL":
		printf(cmd.OutOrStdout(), "ended; the job keeps no record of it (HISTORY %s)\n", cell(j.History))
		return nil
	case err != nil:
		return err
	case r.State != "SUCCEEDED":
		return fmt.Errorf("run %d is %s: %s", id, r.State, short(r.Message, 200))
	}
	return nil
}

func onNode(r admin.Run) string {
	if r.Node == nil {
		return ""
	}
	return " on node " + cell(r.Node)
}
