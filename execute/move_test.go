package execute

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

func TestAClaimMovesPastItsFiresAndCompletesWithTheLast(t *testing.T) {
	e := parsed(t, everySecond(3), 0, noon)
	m := e.ClaimMove(e.Fires(at(100), 2))
	require.Equal(t, Executing, m.State)
	require.Equal(t, at(1).UnixMilli(), m.Prev.UnixMilli())
	require.Equal(t, at(2).UnixMilli(), m.Next.UnixMilli())
	require.Equal(t, int64(2), m.Fires)
	require.Len(t, m.Runs, 2)
	for i, r := range m.Runs {
		require.Equal(t, run.Running, r.State)
		require.Equal(t, at(i).UnixMilli(), r.FireTime.UnixMilli())
	}

	rest := m.moved()
	require.Equal(t, int64(2), rest.Fired)
	m = rest.ClaimMove(rest.Fires(at(100), 100))
	require.Equal(t, Complete, m.State)
	require.Zero(t, m.Next)
	require.Len(t, m.Runs, 1)
}

func TestResumePassesOverWithoutATrace(t *testing.T) {
	e := parsed(t, everySecond(5), 2, at(2))
	m := e.MoveTo(at(1000))
	require.Equal(t, at(1000).UnixMilli(), m.Next.UnixMilli(), "the fire at that very time counts")
	require.Empty(t, m.Runs)
	require.Zero(t, m.Fires, "what was passed over is still owed by the count")

	require.Equal(t, at(2), e.MoveTo(at(1)).Next, "a fire ahead stays")
	ended := everySecond(Forever)
	ended.End = at(10)
	require.Equal(t, Complete, parsed(t, ended, 0, at(2)).MoveTo(at(11)).State)
	paused := parsed(t, everySecond(5), 2, at(2))
	paused.State = Paused
	require.Equal(t, Paused, paused.MoveTo(at(1000)).State)
}

func TestBegin(t *testing.T) {
	require.Equal(t, noon, parsed(t, everySecond(5), 0, time.Time{}).BeginMove(at(50)).Next, "a new rate owes its fires")
	old := parsed(t, everySecond(Forever), 3, time.Time{})
	old.Prev = at(2)
	require.Equal(t, at(50).UnixMilli(), old.BeginMove(at(50)).Next.UnixMilli(), "cleared to be computed again")
	require.Equal(t, Complete, parsed(t, everySecond(0), 0, time.Time{}).BeginMove(noon).State)
	require.Equal(t, Complete, parsed(t, everySecond(3), 3, time.Time{}).BeginMove(noon).State)
}

func TestBreakAndHeal(t *testing.T) {
	e := parsed(t, everySecond(Forever), 3, at(3))
	e.Problem = errors.New("execute 1: CRON: no")
	m := e.ErrorMove()
	require.Equal(t, Error, m.State)
	require.Equal(t, "execute 1: CRON: no", m.Reason)
	require.Equal(t, at(3), m.Next)

	e.State, e.Problem = Error, nil
	m = e.HealMove(at(50))
	require.Equal(t, Executing, m.State)
	require.Empty(t, m.Reason)
	require.Equal(t, at(50).UnixMilli(), m.Next.UnixMilli())
	done := parsed(t, everySecond(3), 3, time.Time{})
	done.State = Error
	require.Equal(t, Complete, done.HealMove(at(50)).State)
}
