package qrtz_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// Data that is large is in memory only while its handler goes, and only so much of it at once.
func TestLargeDataIsReadWhenItsHandlerStarts(t *testing.T) {
	c := newCluster(t)
	cfg := patient("n1")
	cfg.Workers = 16
	const size = 15 << 20
	var going, most, wrong atomic.Int64
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "large", func(_ context.Context, run *qrtz.Run, data string) error {
			if len(data) != size && len(data) != 100<<10 {
				wrong.Add(1)
			}
			if len(data) == size {
				now := going.Add(1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				time.Sleep(500 * time.Millisecond)
				going.Add(-1)
			}
			return nil
		})
	})
	job, err := c.exec(`INSERT INTO QRTZ_JOB (APPLICATION, STATE, JOB_CLASS, JOB_DATA) VALUES ('test', 'EXECUTING', 'large', CONCAT('"', REPEAT('x', ?), '"'))`,
		size).LastInsertId()
	require.NoError(t, err)
	for range 12 {
		c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID) VALUES ('test', ?)`, job)
	}
	c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, JOB_DATA) VALUES ('test', ?, CONCAT('"', REPEAT('x', ?), '"'))`, job, 100<<10)
	c.start(s)
	c.eventually("all have run", 30*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`) == 13 })
	require.LessOrEqual(t, most.Load(), int64(4), "64 MiB at once")
	require.Zero(t, wrong.Load())
}

// Data of a run without a row is its job's.
func TestLargeDataOfARunWithoutARow(t *testing.T) {
	c := newCluster(t)
	got := make(chan int, 1)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "large", func(_ context.Context, _ *qrtz.Run, data string) error { got <- len(data); return nil })
	})
	data := ""
	for len(data) < 100<<10 {
		data += "0123456789abcdef"
	}
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{
		Name: "large", Class: "large", Data: data, Options: qrtz.Options{History: qrtz.HistoryNone}, Schedules: []qrtz.Schedule{qrtz.At(time.Now())},
	}))
	c.start(s)
	require.Equal(t, len(data), <-got)
}

// A fire time is in the zone of its schedule, however the run came to its handler: the day that it formats to must not depend
// on the machine, nor change from fire to fire.
func TestFireTimesAreInTheZoneOfTheirSchedule(t *testing.T) {
	c := newCluster(t)
	var w witness
	cfg := patient("n1")
	cfg.Hooks = w.hooks()
	runs := make(chan *qrtz.Run, 100)
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		for _, class := range []string{"zoned", "utc"} {
			qrtz.Handle(s, class, func(_ context.Context, run *qrtz.Run, _ struct{}) error {
				runs <- run
				if run.Attempt == 1 {
					return qrtz.RetryAfter(errors.New("again"), 0)
				}
				return nil
			})
		}
	})
	tokyo := qrtz.Cron("* * * * * ?", "Asia/Tokyo")
	tokyo.Name, tokyo.Count = "tokyo", 3
	rate := qrtz.Every(time.Second)
	rate.Name, rate.Count = "rate", 3
	missed := tokyo
	missed.Name, missed.Start, missed.Count = "missed", time.Now().Add(-24*time.Hour), 0
	missed.End = missed.Start.Add(time.Hour)
	require.NoError(t, s.Declare(t.Context(),
		qrtz.Job{Name: "zoned", Schedules: []qrtz.Schedule{tokyo, missed}, Options: qrtz.Options{Attempts: 2}},
		qrtz.Job{Name: "utc", Schedules: []qrtz.Schedule{rate}, Options: qrtz.Options{Attempts: 2}}))
	c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME) SELECT 'test', PID, ID, 1700000000000 FROM QRTZ_EXECUTE WHERE NAME = 'missed'`)
	_, err := s.Enqueue(t.Context(), "zoned", nil)
	require.NoError(t, err)
	c.start(s)
	zones := map[string]string{"tokyo": "Asia/Tokyo", "missed": "Asia/Tokyo", "rate": "UTC", "": "UTC"}
	for range 2 * (3 + 1 + 3 + 1) { // tokyo, what was missed, rate, what was enqueued
		run := arrives(t, runs, 10*time.Second)
		require.Equal(t, zones[run.Schedule], run.FireTime.Location().String(), run.Schedule)
		require.Equal(t, run.Class, run.Job)
		require.Equal(t, time.UTC, run.StartedAt.Location())
	}
	for _, kind := range []string{"claimed", "started", "finished"} {
		c.eventually(kind, 10*time.Second, func() bool { return len(w.of(kind, "zoned")) == 10 })
		for _, e := range w.of(kind, "zoned") {
			require.Equal(t, zones[e.Schedule], e.FireTime.Location().String(), e.Schedule)
		}
	}
}
