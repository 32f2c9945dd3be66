package qrtz

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// Client reads, adds, changes and deletes what is stored: jobs, schedules, runs. A Scheduler is one, whether it runs or not,
// and each of its calls takes effect by itself. Scheduler.In makes one that works in a transaction of yours.
//
// A call that fails changes nothing, except with ErrCommitUnknown: then only the tables can tell.
type Client struct {
	db       *sqlx.DB
	executes *execute.Store
	runs     *run.Store
	session  *atomic.Pointer[session] // of the scheduler, while it runs
	tx       *sqlx.Tx                 // nil: each call has a transaction of its own
	logger   *zerolog.Logger

	scheduler *Scheduler // whose client it is
}

// In returns a Client whose calls take effect if and only if tx commits, at any isolation level. It must be a transaction
// on the scheduler's database. Keep it short if it does more than enqueue: claims of the schedules it changes wait for
// it. Deadlocks and lock wait timeouts (on Galera, and on servers with snapshot isolation, also error 1020) are returned:
// retry your whole transaction. A session whose character_set_client is big5, cp932, gb18030, gbk or sjis is
// refused: in these a quote can hide in a character. charset=utf8mb4 in the DSN is right.
func (s *Scheduler) In(tx *sql.Tx) *Client {
	c := s.Client
	c.tx = &sqlx.Tx{Tx: tx, Mapper: s.db.Mapper}
	return &c
}

// change makes a change in the caller's transaction, or in one of its own.
func (c *Client) change(ctx context.Context, doing string, fn func(tx *sqlx.Tx, now time.Time) error) error {
	timed := func(tx *sqlx.Tx) error {
		now, err := schema.SafeNow(ctx, tx)
		if err != nil {
			return err
		}
		return fn(tx, now)
	}
	var err error
	switch {
	case c.tx == nil:
		err = schema.InTx(ctx, c.pool(), timed)
	case c.tx.Tx == nil:
		err = errNilTx
	default:
		err = schema.InSavepoint(ctx, c.tx, timed)
	}
	return c.failed(doing, err)
}

var errNilTx = errors.New("the *sql.Tx given to Scheduler.In is nil")

// failed says what failed, and what would help if the tables are not there.
func (c *Client) failed(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case schema.NoSuchTable(err):
		return fmt.Errorf("qrtz: %s: %w: are the tables in another database, or named with another Config.Prefix than %q? "+
			"Scheduler.Migrate or `qrtz migrate up` creates them", doing, err, c.scheduler.cfg.Prefix)
	}
	return fmt.Errorf("qrtz: %s: %w", doing, err)
}

// running is the session to be told of a change that has taken effect, if there is one in this process.
func (c *Client) running() (*session, bool) {
	if c.tx != nil {
		return nil, false // not yet
	}
	session := c.session.Load()
	return session, session != nil
}

// pool is where a call gets a connection for its own transaction: while the scheduler runs, from those that nothing else
// can take.
func (c *Client) pool() *sqlx.DB {
	if session, ok := c.running(); ok {
		return session.links.own
	}
	return c.db
}

func (c *Client) wake() {
	if session, ok := c.running(); ok {
		session.poller.Wake()
	}
}

// Pause pauses a schedule of a job, or all of the job's if schedule is empty. What is claimed already still runs, and what
// is not EXECUTING stays as it is.
func (c *Client) Pause(ctx context.Context, job, schedule string) error {
	return c.change(ctx, "pause", func(tx *sqlx.Tx, now time.Time) error {
		ids, err := c.executes.ExecutesNamed(ctx, tx, job, schedule)
		if err != nil {
			return err
		}
		_, err = c.executes.Pause(ctx, tx, now, ids...)
		return err
	})
}

// Resume has a schedule of a job, or all of the job's if schedule is empty, fire again from now on, if it is paused or was
// never started. What was due in the pause is passed over.
func (c *Client) Resume(ctx context.Context, job, schedule string) error {
	err := c.change(ctx, "resume", func(tx *sqlx.Tx, now time.Time) error {
		ids, err := c.executes.ExecutesNamed(ctx, tx, job, schedule)
		if err != nil {
			return err
		}
		_, err = c.executes.Resume(ctx, tx, now, ids...)
		return err
	})
	if err == nil {
		c.wake()
	}
	return err
}

// Delete deletes a job and its schedules. What is RUNNING continues, what is PENDING is CANCELLED, and the history stays.
func (c *Client) Delete(ctx context.Context, job string) error {
	return c.change(ctx, "delete", func(tx *sqlx.Tx, now time.Time) error {
		id, err := c.executes.JobNamed(ctx, tx, job)
		if err != nil {
			return err
		}
		return c.executes.DeleteJob(ctx, tx, now, id)
	})
}

// Cancel cancels a run, given the id of any of its attempts: that which Enqueue returned will do, however often the run has
// been tried again since. An attempt that is PENDING ends as CANCELLED. The context of one that is RUNNING ends with
// ErrCancelled: at once if it runs in this process, within a second elsewhere. No further attempt follows. ErrNotFound says that no
// attempt of the run is on record, ErrWrongState that none is PENDING or RUNNING.
//
// While no row of an attempt is on record (HistoryNone, HistoryFailed), its id is not known; that of the first always is.
func (c *Client) Cancel(ctx context.Context, runID int64) error {
	var ids []int64
	err := c.change(ctx, "cancel", func(tx *sqlx.Tx, now time.Time) (err error) {
		ids, err = c.runs.Cancel(ctx, tx, now, runID)
		return err
	})
	if session, ok := c.running(); ok && err == nil {
		for _, id := range ids {
			session.active.cancel(id)
		}
	}
	return err
}

// Retry has a run tried again now whose latest attempt FAILED, was LOST or CANCELLED. The run is given by the id of any of its
// attempts, as with Cancel. It returns the id of the new attempt; the old ids are as good. ErrNotFound and ErrWrongState say why it
// cannot be.
func (c *Client) Retry(ctx context.Context, runID int64) (newID int64, err error) {
	err = c.change(ctx, "retry", func(tx *sqlx.Tx, now time.Time) error {
		newID, err = c.runs.Retry(ctx, tx, now, runID)
		return err
	})
	if err == nil {
		c.enqueued(newID)
	}
	return newID, err
}
