package qrtz_test

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// A program waits for the invoice that it has asked for.
func ExampleClient_Wait() {
	var s *qrtz.Scheduler
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	id, err := s.Enqueue(ctx, "invoice", invoice{"Ada"})
	must(err)
	run, err := s.Wait(ctx, id) // its last attempt, however many it took
	switch {
	case errors.Is(err, qrtz.ErrUnhandled):
		log.Print("no program runs invoices now: ", err)
	case err != nil:
		log.Print("it is still ", run.State)
	case run.State != qrtz.Succeeded:
		log.Print("it failed: ", run.Message)
	}
}

// outcome is what Wait has returned.
type outcome struct {
	qrtz.RunInfo
	err  error
	took time.Duration
}

func (c *cluster) waiting(s *qrtz.Scheduler, id int64) <-chan outcome {
	came := make(chan outcome, 1)
	go func() {
		began := time.Now()
		r, err := s.Wait(c.t.Context(), id)
		came <- outcome{r, err, time.Since(began)}
	}()
	return came
}

func TestWaitReturnsWhenARunHasEndedForGood(t *testing.T) {
	c := newCluster(t)
	var left atomic.Int32
	n := c.start(c.open(patient("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "fails", func(_ context.Context, _ *qrtz.Run, _ struct{}) error {
			if left.Add(-1) >= 0 {
				return qrtz.RetryAfter(errors.New("not yet"), 10*time.Millisecond)
			}
			return nil
		})
	}))
	elsewhere := c.client()
	ctx := t.Context()
	options := qrtz.Options{Attempts: 4}
	failed, none := options, options
	failed.History, none.History = qrtz.HistoryFailed, qrtz.HistoryNone
	require.NoError(t, n.Declare(ctx, qrtz.Job{Name: "all", Class: "fails", Options: options}, qrtz.Job{Name: "failed", Class: "fails", Options: failed},
		qrtz.Job{Name: "none", Class: "fails", Options: none}, qrtz.Job{Name: "tick"}))
	for _, by := range []*qrtz.Scheduler{n.Scheduler, elsewhere} {
		for _, job := range []string{"all", "failed"} {
			left.Store(2)
			id, err := by.Enqueue(ctx, job, nil)
			require.NoError(t, err)
			got := arrives(t, c.waiting(by, id), 3*within)
			require.NoError(t, got.err)
			require.Equal(t, []any{qrtz.Succeeded, 3, id}, []any{got.State, got.Attempt, got.Origin}, job)
		}
		id, err := by.Enqueue(ctx, "tick", nil)
		require.NoError(t, err)
		got := arrives(t, c.waiting(by, id), within)
		require.NoError(t, got.err)
		require.Equal(t, []any{qrtz.Succeeded, id, "n1"}, []any{got.State, got.ID, got.Node})
		again, err := by.Wait(ctx, id)
		require.NoError(t, err)
		require.Equal(t, got.RunInfo, again, "it has ended already")
		_, err = by.Wait(ctx, id+1000)
		require.ErrorIs(t, err, qrtz.ErrNotFound)
	}
	left.Store(4)
	id, err := n.Enqueue(ctx, "all", nil)
	require.NoError(t, err)
	got := arrives(t, c.waiting(elsewhere, id), 3*within)
	require.NoError(t, got.err)
	require.Equal(t, []any{qrtz.Failed, 4, "not yet"}, []any{got.State, got.Attempt, got.Message}, "its last attempt")

	left.Store(0)
	id, err = n.Enqueue(ctx, "none", nil, qrtz.StartAt(time.Now().Add(time.Second))) // not before Wait has seen it
	require.NoError(t, err)
	got = arrives(t, c.waiting(n.Scheduler, id), within)
	require.NoError(t, got.err)
	require.Equal(t, qrtz.Succeeded, got.State, "no row says so, but this process knows")
	id, err = elsewhere.Enqueue(ctx, "none", nil, qrtz.StartAt(time.Now().Add(time.Second)))
	require.NoError(t, err)
	got = arrives(t, c.waiting(elsewhere, id), within)
	require.ErrorIs(t, got.err, qrtz.ErrNotFound)
	require.ErrorContains(t, got.err, "has ended")
}

func TestWaitGivesUpWithItsContext(t *testing.T) {
	c := newCluster(t)
	causes := make(chan error, 1)
	n := c.start(c.open(patient("n1"), c.waits(causes)))
	require.NoError(t, n.Declare(t.Context(), qrtz.Job{Name: "waits"}))
	id, err := n.Enqueue(t.Context(), "waits", nil)
	require.NoError(t, err)
	c.ran(1, within, all)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	run, err := n.Wait(ctx, id)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, qrtz.Running, run.State)
	got := c.waiting(n.Scheduler, id)
	require.NoError(t, n.Cancel(t.Context(), id))
	require.Equal(t, qrtz.Cancelled, arrives(t, got, within).State)
}

func TestWaitSaysAtOnceThatNoNodeHandlesTheClass(t *testing.T) {
	c := newCluster(t)
	n := c.start(c.open(patient("n1")))
	s := c.client()
	ctx := t.Context()
	require.NoError(t, n.Declare(ctx, qrtz.Job{Name: "retired"}))
	id, err := n.Enqueue(ctx, "retired", nil)
	require.NoError(t, err)
	for _, by := range []*qrtz.Scheduler{n.Scheduler, s} {
		got := arrives(t, c.waiting(by, id), within)
		require.ErrorIs(t, got.err, qrtz.ErrUnhandled)
		require.ErrorContains(t, got.err, `class "retired" is PENDING: no live node has a handler for its class`)
		require.Less(t, got.took, within)
		require.Equal(t, qrtz.Pending, got.State)
	}
	later, err := s.Enqueue(ctx, "retired", nil, qrtz.StartAt(time.Now().Add(time.Hour)))
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err = s.Wait(short, later)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it is not due yet")

	// A program that is about to join with a handler waits for its own start.
	comes := c.open(patient("n2"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "retired", func(context.Context, *qrtz.Run, struct{}) error { return nil })
	})
	got := c.waiting(comes, id)
	c.start(comes)
	ended := arrives(t, got, 2*within)
	require.NoError(t, ended.err)
	require.Equal(t, qrtz.Succeeded, ended.State)
}

// Many who wait cost the server little.
func TestWaitLooksLessAndLess(t *testing.T) {
	c := newCluster(t)
	db, err := sql.Open("mysql", c.dsn)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // whose statements are counted
	s, err := qrtz.Open(db, qrtz.Config{App: "test"})
	require.NoError(t, err)
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "a"}))
	id, err := s.Enqueue(t.Context(), "a", nil, qrtz.StartAt(time.Now().Add(time.Hour)))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var name string
	var before, after int
	require.NoError(t, db.QueryRow(`SHOW SESSION STATUS LIKE 'Com_select'`).Scan(&name, &before))
	_, err = s.Wait(ctx, id)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, db.QueryRow(`SHOW SESSION STATUS LIKE 'Com_select'`).Scan(&name, &after))
	t.Logf("%d statements in 3 s", after-before)
	require.Less(t, after-before, 150)
}
