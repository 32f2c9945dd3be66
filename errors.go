package qrtz

import (
	"errors"
	"time"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// What a Client reports of what it was asked for.
var (
	// ErrNotFound: the app has no such job, schedule, run or node.
	ErrNotFound = run.ErrNotFound

	// ErrWrongState is returned by Cancel for a run that has ended, and by Retry for one whose latest attempt is not FAILED, LOST or
	// CANCELLED.
	ErrWrongState = run.ErrWrongState

	// ErrKeyTaken is returned by Enqueue, with the id of the run that has the key (WithKey, Once), and by Retry if another run of
	// the job has it by now.
	ErrKeyTaken = run.ErrKeyTaken

	// ErrUnhandled is returned by Wait for a run that no live node can carry out, and says why.
	ErrUnhandled = errors.New("no live node can carry out the run")

	// ErrCommitUnknown: the connection broke while the change was being committed. Either all of it was made or nothing,
	// and which of the two only the tables can tell. A Client that works in your transaction (Scheduler.In) never returns
	// it: there your own Commit does.
	//
	// Declare, Retire, Schedule, Pause, Resume, the switches and Cancel can simply be called again: what is so already stays as it is,
	// and ErrWrongState of the second Cancel says that the run has ended. Delete and Unschedule may then return ErrNotFound, and
	// Retry ErrWrongState, because the first call took effect. Enqueue, called again, may make a second run, unless it was given a key: with Once the second call
	// finds the first run even if that has ended meanwhile, and returns its id and ErrKeyTaken.
	ErrCommitUnknown = schema.ErrCommitUnknown
)

// The causes with which the context of a run ends before its handler has returned: see context.Cause.
var (
	// ErrFenced: this process can no longer hold the run. Its heartbeats have not reached the database, or its node id
	// has gone to another process. Others may recover the run; its result does not count.
	ErrFenced = node.ErrFenced

	// ErrDrained: Scheduler.Run was told to stop and has waited Config.DrainTimeout for the run. A handler that returns an
	// error now has not failed: its run is LOST, and handed on to another node at once if its job has Recovery or more than one of
	// Attempts. NoRetry makes it FAILED all the same.
	ErrDrained = errors.New("the scheduler has stopped, and the run did not end within DrainTimeout")

	// ErrTimedOut: the run has taken as long as Options.Timeout of its job allows, or its own WithTimeout.
	ErrTimedOut = errors.New("the run has taken longer than its job's timeout")

	// ErrCancelled: a person or a program asked for the run to be cancelled.
	ErrCancelled = errors.New("the run was cancelled on request")
)

// NoRetry wraps an error that a further attempt would not cure: the run is FAILED, whatever attempts its job has left.
func NoRetry(err error) error {
	if err == nil {
		return nil
	}
	return &noRetryError{err}
}

type noRetryError struct{ error }

func (e *noRetryError) Unwrap() error { return e.error }

// RetryAfter wraps an error to have the next attempt made after a time of the handler's choosing, in place of the job's
// backoff. It does not add attempts.
func RetryAfter(err error, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, after}
}

type retryAfterError struct {
	error
	after time.Duration
}

func (e *retryAfterError) Unwrap() error { return e.error }
