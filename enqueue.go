package qrtz

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/run"
)

// Request is a run that EnqueueMany is asked for, as Enqueue takes it.
type Request struct {
	Job     string // its name
	Data    any    // nil stands for the job's
	Options []EnqueueOption
}

// Enqueued is what EnqueueMany has made of a Request.
type Enqueued struct {
	// RunID is the run's id in QRTZ_RUN, or that of the run which has the key.
	RunID int64

	// Taken says that another run has the key: nothing was enqueued, as when Enqueue returns ErrKeyTaken.
	Taken bool
}

// EnqueueOption is what one run has of its own. Where it says nothing, its job's options hold.
type EnqueueOption func(*enqueueing)

// enqueueing is a run as its options make it.
type enqueueing struct {
	run.New
	problem error
}

// StartAt has the run start at a time, which is its FireTime, to the millisecond. The default is now. The zero time, and one before
// 1973 or after 9999, is an error.
func StartAt(t time.Time) EnqueueOption {
	return func(r *enqueueing) {
		if r.At = t; t.IsZero() { // which must not be taken for now
			r.problem = errors.New("StartAt: the zero time is no time; without StartAt the run starts now")
		}
	}
}

// WithKey gives the run a key, of which a job has one run at a time: while it is PENDING or RUNNING, over all its attempts, Enqueue
// with the same key and job adds nothing and returns that run's id, and ErrKeyTaken. The key is free when the run has ended,
// however it ends. A unique index decides, for all programs and nodes.
//
// Keys are compared byte by byte. A key is UTF-8, of 1 to 190 bytes, without a blank at its end.
func WithKey(key string) EnqueueOption {
	return func(r *enqueueing) { r.keyed(key, false) }
}

// Once is WithKey for a run that must not be enqueued again after it has ended either: the key stays taken for as long as the run
// is on record, as KeepFor and KeepRuns of its job say; History does not apply to it. That makes a repeat safe
// after ErrCommitUnknown, or after a crash of the caller. Keys of WithKey and of Once are the same keys.
func Once(key string) EnqueueOption {
	return func(r *enqueueing) { r.keyed(key, true) }
}

func (r *enqueueing) keyed(key string, once bool) {
	if r.Keyed {
		r.problem = fmt.Errorf("two keys, %q and %q: a run has one, of WithKey or of Once", r.Key, key)
	}
	r.Key, r.Once, r.Keyed = key, once, true
}

// WithAttempts is how often the run is tried at most when it fails, from 1, or Unlimited, in place of Options.Attempts.
func WithAttempts(n int) EnqueueOption {
	if n == Unlimited {
		n = math.MaxInt32
	}
	return func(r *enqueueing) { r.Attempts = &n }
}

// WithTimeout is how long an attempt may take, in whole milliseconds, in place of Options.Timeout. Forever, or 0, is no limit.
func WithTimeout(d time.Duration) EnqueueOption {
	if d == Forever {
		d = 0
	}
	return func(r *enqueueing) { r.Timeout = &d }
}

// WithPriority is the run's priority, in place of Options.Priority.
func WithPriority(p Priority) EnqueueOption { return func(r *enqueueing) { r.Priority = &p } }

// Enqueue has a declared job run once, as soon as a node is free, whether or not its schedules are paused. Data that is
// not nil replaces the job's for this run, as JSON. It returns the run's id in QRTZ_RUN, which names the run in Cancel and Retry
// through all its attempts.
//
// It returns ErrNotFound for an unknown job, and ErrKeyTaken, together with the id of the run that has it, if the key is taken.
// After ErrCommitUnknown the run may be there or not: repeat the call if it had a key (WithKey, Once).
func (c *Client) Enqueue(ctx context.Context, job string, data any, options ...EnqueueOption) (runID int64, err error) {
	n, err := newRunOf(data, options)
	if err != nil {
		return 0, fmt.Errorf("qrtz: enqueue %q: %w", job, err)
	}
	var added run.Added
	if c.tx != nil {
		added, err = c.enqueueInTx(ctx, job, n)
	} else {
		added, err = c.enqueueAlone(ctx, job, n)
	}
	switch {
	case err != nil:
		return 0, err
	case added.Taken:
		return added.ID, fmt.Errorf("qrtz: enqueue %q: %w: run %d has %q", job, ErrKeyTaken, added.ID, n.Key)
	}
	c.enqueued(added.ID)
	c.hintEnqueued(ctx, job)
	return added.ID, nil
}

// EnqueueMany enqueues many runs at once, all or none, by one statement for each thousand, and says in the same order what
// became of each. A key that is taken, by an earlier one of the requests perhaps, is no error. Otherwise it is as Enqueue.
func (c *Client) EnqueueMany(ctx context.Context, requests []Request) ([]Enqueued, error) {
	runs := make([]run.New, len(requests))
	for i, r := range requests {
		var err error
		if runs[i], err = newRunOf(r.Data, r.Options); err != nil {
			return nil, fmt.Errorf("qrtz: enqueue %q, number %d: %w", r.Job, i, err)
		}
	}
	if len(runs) == 0 {
		return nil, nil
	}
	var all []run.Added
	jobs := map[string]int64{}
	err := c.change(ctx, "enqueue", func(tx *sqlx.Tx, now time.Time) (err error) {
		clear(jobs)
		for i, r := range requests {
			id, known := jobs[r.Job]
			if !known {
				if id, err = c.executes.JobNamed(ctx, tx, r.Job); err != nil {
					return err
				}
				jobs[r.Job] = id
			}
			runs[i].JobID = id
		}
		all, err = c.runs.Enqueue(ctx, tx, now, runs...)
		return err
	})
	if err != nil {
		return nil, err
	}
	enqueued, ids := make([]Enqueued, len(all)), make([]int64, 0, len(all))
	for i, a := range all {
		enqueued[i] = Enqueued{RunID: a.ID, Taken: a.Taken}
		if !a.Taken {
			ids = append(ids, a.ID)
		}
	}
	c.enqueued(ids...)
	c.hintEnqueued(ctx, slices.Collect(maps.Keys(jobs))...)
	return enqueued, nil
}

// newRunOf is a run as options say.
func newRunOf(data any, options []EnqueueOption) (n run.New, err error) {
	if data != nil {
		if n.Data, err = json.Marshal(data); err != nil {
			return n, fmt.Errorf("data: %w", err)
		}
	}
	e := enqueueing{New: n}
	for i, option := range options {
		if option == nil {
			return n, fmt.Errorf("option %d is nil", i)
		}
		option(&e)
	}
	return e.New, errors.Join(e.problem, e.Validate())
}

func (c *Client) enqueueInTx(ctx context.Context, job string, n run.New) (added run.Added, err error) {
	err = c.change(ctx, "enqueue", func(tx *sqlx.Tx, now time.Time) error {
		if n.JobID, err = c.executes.JobNamed(ctx, tx, job); err != nil {
			return err
		}
		all, err := c.runs.Enqueue(ctx, tx, now, n)
		if err == nil {
			added = all[0]
		}
		return err
	})
	return added, err
}

// enqueueAlone enqueues without a transaction. If there is no such job, one says which there are.
func (c *Client) enqueueAlone(ctx context.Context, job string, n run.New) (added run.Added, err error) {
	added, err = c.runs.EnqueueAlone(ctx, c.pool(), job, n)
	if errors.Is(err, sql.ErrNoRows) {
		return c.enqueueInTx(ctx, job, n)
	}
	return added, c.failed("enqueue", err)
}
