package qrtz_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

var errPaper = errors.New("no paper")

// failing starts a node whose handler "fail" does what fail says, declares a job of it that fires once, and waits until
// no run of it is left.
func failing(t *testing.T, o qrtz.Options, fail func(ctx context.Context, run *qrtz.Run) error) *cluster {
	t.Helper()
	c := newCluster(t)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "fail", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			c.record(run)
			return fail(ctx, run)
		})
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "fail", Options: o, Schedules: []qrtz.Schedule{qrtz.At(time.Now())}}))
	n := c.start(s)
	c.eventually("every attempt has ended", 15*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE NOT IN ('PENDING', 'RUNNING')`) > 0 &&
			c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('PENDING', 'RUNNING')`) == 0
	})
	n.halt()
	return c
}

func TestAFailedFireIsTriedAgain(t *testing.T) {
	o := qrtz.Options{Attempts: 3, Backoff: 200 * time.Millisecond}
	c := failing(t, o, func(context.Context, *qrtz.Run) error { return errPaper })
	fires := c.fires()
	require.Len(t, fires, 3)
	for i, f := range fires {
		require.Equal(t, i+1, f.Attempt)
		require.Equal(t, fires[0].FireTime, f.FireTime)
		require.Zero(t, f.RecoveryOf)
		if i > 0 {
			require.Greater(t, f.Fence, fires[i-1].Fence)
		}
	}
	require.Equal(t, 3, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'FAILED' AND MESSAGE = 'no paper'`), "what is exhausted stays FAILED")
	pause := func(attempt int) int { // between the end of an attempt and when the next one may begin
		return c.count(`SELECT B.AVAILABLE_AT - A.FINISHED_AT FROM QRTZ_RUN A JOIN QRTZ_RUN B ON B.ATTEMPT = A.ATTEMPT + 1 WHERE A.ATTEMPT = ?`, attempt)
	}
	require.InDelta(t, 200, pause(1), 42)
	require.InDelta(t, 400, pause(2), 82)
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STARTED_AT < AVAILABLE_AT`))
}

func TestAFireThatSucceedsInTheEnd(t *testing.T) {
	c := failing(t, qrtz.Options{Attempts: 5, Backoff: 10 * time.Millisecond, History: qrtz.HistoryFailed}, func(_ context.Context, run *qrtz.Run) error {
		if run.Attempt < 2 {
			return errPaper
		}
		return nil
	})
	require.Equal(t, []int{1, 0}, []int{c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ATTEMPT = 1`), c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ATTEMPT > 1`)})
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Len(t, c.started, 2)
	c.started = c.started[:1] // the row of the second is gone, as it should be
}

func TestNoRetryAndRetryAfter(t *testing.T) {
	o := qrtz.Options{Attempts: 3, Backoff: time.Hour}
	for want, err := range map[string]error{
		"no paper":         qrtz.NoRetry(errPaper),
		"print: no paper":  fmt.Errorf("print: %w", qrtz.NoRetry(errPaper)),
		"no paper\njammed": errors.Join(qrtz.NoRetry(errPaper), errors.New("jammed")),
	} {
		c := failing(t, o, func(context.Context, *qrtz.Run) error { return err })
		require.Len(t, c.fires(), 1)
		require.Equal(t, want, c.text(`SELECT MESSAGE FROM QRTZ_RUN WHERE STATE = 'FAILED'`))
		require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`), "no further attempt")
	}

	c := failing(t, o, func(context.Context, *qrtz.Run) error { return qrtz.RetryAfter(errPaper, 300*time.Millisecond) })
	require.Len(t, c.fires(), 3, "it adds no attempts")
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN A JOIN QRTZ_RUN B ON B.ATTEMPT = A.ATTEMPT + 1 AND B.AVAILABLE_AT - A.FINISHED_AT BETWEEN 299 AND 301`))
}

func TestARunThatTakesTooLong(t *testing.T) {
	causes := make(chan error, 2)
	o := qrtz.Options{Timeout: 300 * time.Millisecond, Attempts: 2, Backoff: 100 * time.Millisecond}
	c := failing(t, o, func(ctx context.Context, _ *qrtz.Run) error {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	require.Len(t, c.fires(), 2, "it is tried again")
	require.ErrorIs(t, <-causes, qrtz.ErrTimedOut)
	require.ErrorIs(t, <-causes, qrtz.ErrTimedOut)
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'FAILED' AND MESSAGE LIKE 'timed out after 300ms: %'
		AND FINISHED_AT - STARTED_AT BETWEEN 300 AND 3000`))
}

// A handler that does not look at its context takes as long as it takes; what it returns counts.
func TestARunThatIgnoresItsTimeout(t *testing.T) {
	for want, err := range map[string]error{"SUCCEEDED": nil, "FAILED": errPaper} {
		c := failing(t, qrtz.Options{Timeout: 100 * time.Millisecond}, func(context.Context, *qrtz.Run) error {
			<-time.After(400 * time.Millisecond)
			return err
		})
		require.Equal(t, want, c.text(`SELECT STATE FROM QRTZ_RUN WHERE FINISHED_AT - STARTED_AT >= 400`))
	}
}
