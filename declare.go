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
// are not mentioned, and schedules added by SQL, are left alone. Nothing is written if a declaration is invalid.
//
// What an operator has changed stays as long as the program declares the same as before, and the log says that it differs.
// A value that has changed in the program is written. Job.Reset has all of them written. See docs/embedding.md.
func (c *Client) Declare(ctx context.Context, jobs ...Job) error {
	declarations := make([]execute.Declaration, len(jobs))
	for i, job := range jobs {
		d, err := job.declaration()
		if err != nil {
			return fmt.Errorf("qrtz: %w", err)
		}
		declarations[i] = d
	}
	var apart []execute.Difference
	err := c.change(ctx, "declare", func(tx *sqlx.Tx, now time.Time) (err error) {
		apart, err = c.executes.DeclareIn(ctx, tx, now, declarations)
		return err
	})
	if err == nil {
		c.wake()
		c.logDifferences(apart)
	}
	return err
}

// logDifferences says in one line what an operator has changed.
func (c *Client) logDifferences(apart []execute.Difference) {
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
