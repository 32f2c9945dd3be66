package qrtz_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

func TestOptionsOfASchedule(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	start, end := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	row := func(schedule qrtz.Schedule) string {
		job := qrtz.Job{Name: "report", Schedules: []qrtz.Schedule{schedule}, Reset: true}
		require.NoError(t, s.Declare(t.Context(), job))
		return c.text(`SELECT CONCAT_WS(' ', NAME, MISFIRE, CATCH_UP_LIMIT, START_TIME DIV 1000, END_TIME DIV 1000, REPEAT_COUNT, JOB_DATA) FROM QRTZ_EXECUTE WHERE NAME = ?`, schedule.Name)
	}
	nightly := qrtz.Cron("0 0 2 * * ?", "Europe/Berlin", qrtz.Named("nightly"), qrtz.OnMisfire(qrtz.Skip),
		qrtz.Starting(start), qrtz.Ending(end), qrtz.Times(3), qrtz.WithData([]int{1}))
	require.Equal(t, "nightly SKIP 100 1893456000 1924992000 3 [1]", row(nightly))
	nightly.Data, nightly.Count = nil, qrtz.Unlimited
	require.Equal(t, "nightly SKIP 100 1893456000 1924992000 -1", row(nightly))
	require.Equal(t, "often CATCH_UP 7 1893456000 0 -1", row(qrtz.Every(time.Hour, qrtz.Named("often"), qrtz.CatchingUp(7), qrtz.Starting(start))))
	require.Equal(t, "once FIRE_ONCE 100 1893456000 0 1", row(qrtz.At(start, qrtz.Named("once"))))
	require.Equal(t, "aligned FIRE_ONCE 100 0 0 -1", row(qrtz.Every(time.Hour, qrtz.Named("aligned"), qrtz.Starting(time.Unix(0, 0)))))
}

func TestWhatZeroCannotSay(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	row := func(o qrtz.Options) string {
		require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "report", Options: o}))
		return c.text(`SELECT CONCAT_WS(' ', KEEP_FOR, KEEP_RUNS, RUN_TIMEOUT, BACKOFF, MAX_BACKOFF, ATTEMPTS, QUEUE_LIMIT) FROM QRTZ_JOB`)
	}
	const month, hour = "2592000000", "3600000"
	require.Equal(t, month+" 0 0 10000 "+hour+" 1 10", row(qrtz.Options{}))
	require.Equal(t, "0 0 0 0 "+hour+" 2147483647 2147483647", row(qrtz.Options{
		KeepFor: qrtz.Forever, KeepRuns: qrtz.Unlimited, Timeout: qrtz.Forever, Backoff: qrtz.NoBackoff, Attempts: qrtz.Unlimited, QueueLimit: qrtz.Unlimited,
	}))
}

func TestTheDataOfASchedule(t *testing.T) {
	c := newCluster(t)
	type got struct {
		Schedule, Data string
		Attempt        int
	}
	all := make(chan got, 10)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "print", func(_ context.Context, run *qrtz.Run, data string) error {
			all <- got{run.Schedule, data, run.Attempt}
			if run.Attempt == 1 && run.Schedule == "own" {
				return errors.New("again")
			}
			return nil
		})
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{
		Name: "print", Data: "the job's",
		Schedules: []qrtz.Schedule{
			qrtz.At(time.Now(), qrtz.Named("own"), qrtz.WithData("the schedule's")),
			qrtz.At(time.Now(), qrtz.Named("none")),
		},
		Options: qrtz.Options{Attempts: 2, Backoff: qrtz.NoBackoff},
	}))
	_, err := s.Enqueue(t.Context(), "print", "the run's")
	require.NoError(t, err)
	_, err = s.Enqueue(t.Context(), "print", nil)
	require.NoError(t, err)
	n := c.start(s)
	var seen []got
	for range 5 {
		seen = append(seen, <-all)
	}
	n.halt()
	require.ElementsMatch(t, []got{
		{"own", "the schedule's", 1}, {"own", "the schedule's", 2}, {"none", "the job's", 1}, {"", "the run's", 1}, {"", "the job's", 1},
	}, seen)
}
