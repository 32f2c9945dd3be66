package qrtz_test

import (
	"context"
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
