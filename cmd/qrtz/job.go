package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/cli/admin"
	"github.com/qrtz-go/qrtz/run"
)

func newJob(g *global) *cobra.Command {
	cmd := group(&cobra.Command{Use: "job", Short: "Jobs: list, show, pause, resume, run, delete"})
	cmd.AddCommand(newJobList(g), newJobShow(g), newJobPause(g), newJobResume(g), newJobRun(g), newJobDelete(g))
	return cmd
}

type jobListOptions struct {
	*global
	listFlags
}

func newJobList(g *global) *cobra.Command {
	return command(&cobra.Command{Use: "list", Short: "List the jobs, by id"},
		&jobListOptions{global: g, listFlags: listFlags{states: scheduleStates}})
}

func (o *jobListOptions) flags(f *pflag.FlagSet) { o.add(f, "jobs", 1000) }

func (o *jobListOptions) validate(args []string) error {
	if err := noArgs(args); err != nil {
		return err
	}
	return o.listFlags.validate()
}

func (o *jobListOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onTables(ctx, func(_ *database, s *admin.Store) error {
		part, err := s.Jobs(ctx, execute.JobFilter{App: o.app, State: execute.State(o.state), After: o.from, Limit: o.limit})
		if err != nil {
			return o.refusal(cmd, err)
		}
		return printPart(cmd, o.asJSON, part, "ID APP NAME CLASS STATE SCHEDULES NEXT DESCRIPTION DIFFERS REASON", func(j execute.JobRecord) []any {
			return []any{j.ID, j.App, j.Name, j.Class, j.State, atMost(j.Executes), j.Next, short(j.Description, 40), differs(j.Differs), j.Why}
		})
	})
}

// jobOptions are those of every command on one job.
type jobOptions struct {
	*global
	job, app string
}

func (o *jobOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.app, "app", "", "the job's app, if several have a job of that name")
}

func (o *jobOptions) validate(args []string) (err error) {
	o.job, err = oneArg(args, "the name or id of a job")
	return err
}

// onJob finds the job.
func (o *jobOptions) onJob(ctx context.Context, run func(*database, *admin.Store, execute.JobRecord) error) error {
	return o.onTables(ctx, func(d *database, s *admin.Store) error {
		j, err := s.Job(ctx, o.app, o.job)
		if err != nil {
			return err
		}
		return run(d, s, j)
	})
}

// jobTitle is how commands speak of a job.
func jobTitle(j execute.JobRecord) string {
	return fmt.Sprintf("job %d (%s) of app %s", j.ID, cell(j.Title()), cell(j.App))
}

type jobShowOptions struct {
	jobOptions
	asJSON bool
}

func newJobShow(g *global) *cobra.Command {
	return command(&cobra.Command{Use: "show NAME|ID", Short: "Show a job, its schedules and its latest runs"},
		&jobShowOptions{jobOptions: jobOptions{global: g}})
}

func (o *jobShowOptions) flags(f *pflag.FlagSet) {
	o.jobOptions.flags(f)
	jsonFlag(f, &o.asJSON)
}

func (o *jobShowOptions) run(cmd *cobra.Command) error {
	const latest, schedules = 5, 1000
	ctx := cmd.Context()
	return o.onJob(ctx, func(_ *database, s *admin.Store, j execute.JobRecord) error {
		executes, err := s.Executes(ctx, execute.Filter{App: j.App, JobID: j.ID, Limit: schedules})
		if err != nil {
			return err
		}
		runs, err := s.Runs(ctx, run.Filter{App: j.App, JobID: j.ID, Limit: latest})
		if err != nil {
			return err
		}
		if o.asJSON {
			return printJSON(cmd.OutOrStdout(), struct {
				execute.JobRecord
				Schedules []execute.Record `json:"schedules"`
				Latest    []run.Record     `json:"latest_runs"`
			}{j, executes.Rows, runs.Rows})
		}
		return showJob(cmd.OutOrStdout(), j, executes.Rows, runs.Rows)
	})
}

func showJob(out io.Writer, j execute.JobRecord, executes []execute.Record, runs []run.Record) error {
	err := printFacts(out, append([]fact{
		{"job", j.ID}, {"app", j.App}, {"name", j.Name}, {"class", j.Class}, {"state", j.State}, {"reason", j.Why}, {"description", j.Description}, {"data", j.Data},
	}, append(rules(j), differences(j.Differs)...)...)...)
	if err != nil {
		return err
	}
	printf(out, "\nschedules\n")
	if err := printExecutes(out, executes); err != nil {
		return err
	}
	printf(out, "\nlatest runs\n")
	return printRuns(out, runs)
}

// differs names the columns that an operator has changed since the program declared them.
func differs(all []execute.Difference) string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Column
	}
	return strings.Join(names, ",")
}

// differences say of each what is stored, and what is declared.
func differences(all []execute.Difference) []fact {
	facts := make([]fact, len(all))
	for i, d := range all {
		says := d.String()
		facts[i] = fact{"differs", short(&says, 200)}
	}
	return facts
}

// rules are what a job asks of its runs.
func rules(j execute.JobRecord) []fact {
	overlap, attempts, history := j.Overlap, fmt.Sprint(j.Attempts), j.History
	if j.Overlap == "QUEUE" {
		overlap += fmt.Sprintf(", at most %d pending", j.QueueLimit)
	}
	if j.Attempts > 1 {
		attempts += fmt.Sprintf(", after %s to %s", milliseconds(j.Backoff), milliseconds(j.MaxBackoff))
	}
	if j.KeepFor > 0 {
		history += ", for " + milliseconds(j.KeepFor)
	}
	if j.KeepRuns > 0 {
		history += fmt.Sprintf(", the latest %d", j.KeepRuns)
	}
	timeout := ""
	if j.Timeout > 0 {
		timeout = milliseconds(j.Timeout)
	}
	return []fact{{"recovery", j.Recovery}, {"overlap", overlap}, {"timeout", timeout}, {"attempts", attempts}, {"history", history}}
}

func milliseconds(ms int64) string {
	a := age(time.Duration(ms) * time.Millisecond)
	return a.String()
}

// jobPauseOptions are those of pause and resume.
type jobPauseOptions struct {
	jobOptions
	pause bool
}

func newJobPause(g *global) *cobra.Command {
	return command(&cobra.Command{Use: "pause NAME|ID", Short: "Pause all schedules of a job"},
		&jobPauseOptions{jobOptions{global: g}, true})
}

func newJobResume(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "resume NAME|ID",
		Short: "Resume all schedules of a job, and start those that are INIT; what was due in a pause is passed over",
	}, &jobPauseOptions{jobOptions{global: g}, false})
}

func (o *jobPauseOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onJob(ctx, func(d *database, _ *admin.Store, j execute.JobRecord) error {
		all, err := pauseExecutes(ctx, d, j.App, o.pause, func(s stores, tx *sqlx.Tx) ([]int64, error) { return s.executes.ExecutesOf(ctx, tx, j.ID) })
		if err != nil {
			return err
		}
		n, done := 0, "resumed"
		if o.pause {
			done = "paused"
		}
		for _, c := range all {
			if c.From != c.To {
				n++
			}
		}
		printf(cmd.OutOrStdout(), "%s %d of %d schedules of %s\n", done, n, len(all), jobTitle(j))
		return nil
	})
}

type jobDeleteOptions struct {
	jobOptions
	confirmFlags
}

func newJobDelete(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "delete NAME|ID",
		Short: "Delete a job with its schedules; its history stays",
		Long: `Delete a job with its schedules. Its runs that are RUNNING continue, those that are PENDING
are CANCELLED, its history stays. A program that declares the job will add it again when it
starts.`,
	}, &jobDeleteOptions{jobOptions: jobOptions{global: g}})
}

func (o *jobDeleteOptions) flags(f *pflag.FlagSet) {
	o.jobOptions.flags(f)
	o.add(f)
}

func (o *jobDeleteOptions) validate(args []string) error {
	if err := o.jobOptions.validate(args); err != nil {
		return err
	}
	return o.confirmFlags.validate()
}

func (o *jobDeleteOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onJob(ctx, func(d *database, _ *admin.Store, j execute.JobRecord) error {
		if err := o.ask(cmd, "Delete %s with %s schedules?", jobTitle(j), atMost(j.Executes)); err != nil {
			return err
		}
		err := d.changeIn(ctx, j.App, func(s stores, tx *sqlx.Tx, now time.Time) error { return s.executes.DeleteJob(ctx, tx, now, j.ID) })
		if err == nil {
			printf(cmd.OutOrStdout(), "deleted %s\n", jobTitle(j))
		}
		return err
	})
}
