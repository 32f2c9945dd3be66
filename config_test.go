package qrtz_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for want, cfg := range map[string]qrtz.Config{
		`Config.App is empty`:                                       {},
		`MisfireAfter (3s) must exceed PollInterval (5s)`:           {App: "a", MisfireAfter: 3 * time.Second},
		`NodeTimeout (6s) must be at least twice PollInterval (5s)`: {App: "a", NodeTimeout: 6 * time.Second},
		`table prefix "QRTZ;"`:                                      {App: "a", Prefix: "QRTZ;"},
		`Workers (-1) must be at least 1`:                           {App: "a", Workers: -1},
		`Limits["mail"] (0) must be at least 1`:                     {App: "a", Limits: map[string]int{"mail": 0}},
		`Limits["mail"] (-3) must be at least 1`:                    {App: "a", Limits: map[string]int{"mail": -3}},
		`Reserved (64) must be below Workers (64)`:                  {App: "a", Reserved: 64},
		`Limits[""]: want the name of a class`:                      {App: "a", Limits: map[string]int{"": 1}},
		`Config.App "a " begins or ends with a blank`:               {App: "a "},
		`the *sql.DB is nil`:                                        {App: "a"},
	} {
		_, err := qrtz.Open(nil, cfg)
		require.ErrorContains(t, err, "qrtz: ")
		require.ErrorContains(t, err, want)
	}
}

// A schedule fires every 200 ms beside twice as many runs of two seconds as there are workers. Without a share (Reserved: -1), a
// quarter of its fires, or more, wait for more than a second.
func TestSlowRunsLeaveAWorkerToAFastSchedule(t *testing.T) {
	c := newCluster(t)
	cfg := patient("n1")
	cfg.Workers = 8
	n := c.start(c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "slow", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
			return nil
		})
	}))
	every := qrtz.Every(200 * time.Millisecond)
	every.Count = 20
	require.NoError(t, n.Declare(t.Context(), qrtz.Job{Name: "slow"}))
	for range 16 {
		_, err := n.Enqueue(t.Context(), "slow", nil)
		require.NoError(t, err)
	}
	c.eventually("the workers are busy", 10*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`) >= 7 })
	require.NoError(t, n.Declare(t.Context(), qrtz.Job{Name: "tick", Schedules: []qrtz.Schedule{every}}))
	c.ran(20, 15*time.Second, all)
	inTime := 0
	for _, f := range c.fires() {
		if f.StartedAt.Sub(f.FireTime) < time.Second {
			inTime++
		}
	}
	require.Equal(t, 20, inTime)
}

func TestConfigLimitsWhatAClassTakesOfThisNode(t *testing.T) {
	c := newCluster(t)
	var going, most atomic.Int32
	var log bytes.Buffer
	cfg := patient("n1")
	cfg.Limits = map[string]int{"slow": 3, "mial": 1}
	logger := zerolog.New(zerolog.SyncWriter(&log))
	cfg.Logger = &logger
	n := c.start(c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "slow", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
			most.Store(max(most.Load(), going.Add(1)))
			time.Sleep(100 * time.Millisecond)
			going.Add(-1)
			c.record(run)
			return nil
		})
	}))
	job := qrtz.Job{Name: "slow"}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		every := qrtz.Every(time.Hour)
		every.Name = name
		job.Schedules = append(job.Schedules, every)
	}
	require.NoError(t, n.Declare(t.Context(), job))
	for range 6 {
		_, err := n.Enqueue(t.Context(), "slow", nil)
		require.NoError(t, err)
	}
	c.ran(12, 15*time.Second, all)
	n.halt()
	require.EqualValues(t, 3, most.Load())
	require.Contains(t, log.String(), `"class":"mial"`)
}
