package qrtz_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

func TestCancelledBySQL(t *testing.T) {
	c := newCluster(t)
	causes := make(chan error, 1)
	s := c.open(quick("n1"), c.waits(causes))
	c.node("n2") // has no part in it
	job := qrtz.Job{Name: "waits", Options: qrtz.Options{Attempts: 3, Backoff: 10 * time.Millisecond}, Schedules: []qrtz.Schedule{qrtz.At(time.Now())}}
	require.NoError(t, s.Declare(t.Context(), job))
	c.start(s)
	c.ran(1, 5*time.Second, all)
	c.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1`)
	asked := time.Now()
	require.ErrorIs(t, arrives(t, causes, 5*time.Second), qrtz.ErrCancelled)
	require.Less(t, time.Since(asked), within)
	c.eventually("it is on record", 2*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_RUN WHERE ATTEMPT = 1`) == "CANCELLED" })
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE FINISHED_AT IS NOT NULL`), "and not tried again")
}

// A request to cancel is read though the run has had nothing to say for long.
func TestAQuietRunIsCancelledBySQL(t *testing.T) {
	c := newCluster(t)
	causes := make(chan error, 1)
	s := c.open(quick("n1"), c.waits(causes))
	once(t, s, "waits", nil)
	c.start(s)
	c.eventually("what there was to say is written", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND STARTED_AT IS NOT NULL`) == 1
	})
	c.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1`)
	require.ErrorIs(t, arrives(t, causes, 5*time.Second), qrtz.ErrCancelled)
}

// A run that has done its work when it is told of its cancel has succeeded.
func TestACancelledRunThatReturnsNilHasSucceeded(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "waits", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			c.record(run)
			<-ctx.Done()
			return nil
		})
	})
	once(t, s, "waits", nil)
	c.start(s)
	c.ran(1, 5*time.Second, all)
	c.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1`)
	c.eventually("it has ended", 5*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE FINISHED_AT IS NOT NULL`) == 1 })
	require.Equal(t, "SUCCEEDED", c.text(`SELECT STATE FROM QRTZ_RUN`))
}

// A run with a timeout is cancelled like any other, with the cause of its end.
func TestARunWithATimeoutIsCancelledForOtherReasonsToo(t *testing.T) {
	for name, want := range map[string]error{"on request": qrtz.ErrCancelled, "by the drain": qrtz.ErrDrained, "by the fence": qrtz.ErrFenced} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			causes := make(chan error, 1)
			cfg := quick("n1")
			cfg.DrainTimeout = 100 * time.Millisecond
			s := c.open(cfg, c.waits(causes))
			job := qrtz.Job{Name: "waits", Options: qrtz.Options{Timeout: time.Hour}, Schedules: []qrtz.Schedule{qrtz.At(time.Now())}}
			require.NoError(t, s.Declare(t.Context(), job))
			n := c.start(s)
			c.ran(1, 5*time.Second, all)
			switch {
			case errors.Is(want, qrtz.ErrCancelled):
				c.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1`)
			case errors.Is(want, qrtz.ErrFenced):
				c.exec(`UPDATE QRTZ_NODE SET INSTANCE = INSTANCE + 1000000`)
			default:
				n.halt()
			}
			require.ErrorIs(t, arrives(t, causes, 10*time.Second), want)
			if errors.Is(want, qrtz.ErrCancelled) {
				c.eventually("its state says so", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_RUN`) == "CANCELLED" })
			}
		})
	}
}

func TestAPendingRunIsCancelledBySQL(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "tick"}))
	c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, CANCEL_AT) SELECT APPLICATION, ID, 1 FROM QRTZ_JOB`)
	c.start(s)
	c.eventually("it is on record", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_RUN`) == "CANCELLED" })
	require.Empty(t, c.fires())
}

func TestProgressIsInTheRowWhileItRuns(t *testing.T) {
	c := newCluster(t)
	step := make(chan struct{})
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "steps", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
			run.Progress(30)
			run.Message("a third")
			<-step
			run.Progress(170)
			run.Message("all of it")
			<-step
			run.Message("printed 7 pages")
			return nil
		})
	})
	once(t, s, "steps", nil)
	c.start(s)
	row := func(state, progress, message string) func() bool {
		return func() bool {
			return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = ? AND PROGRESS = ? AND MESSAGE = ? AND STARTED_AT IS NOT NULL`, state, progress, message) == 1
		}
	}
	c.eventually("first step", 5*time.Second, row("RUNNING", "30", "a third"))
	step <- struct{}{}
	c.eventually("second step", within, row("RUNNING", "100", "all of it"))
	step <- struct{}{}
	c.eventually("the last message stays", within, row("SUCCEEDED", "100", "printed 7 pages"))
}

// A fire that was claimed some time before it is due has its data, whatever becomes of the job meanwhile.
func TestAHeldFireHasItsDataWhenItsJobIsDeleted(t *testing.T) {
	got := make(chan int, 1)
	c := newCluster(t)
	n := c.start(c.open(patient("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "first", func(context.Context, *qrtz.Run, struct{}) error { return nil })
		qrtz.Handle(s, "held", func(_ context.Context, _ *qrtz.Run, data struct{ X string }) error {
			got <- len(data.X)
			return nil
		})
	}))
	at := time.Now().Add(3 * time.Second).Truncate(time.Second)
	require.NoError(t, n.Declare(t.Context(),
		qrtz.Job{Name: "first", Class: "first", Schedules: []qrtz.Schedule{qrtz.At(at)}},
		qrtz.Job{Name: "held", Class: "held", Data: map[string]string{"X": strings.Repeat("x", 5000)}, Schedules: []qrtz.Schedule{qrtz.At(at.Add(900 * time.Millisecond))}}))
	c.eventually("claimed", 8*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.JOB_CLASS = 'held' AND R.STATE = 'RUNNING'`) == 1
	})
	c.exec(`DELETE FROM QRTZ_EXECUTE WHERE PID IN (SELECT ID FROM QRTZ_JOB WHERE JOB_CLASS = 'held')`)
	c.exec(`DELETE FROM QRTZ_JOB WHERE JOB_CLASS = 'held'`)
	select {
	case n := <-got:
		require.Equal(t, 5000, n)
	case <-time.After(6 * time.Second):
		require.Fail(t, "the handler has not been called")
	}
}
