package qrtztest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/qrtztest"
)

// recovered is a job that fires once, at one o'clock, and is recovered.
func recovered() qrtz.Job {
	j := job("j", "count", qrtz.At(at(1, 0, 0)))
	j.Recovery = true
	return j
}

// counting counts the calls of a handler "count".
func counting(t *testing.T) (kit *qrtztest.Kit, calls *int) {
	t.Helper()
	calls = new(int)
	return qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "test"}, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "count", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			*calls++
			return context.Cause(ctx)
		})
	}), calls
}

// untilDead is how long after its last heartbeat the runs of a node are LOST: NodeTimeout, and one look more.
const untilDead = 22500*time.Millisecond + 5*time.Second

func TestTheRunsOfADeadNodeAreRecovered(t *testing.T) {
	kit, calls := counting(t)
	kit.Declare(recovered())
	held := kit.Hold("count")
	kit.AdvanceTo(at(1, 0, 0))
	kit.Kill()
	require.Empty(t, held.Runs())
	kit.Advance(22500 * time.Millisecond)
	kit.Expect("count")
	kit.Advance(untilDead - 22500*time.Millisecond)
	events := kit.Expect("count", qrtz.Lost, qrtz.Succeeded)
	require.Equal(t, "node-1", events[0].Node)
	require.Equal(t, "node-2", events[1].Node)
	require.Equal(t, 2, events[1].Attempt)
	require.Equal(t, 1, *calls, "the handler that was held was never called")
	require.Empty(t, kit.Advance(time.Hour))
}

// A node that dies between the handler's return and the result has done the work.
func TestANodeThatDiesBeforeItsResultHasDoneTheWork(t *testing.T) {
	kit, calls := counting(t)
	kit.Declare(recovered())
	held := kit.HoldResult("count")
	kit.AdvanceTo(at(1, 0, 0))
	require.Len(t, held.Runs(), 1)
	require.Equal(t, 1, *calls)
	kit.Kill()
	kit.Advance(untilDead)
	kit.Expect("count", qrtz.Lost, qrtz.Succeeded)
	require.Equal(t, 2, *calls)
}

// A frozen node that wakes up again finds that its runs are no longer its own.
func TestAFrozenNodeWakesUp(t *testing.T) {
	kit, calls := counting(t)
	kit.Declare(recovered())
	held := kit.Hold("count")
	kit.AdvanceTo(at(1, 0, 0))
	kit.Freeze()
	second := kit.Hold("count") // for the recovery
	kit.Advance(untilDead)
	kit.Expect("count", qrtz.Lost)
	require.Len(t, held.Runs(), 2)
	fences := held.Runs()
	require.Greater(t, fences[1].Fence, fences[0].Fence)
	second.Release()
	require.Equal(t, 2, *calls)
	var states string
	require.NoError(t, kit.DB.QueryRow(`SELECT GROUP_CONCAT(CONCAT(ATTEMPT, STATE) ORDER BY ATTEMPT) FROM QRTZ_RUN`).Scan(&states))
	require.Equal(t, "1LOST,2SUCCEEDED", states)
}

// One that wakes up before it is taken for dead has its result counted.
func TestAFrozenNodeWakesUpInTime(t *testing.T) {
	kit, _ := counting(t)
	kit.Declare(recovered())
	held := kit.Hold("count")
	kit.AdvanceTo(at(1, 0, 0))
	kit.Freeze()
	kit.Advance(20 * time.Second)
	held.Release()
	kit.Expect("count", qrtz.Succeeded)
	kit.Advance(time.Hour)
	kit.Expect("count", qrtz.Succeeded)
}

func TestARestartEndsTheContextsOfWhatIsHeld(t *testing.T) {
	var causes []error
	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "test"}, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "slow", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			causes = append(causes, context.Cause(ctx))
			return nil
		})
	})
	kit.Declare(job("j", "slow", qrtz.Every(time.Hour)))
	kit.Hold("slow")
	kit.Advance(0)
	require.Len(t, kit.Restart(), 1)
	kit.Expect("slow", qrtz.Succeeded)
	kit.Advance(time.Hour)
	kit.Expect("slow", qrtz.Succeeded, qrtz.Succeeded)
	require.Equal(t, []error{qrtz.ErrDrained, nil}, causes)
}

// A handler that obeys has its run handed on to the node that takes this one's place, and spends no attempt.
func TestARestartHandsOnWhatObeys(t *testing.T) {
	kit, calls := counting(t)
	kit.Declare(recovered())
	kit.Hold("count")
	kit.AdvanceTo(at(1, 0, 0))
	kit.Restart()
	events := kit.Expect("count", qrtz.Lost, qrtz.Succeeded)
	require.Equal(t, "node-2", events[1].Node)
	require.Equal(t, at(1, 0, 0), events[1].At.UTC(), "at once")
	require.Equal(t, 2, *calls)
}

// What is held when the test ends does not keep it, and tells nothing.
func TestATestMayEndWhileRunsAreHeld(t *testing.T) {
	told := 0
	t.Run("kit", func(t *testing.T) {
		kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "test", Hooks: qrtz.Hooks{Finished: func(qrtz.Event) { told++ }}}, func(s *qrtz.Scheduler) {
			qrtz.Handle(s, "slow", func(context.Context, *qrtz.Run, struct{}) error { return nil })
		})
		kit.Declare(job("j", "slow", qrtz.Every(time.Hour)))
		kit.Hold("slow")
		kit.Advance(time.Hour)
		kit.Freeze()
		kit.Hold("slow")
		kit.Advance(time.Hour)
	})
	require.Zero(t, told)
}
