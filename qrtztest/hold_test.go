package qrtztest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/qrtztest"
)

// overlapping is a job that fires every hour, with an overlap rule.
func overlapping(o qrtz.Overlap) qrtz.Job {
	j := job("j", "tick", qrtz.Every(time.Hour))
	j.Overlap = o
	return j
}

func TestTwoRunsOfOneJobAtOnce(t *testing.T) {
	kit, _ := newKit(t, qrtz.Config{})
	kit.Declare(overlapping(qrtz.OverlapAllow))
	held := kit.Hold("tick")
	kit.Advance(time.Hour)
	require.Len(t, held.Runs(), 2)
	var running int
	require.NoError(t, kit.DB.QueryRow(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`).Scan(&running))
	require.Equal(t, 2, running)
	kit.Expect("tick")
	require.Len(t, held.Release(), 2)
	for _, e := range kit.Expect("tick", qrtz.Succeeded, qrtz.Succeeded) {
		require.Equal(t, at(1, 0, 0), e.At.UTC(), "they took until now")
	}
	kit.Advance(time.Hour)
	kit.Expect("tick", qrtz.Succeeded, qrtz.Succeeded, qrtz.Succeeded)
}

func TestSkipAndQueueAreSeen(t *testing.T) {
	for _, hold := range []func(*qrtztest.Kit) *qrtztest.Held{
		func(k *qrtztest.Kit) *qrtztest.Held { return k.Hold("tick") },
		func(k *qrtztest.Kit) *qrtztest.Held { return k.HoldResult("tick") },
	} {
		kit, _ := newKit(t, qrtz.Config{})
		kit.Declare(overlapping(qrtz.OverlapSkip))
		held := hold(kit)
		kit.Advance(time.Hour)
		require.Len(t, held.Runs(), 1)
		kit.Expect("tick", qrtz.Skipped)
		held.Release()
		kit.Advance(time.Hour)
		kit.Expect("tick", qrtz.Skipped, qrtz.Succeeded, qrtz.Succeeded)

		kit, _ = newKit(t, qrtz.Config{})
		kit.Declare(overlapping(qrtz.OverlapQueue))
		held = hold(kit)
		kit.Advance(2 * time.Hour)
		kit.Expect("tick")
		require.Len(t, held.Release(), 3, "those in the queue run as soon as they can")
		kit.Expect("tick", qrtz.Succeeded, qrtz.Succeeded, qrtz.Succeeded)
	}
}

// Of a job of which two may go at a time in the whole cluster, the third waits, and runs when one has ended.
func TestMaxRunningIsSeen(t *testing.T) {
	kit, _ := newKit(t, qrtz.Config{})
	j := job("j", "tick", qrtz.Every(time.Hour))
	j.MaxRunning = 2
	kit.Declare(j)
	held := kit.Hold("tick")
	kit.Advance(3 * time.Hour)
	require.Len(t, held.Runs(), 2)
	require.Len(t, held.Release(), 4)
	kit.Expect("tick", qrtz.Succeeded, qrtz.Succeeded, qrtz.Succeeded, qrtz.Succeeded)
}

// The timeout of a run that is held goes by the kit's clock, to the millisecond.
func TestAHeldRunTimesOut(t *testing.T) {
	var cause error
	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "test"}, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "slow", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			cause = context.Cause(ctx)
			return ctx.Err()
		})
	})
	j := job("slow", "slow", qrtz.At(at(1, 0, 0)))
	j.Timeout = 30 * time.Minute
	kit.Declare(j)
	held := kit.Hold("slow")
	kit.AdvanceTo(at(1, 29, 59))
	held.Release()
	require.NoError(t, cause)
	kit.Expect("slow", qrtz.Succeeded)

	id, err := kit.Scheduler.Enqueue(t.Context(), "slow", nil)
	require.NoError(t, err)
	held = kit.Hold("slow")
	kit.Advance(30 * time.Minute)
	require.Equal(t, id, held.Runs()[0].ID)
	held.Release()
	require.ErrorIs(t, cause, qrtz.ErrTimedOut)
	kit.Expect("slow", qrtz.Succeeded, qrtz.Failed)
}

func TestAHeldRunIsCancelled(t *testing.T) {
	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "test"}, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "slow", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error { return context.Cause(ctx) })
	})
	kit.Declare(job("slow", "slow", qrtz.At(at(1, 0, 0))))
	held := kit.Hold("slow")
	kit.AdvanceTo(at(1, 0, 0))
	_, err := kit.DB.ExecContext(t.Context(), `UPDATE QRTZ_RUN SET CANCEL_AT = 1`) // an operator
	require.NoError(t, err)
	kit.Advance(time.Second)
	held.Release()
	kit.Expect("slow", qrtz.Cancelled)
}

// A handler that fails in a goroutine of its own, or ends it, does so as any other.
func TestHeldRunsFailAsOthersDo(t *testing.T) {
	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "test"}, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "fails", func(_ context.Context, run *qrtz.Run, how string) error {
			if how == "panic" {
				panic("no paper")
			}
			return errors.New(how)
		})
	})
	kit.Declare(job("j", "fails"))
	held := kit.Hold("fails")
	for _, how := range []string{"panic", "no ink"} {
		_, err := kit.Scheduler.Enqueue(t.Context(), "j", how)
		require.NoError(t, err)
	}
	kit.Advance(0)
	require.Len(t, held.Runs(), 2)
	ended := held.Release()
	require.Len(t, ended, 2)
	kit.Expect("fails", qrtz.Failed, qrtz.Failed)
	require.Contains(t, fmt.Sprint(ended), "no paper")
	require.Contains(t, fmt.Sprint(ended), "no ink")
}
