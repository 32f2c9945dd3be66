package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/cli/admin"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

type jobRunOptions struct {
	jobOptions
	waitFlags
	data string
}

func newJobRun(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "run NAME|ID",
		Short: "Run a job once, now, even if its schedules are paused",
		Long: `Run a job once, now, on any node that is free, even if its schedules are paused.
With --wait the command ends with the run, and fails if the run did. A further attempt
of a job that has several is a run of its own, for which it does not wait. It does not
wait either for a run that no live node can start, and says why.`,
	}, &jobRunOptions{jobOptions: jobOptions{global: g}})
}

func (o *jobRunOptions) flags(f *pflag.FlagSet) {
	o.jobOptions.flags(f)
	o.add(f, "it has ended")
	f.StringVar(&o.data, "data", "", "JSON, in place of the job's data")
}

func (o *jobRunOptions) validate(args []string) error {
	if o.data != "" && !json.Valid([]byte(o.data)) {
		return fmt.Errorf("--data %q: want JSON", o.data)
	}
	return o.jobOptions.validate(args)
}

func (o *jobRunOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onJob(ctx, func(d *database, s *admin.Store, j execute.JobRecord) error {
		id, err := o.enqueue(ctx, d, j)
		if err != nil {
			return err
		}
		printf(cmd.OutOrStdout(), "run %d of %s\n", id, jobTitle(j))
		if !o.wait {
			return nil
		}
		ctx, cancel := o.within(ctx)
		defer cancel()
		return waitForRun(ctx, cmd.OutOrStdout(), s, j, id)
	})
}

func (o *jobRunOptions) enqueue(ctx context.Context, d *database, j execute.JobRecord) (id int64, err error) {
	var data []byte // nil: the job's
	if o.data != "" {
		data = []byte(o.data)
	}
	err = d.changeIn(ctx, j.App, func(s stores, tx *sqlx.Tx, now time.Time) (err error) {
		if err := s.executes.CheckJob(ctx, tx, j.ID); err != nil {
			return err
		}
		added, err := s.runs.Enqueue(ctx, tx, now, run.New{JobID: j.ID, Data: data})
		if err == nil {
			id = added[0].ID
		}
		return err
	})
	return id, err
}

// waitForRun says how a run goes, and fails if it does.
func waitForRun(ctx context.Context, out io.Writer, s *admin.Store, j execute.JobRecord, id int64) error {
	var last run.State
	var r run.Record
	err := every(ctx, 100*time.Millisecond, func() (ended bool, err error) {
		if r, err = s.Run(ctx, id); err != nil {
			return false, err
		}
		if r.State != last {
			printf(out, "%s\n", cell(r.State)+onNode(r))
		}
		last = r.State
		if r.Why != "" {
			return false, fmt.Errorf("run %d does not start: %s; it stays %s until one has, or until it is cancelled", id, r.Why, r.State)
		}
		return r.Ended(), nil
	})
	var gone schema.NotFoundError
	switch {
	case errors.As(err, &gone) && j.History != "ALL":
		printf(out, "ended; the job keeps no record of it (HISTORY %s)\n", cell(j.History))
		return nil
	case err != nil:
		return err
	case r.State != "SUCCEEDED":
		return fmt.Errorf("run %d is %s: %s", id, r.State, short(r.Message, 200))
	}
	return nil
}

func onNode(r run.Record) string {
	if r.Node == nil {
		return ""
	}
	return " on node " + cell(r.Node)
}
