package qrtz

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz/run"
)

const (
	dataBudget   = 64 << 20         // bytes of large JOB_DATA in memory at once, before they are decoded
	dataReaders  = 2                // runs whose data is read at once
	dataTimeout  = 30 * time.Second // for one read
	dataPatience = time.Minute      // with a database that does not answer
)

// loader reads the data of runs whose data did not come with their claim.
type loader struct {
	read   func(ctx context.Context, r run.Run, most int64) (data []byte, size int64, err error)
	budget *budget
	reads  chan struct{} // holds one for each read under way
	pause  time.Duration // between tries
}

func newLoader(runs *run.Store) *loader {
	return &loader{read: runs.Data, budget: newBudget(dataBudget), reads: make(chan struct{}, dataReaders), pause: time.Second}
}

// load returns the data of a run. It waits, no longer than ctx lasts, until there is room for it in memory; the room is the
// run's until it calls release, which it must do unless there was an error.
func (l *loader) load(ctx context.Context, r run.Run) (data []byte, release func(), err error) {
	if !r.Unread() {
		return r.Data, func() {}, nil
	}
	for most := r.DataSize; ; {
		release, err := l.budget.take(ctx, most)
		if err != nil {
			return nil, nil, fmt.Errorf("the handler was not called, for there was no room yet for the run's JOB_DATA (%d bytes): %w", r.DataSize, err)
		}
		data, size, err := l.readPatiently(ctx, r, most)
		if err == nil && size <= most {
			return data, release, nil
		}
		release()
		if err != nil {
			return nil, nil, fmt.Errorf("the handler was not called, for the run's JOB_DATA (%d bytes) could not be read: %w", r.DataSize, err)
		}
		most = size // it has grown since the run was claimed
	}
}

// readPatiently tries again while the database does not answer, for a while.
func (l *loader) readPatiently(ctx context.Context, r run.Run, most int64) (data []byte, size int64, err error) {
	patience, cancel := context.WithTimeout(ctx, dataPatience)
	defer cancel()
	for {
		data, size, err = l.readOnce(patience, r, most)
		if err == nil || errors.Is(err, run.ErrNoData) {
			return data, size, err
		}
		select {
		case <-time.After(l.pause):
		case <-patience.Done():
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return nil, 0, err
		}
	}
}

func (l *loader) readOnce(ctx context.Context, r run.Run, most int64) ([]byte, int64, error) {
	select {
	case l.reads <- struct{}{}:
		defer func() { <-l.reads }()
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, dataTimeout)
	defer cancel()
	return l.read(ctx, r, most)
}
