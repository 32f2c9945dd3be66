package qrtz_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// witness notes what hooks are told.
type witness struct {
	mu   sync.Mutex
	told map[string][]qrtz.Event
}

func (w *witness) hooks() qrtz.Hooks {
	w.told = map[string][]qrtz.Event{}
	note := func(kind string) func(qrtz.Event) {
		return func(e qrtz.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told[kind] = append(w.told[kind], e)
		}
	}
	return qrtz.Hooks{Claimed: note("claimed"), Started: note("started"), Finished: note("finished"), Skipped: note("skipped"), Lost: note("lost")}
}

func (w *witness) of(kind, class string) []qrtz.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.told[kind]), func(e qrtz.Event) bool { return e.Class != class })
}

func TestHooksAreToldWhatHappens(t *testing.T) {
	c := newCluster(t)
	var w witness
	cfg := quick("n1")
	cfg.Hooks = w.hooks()
	release := make(chan struct{})
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "fails", func(context.Context, *qrtz.Run, struct{}) error { return errors.New("no paper") })
		qrtz.Handle(s, "long", func(context.Context, *qrtz.Run, struct{}) error { <-release; return nil })
	})
	missed := qrtz.Every(time.Second)
	missed.Name = "each second"
	missed.Start, missed.End, missed.Misfire = time.Now().Add(-10*time.Second), time.Now(), qrtz.Skip
	overlapping := qrtz.Every(500 * time.Millisecond)
	overlapping.Count = 3
	require.NoError(t, s.Declare(t.Context(),
		qrtz.Job{Name: "fails", Options: qrtz.Options{Attempts: 2, Backoff: 100 * time.Millisecond}},
		qrtz.Job{Name: "missed", Class: "tick", Schedules: []qrtz.Schedule{missed}},
		qrtz.Job{Name: "long", Schedules: []qrtz.Schedule{overlapping}, Options: qrtz.Options{Overlap: qrtz.OverlapSkip}},
		qrtz.Job{Name: "lost"}))
	lost := c.count(`SELECT ID FROM QRTZ_JOB WHERE NAME = 'lost'`)
	c.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, FIRE_TIME, STATE, HOST_IP, INSTANCE) VALUES (777, 'test', ?, 1700000000000, 'RUNNING', 'n0', 99)`, lost)
	failed, err := s.Enqueue(t.Context(), "fails", nil)
	require.NoError(t, err)
	c.start(s)

	c.eventually("both attempts", 10*time.Second, func() bool { return len(w.of("finished", "fails")) == 2 })
	for _, kind := range []string{"claimed", "started", "finished"} {
		events := w.of(kind, "fails")
		require.Len(t, events, 2, kind)
		first := events[0]
		require.Equal(t, []any{"test", "n1", failed, 1, int64(1)}, []any{first.App, first.Node, first.RunID, first.Attempt, first.Count}, kind)
		require.Equal(t, []string{"fails", ""}, []string{first.Job, first.Schedule})
		require.WithinDuration(t, time.Now(), first.At, 30*time.Second)
		require.WithinDuration(t, time.Now(), first.FireTime, 30*time.Second)
		require.Equal(t, 2, events[1].Attempt)
	}
	finished := w.of("finished", "fails")
	require.Equal(t, qrtz.Failed, finished[0].State)
	require.Equal(t, "no paper", finished[0].Message)
	require.True(t, finished[0].RetryAt.After(finished[0].At))
	require.Zero(t, finished[1].RetryAt)
	require.Equal(t, w.of("started", "fails")[0].StartedAt, finished[0].StartedAt)
	require.WithinDuration(t, finished[0].At, finished[0].StartedAt, 30*time.Second)
	for _, at := range []time.Time{finished[0].FireTime, finished[0].StartedAt, finished[0].RetryAt, finished[0].At} {
		require.Equal(t, time.UTC, at.Location())
	}

	c.eventually("a fire skipped by its misfire policy", 10*time.Second, func() bool { return len(w.of("skipped", "tick")) == 1 })
	skipped := w.of("skipped", "tick")[0]
	require.Equal(t, int64(11), skipped.Count)
	require.Equal(t, missed.Start.UnixMilli(), skipped.FireTime.UnixMilli())
	require.Contains(t, skipped.Message, "policy SKIP")
	require.Equal(t, []string{"missed", "each second"}, []string{skipped.Job, skipped.Schedule})
	require.Equal(t, "SKIPPED", c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, skipped.RunID))

	c.eventually("fires skipped by the overlap rule", 10*time.Second, func() bool { return len(w.of("skipped", "long")) == 2 })
	overlapped := w.of("skipped", "long")[0]
	require.Equal(t, qrtz.Skipped, overlapped.State)
	require.Equal(t, "SKIPPED", c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, overlapped.RunID))
	close(release)

	c.eventually("a lost run", 10*time.Second, func() bool { return len(w.of("lost", "lost")) == 1 })
	gone := w.of("lost", "lost")[0]
	require.Equal(t, []any{int64(777), "n0", qrtz.Lost, int64(1700000000000)}, []any{gone.RunID, gone.Node, gone.State, gone.FireTime.UnixMilli()})
	require.NotEmpty(t, gone.Message)
	require.Equal(t, "lost", gone.Job)
}

// Whatever hooks do, runs start on time and the scheduler stops.
func TestHooksDoNotHoldUpRuns(t *testing.T) {
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	for name, hook := range map[string]func(qrtz.Event){
		"blocks": func(qrtz.Event) { <-never },
		"panics": func(qrtz.Event) { panic("jammed") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			cfg := quick("n1")
			var logged bytes.Buffer // only hooks and Run's goroutines write to it: see zerolog.SyncWriter
			log := zerolog.New(zerolog.SyncWriter(&logged))
			cfg.Logger = &log
			cfg.Hooks = qrtz.Hooks{Claimed: hook, Started: hook, Finished: hook, Skipped: hook, Lost: hook}
			s := c.open(cfg)
			ticking(t, s, 20, 100*time.Millisecond)
			n := c.start(s)
			c.ran(200, 10*time.Second, all)
			for _, f := range c.fires()[100:] {
				require.Less(t, f.StartedAt.Sub(f.FireTime), within)
			}
			began := time.Now()
			n.halt()
			require.Less(t, time.Since(began), 10*time.Second)
			if name == "panics" {
				require.Contains(t, logged.String(), `"class":"tick","panic":"jammed"`)
			} else {
				require.Contains(t, logged.String(), "leaving while a hook still runs")
			}
			require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
		})
	}
}
