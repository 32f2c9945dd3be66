package qrtz

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// maxAsks is how many handlers ask something of the scheduler's own connections at a time, so that claims and results have the others.
const maxAsks = 2

// Save stores how far the run has come, as JSON of at most 65,535 bytes, for whichever attempt is the next: a retry, a recovery, one after
// an interruption, or one that a person asks for. It is on record at once. Save again to replace it; nil deletes it, as does success.
//
// ErrFenced says that the run is no longer this attempt's. A run without a row (HistoryNone) has no room for it.
func (r *Run) Save(ctx context.Context, v any) error {
	return r.save(v, func(s *session, raw []byte) error {
		return s.ask(ctx, func() error { return s.runs.Save(ctx, r.active.run, raw) })
	})
}

// SaveIn is Save in tx, a transaction of the handler's on the scheduler's database: what the handler has written in tx and the checkpoint
// are committed together, or not at all. A run that works in portions does each of them exactly once. Until tx ends, it holds the
// run's row locked. What Run.CompleteIn says of transactions holds for SaveIn.
func (r *Run) SaveIn(ctx context.Context, tx *sql.Tx, v any) error {
	return r.save(v, func(s *session, raw []byte) error {
		if tx == nil {
			return errNoTx
		}
		if r.active.completedIn(tx) {
			return errors.New("CompleteIn has been called in this transaction, in which the run has ended")
		}
		return s.runs.SaveIn(ctx, tx, r.Node, r.active.run, raw)
	})
}

func (r *Run) save(v any, write func(s *session, raw []byte) error) error {
	a := r.active
	err := a.usable()
	if err == nil {
		var raw []byte
		if raw, err = checkpointOf(v); err == nil {
			a.saving(len(raw))
			err = write(a.session, raw)
		}
	}
	if err != nil {
		return fmt.Errorf("qrtz: save the checkpoint of run %d: %w", r.ID, err)
	}
	return nil
}

func checkpointOf(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err == nil && len(raw) > run.MaxCheckpoint {
		err = fmt.Errorf("it has %d bytes; at most %d fit", len(raw), run.MaxCheckpoint)
	}
	return raw, err
}

// Load reads what was saved last, by this attempt or one before it, into what v points to, and tells whether anything was. It asks the
// database only if there is something. ErrFenced says that the run is no longer this attempt's.
func (r *Run) Load(v any) (found bool, err error) {
	a := r.active
	if err = a.usable(); err == nil && a.savedMost() > 0 {
		var raw []byte
		err = a.session.ask(a.ctx, func() error {
			raw, err = a.session.runs.Load(a.ctx, a.run)
			return err
		})
		if found = err == nil && raw != nil; found {
			err = json.Unmarshal(raw, v)
		}
	}
	if err != nil {
		return false, fmt.Errorf("qrtz: load the checkpoint of run %d: %w", r.ID, err)
	}
	return found, nil
}

// LastSuccess is the FireTime of the last run before this one that has SUCCEEDED: of the same schedule or, for a run without a schedule,
// of the job's runs without one. It is the zero time if none is on record (which the driver sends as '0000-00-00' if it becomes a parameter: MySQL refuses
// that); History, KeepFor and KeepRuns of the job say what is. A job
// that works on what has come in since its last success begins there:
//
//	since, err := run.LastSuccess(ctx) // until run.FireTime
//
// It looks at no more than the 100,000 runs before this one, and returns an error if all of these have failed.
func (r *Run) LastSuccess(ctx context.Context) (at time.Time, err error) {
	a := r.active
	if err = a.usable(); err == nil || errors.Is(err, errNoRow) && r.ScheduleID != 0 {
		err = a.session.ask(ctx, func() error {
			if err = a.session.results.WriteOf(ctx, a.run.JobID); err != nil {
				return err
			}
			at, err = a.session.runs.LastSuccess(ctx, a.run)
			return err
		})
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("qrtz: look for the last success before run %d: %w", r.ID, err)
	}
	if at.IsZero() {
		return at, nil
	}
	return at.In(r.FireTime.Location()), nil
}

// saving notes that a checkpoint may have been written.
func (a *active) saving(bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.saved = max(a.saved, int64(bytes))
}

// savedMost is how many bytes the checkpoint has at the most; 0 if there is none.
func (a *active) savedMost() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.saved
}

// ask has a handler use a connection of the scheduler's own.
func (s *session) ask(ctx context.Context, fn func() error) error {
	select {
	case s.asks <- struct{}{}:
		defer func() { <-s.asks }()
		return fn()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
