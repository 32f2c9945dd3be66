package qrtz

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/execute"
)

// Declare makes the stored jobs and schedules what the declarations say, all or none. A program can call it at every
// start: what is as declared stays untouched, with its pauses. A changed schedule continues from now. One with another
// Start, as At at another time is, counts its fires from zero. A schedule that its job no longer has is COMPLETE. Jobs that
// are not mentioned, and schedules added by SQL or by Schedule, are left alone. Nothing is written if a declaration is invalid.
//
// What an operator has changed stays as long as the program declares the same as before, and the log says that it differs.
// A value that has changed in the program is written. Job.Reset has all of them written. See docs/embedding.md.
func (c *Client) Declare(ctx context.Context, jobs ...Job) error {
	return c.declare(ctx, jobs, func(*sqlx.Tx, []execute.Declaration) error { return nil })
}

// DeclareAll is Declare for a program that declares all jobs of its app in one call. It returns the names of the jobs that were
// declared before and are not among them, in order; jobs that were added by SQL are not listed. They stay as they are: give them to
// Retire, or to Delete. If several programs of one app declare jobs of their own, each finds those of the others in its list.
func (c *Client) DeclareAll(ctx context.Context, jobs ...Job) (notDeclared []string, err error) {
	err = c.declare(ctx, jobs, func(tx *sqlx.Tx, declarations []execute.Declaration) (err error) {
		notDeclared, err = c.executes.NotDeclared(ctx, tx, declarations)
		return err
	})
	if err != nil {
		return nil, err
	}
	return notDeclared, nil
}

// declare declares jobs, and does more in the same transaction.
func (c *Client) declare(ctx context.Context, jobs []Job, more func(*sqlx.Tx, []execute.Declaration) error) error {
	declarations := make([]execute.Declaration, len(jobs))
	for i, job := range jobs {
		d, err := job.declaration()
		if err != nil {
			return fmt.Errorf("qrtz: %w", err)
		}
		declarations[i] = d
	}
	var apart []execute.Finding
	err := c.change(ctx, "declare", func(tx *sqlx.Tx, now time.Time) (err error) {
		if apart, err = c.executes.DeclareIn(ctx, tx, now, declarations); err != nil {
			return err
		}
		return more(tx, declarations)
	})
	if err == nil {
		c.wake()
		c.logDifferences(apart)
		c.hintDeclared(ctx, declarations)
	}
	return err
}

// Retire completes the schedules of jobs that were declared and are not any more, all of these jobs or none. The jobs and their history
// stay, and so do schedules that an operator or Schedule has added. What is PENDING or RUNNING continues. If a program declares such a
// job again, its schedules continue. It returns ErrNotFound for a job that is not there, and an error for one that no program has
// declared: that is for Delete.
func (c *Client) Retire(ctx context.Context, jobs ...string) error {
	return c.change(ctx, "retire", func(tx *sqlx.Tx, _ time.Time) error {
		return c.executes.Retire(ctx, tx, jobs)
	})
}

// Schedule adds a schedule to a job, or changes the one of its name, as Declare does; all that it says is written. It needs a
// name. A schedule that it adds is not touched by Declare, unless the job is declared with a schedule of that name. One that was
// declared is as if an operator had changed it. It returns ErrNotFound for an unknown job.
func (c *Client) Schedule(ctx context.Context, job string, schedule Schedule) error {
	d, err := schedule.declared()
	if err != nil {
		return fmt.Errorf("qrtz: schedule %q of job %q: %w", schedule.Name, job, err)
	}
	err = c.change(ctx, "schedule", func(tx *sqlx.Tx, now time.Time) error {
		return c.executes.Schedule(ctx, tx, now, job, d)
	})
	if err == nil {
		c.wake()
	}
	return err
}

// Unschedule deletes one schedule of a job. What is RUNNING of it continues, what is PENDING is CANCELLED, and the history stays.
// If the job is declared with it, it stays deleted until its declaration changes. It returns ErrNotFound if there is none of that
// name.
func (c *Client) Unschedule(ctx context.Context, job, schedule string) error {
	return c.change(ctx, "unschedule", func(tx *sqlx.Tx, now time.Time) error {
		return c.executes.Unschedule(ctx, tx, now, job, schedule)
	})
}

// logDifferences says in one line what an operator has changed.
func (c *Client) logDifferences(apart []execute.Finding) {
	const most = 20
	if len(apart) == 0 {
		return
	}
	lines := make([]string, min(len(apart), most))
	for i := range lines {
		lines[i] = apart[i].String()
	}
	c.logger.Warn().Int("differences", len(apart)).Strs("differs", lines).
		Msg("an operator has changed what this program declares: it stays so unless the program declares something new, or sets Reset")
}
