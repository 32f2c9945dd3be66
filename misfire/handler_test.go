package misfire

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
)

func TestWithoutTheWindowNothingIsWritten(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.theirs = true
		c.add(1, "tick", time.Second, now.Add(-time.Hour))
		require.NoError(t, tryPass(t, h))
		require.Equal(t, []string{"enter"}, c.calls)
		require.NoError(t, h.FullPass(t.Context()), "at start-up it works all the same")
		require.True(t, c.rows[1].Next.After(now))
	})
}

func TestTheOrderOfSteps(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.previous = now.Add(-interval)
		require.NoError(t, tryPass(t, h))
		require.Equal(t, []string{
			"enter", "sync switches", "bury", "free overlap keys", "abandoned", "view", "adopt", "mark paused",
			"new", "overdue", "overdue", "paused overdue", "broken", "stuck executes", "stuck runs", "derive", "clean history",
		}, c.calls)
	})
}

func tryPass(t *testing.T, h *Handler) error {
	t.Helper()
	_, err := h.tryPass(t.Context())
	return err
}

// failed tells whether the last pass left something undone.
func failed(t *testing.T, h *Handler) bool {
	t.Helper()
	require.NoError(t, tryPass(t, h))
	return h.unfinished
}

func TestAnErrorEndsOneStep(t *testing.T) {
	all := []string{
		"sync switches", "bury", "free overlap keys", "abandoned", "view", "adopt", "mark paused", "new", "overdue", "paused overdue", "broken",
		"stuck executes", "stuck runs", "derive", "clean history",
	}
	for _, name := range all {
		in(t, func(t *testing.T, c *cluster, h *Handler, _ time.Time) {
			c.err[name] = errAway
			require.True(t, failed(t, h), name)
			require.Equal(t, 1, strings.Count(c.log.String(), errAway.Error()), "logged once: %s", name)
			for _, other := range all {
				if name != "view" || other == "derive" || other == "clean history" {
					require.Contains(t, c.calls, other, "after an error of %s", name)
				}
			}

			c.theirs, c.calls = true, nil
			require.True(t, failed(t, h), "it is tried again, though another node has the lock-time window")
			delete(c.err, name)
			require.NoError(t, tryPass(t, h))
			require.Contains(t, c.calls, name)
			c.calls = nil
			require.NoError(t, tryPass(t, h))
			require.Equal(t, []string{"enter"}, c.calls, "all is done")
		})
	}
}

// One step fails for long, and then another one, too: each is logged, once.
func TestWhatFailsIsLoggedOnce(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.err["derive"] = errAway
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(5*time.Minute))
		defer cancel()
		time.AfterFunc(2*time.Minute, func() {
			c.errors(func() { c.err["adopt"] = errors.New(strings.Repeat("long", 10000)) })
		})
		time.AfterFunc(4*time.Minute, func() { c.errors(func() { clear(c.err) }) })
		h.Run(ctx)
		log := c.log.String()
		require.Equal(t, 2, strings.Count(log, "failed; trying again until it works"), log)
		require.Contains(t, log, "misfire handling: derive job states")
		require.Equal(t, 2, strings.Count(log, "works again"))
		for line := range strings.Lines(log) {
			require.Less(t, len(line), 20_000, "a line is of bounded length")
		}
	})
}

// A pass ends in time, whatever there is to do, and continues soon, until all is done; meanwhile nothing else is left out.
func TestAPassThatIsCutOffGoesOn(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.derive, c.work = 200, 100*time.Millisecond // 20 s of work
		c.theirs = true
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(10*interval))
		defer cancel()
		h.Run(ctx)
		require.Negative(t, c.derive, "all is done")
		done := 0
		for i, name := range c.calls {
			if name == "derive" {
				done++
			}
			if name == "enter" && i > 0 {
				require.LessOrEqual(t, done, 55, "a third of the interval for a pass")
				done = 0
			}
		}
		require.GreaterOrEqual(t, c.count("clean history"), 4)
		require.Equal(t, c.count("clean history"), c.count("adopt"), "each step in each pass")
		last := c.entered[len(c.entered)-1].Sub(c.entered[len(c.entered)-2])
		require.Equal(t, interval, last, "at rest it makes its passes as always")
	})
}

// What one transaction does is bounded, in rows that it moves and in rows of runs that it leaves.
func TestTransactionsAreBounded(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		for id := range int64(20) {
			e := c.add(id+1, "tick", time.Millisecond, now.Add(-time.Hour))
			e.Misfire, e.CatchUpLimit = execute.CatchUp, 900
		}
		require.NoError(t, tryPass(t, h))
		require.Len(t, c.moves, 20)
		require.Equal(t, []int{3, 3, 3, 3, 3, 3, 2}, c.batches)
	})
}

// Cron schedules with more missed fires than one pass can walk through come to now in several, all of them at the same
// pace, and others are not held up by them.
func TestMissedFiresOfCronSchedulesTakeSeveralPasses(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		var s execute.Schedules
		every, err := s.Parse(execute.Spec{Kind: execute.Cron, Cron: "* * * * * ?", Repeat: execute.Forever})
		require.NoError(t, err)
		for id := range int64(30) {
			c.add(id+1, "tick", time.Second, now.Add(-3*24*time.Hour)).Schedule = every
		}
		c.add(100, "tick", time.Second, now.Add(-time.Hour))
		c.work = 300 * time.Millisecond // of every statement, so that a pass is soon cut off
		passes, other := 0, 0
		for behind := true; behind; passes++ {
			require.NoError(t, tryPass(t, h))
			behind = false
			for id := range int64(30) {
				behind = behind || !c.rows[id+1].Next.After(now)
			}
			if other == 0 && c.rows[100].Next.After(now) {
				other = passes
			}
			require.Less(t, passes, 50)
		}
		require.Greater(t, passes, 2)
		require.Less(t, other, passes-1)
		fires, ran := map[int64]int64{}, map[int64]int{}
		for _, m := range c.moves {
			for _, r := range m.Runs {
				fires[m.Execute.ID] += r.Count
				if r.State == run.Pending {
					ran[m.Execute.ID]++
				}
			}
		}
		for id := range int64(30) {
			require.GreaterOrEqual(t, fires[id+1], int64(3*24*3600+1), "none is forgotten")
			require.Equal(t, 1, ran[id+1], "one runs")
		}
	})
}

func TestTheDeadAreNamedAndWhatNobodyHoldsIsLost(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.abandoned = []int64{3, 4}
		require.NoError(t, tryPass(t, h))
		require.NotContains(t, c.log.String(), "declared dead")
		require.Equal(t, []int64{3, 4}, c.lost, "all that have died")
		c.dead = []node.Node{{ID: "n9", Heartbeat: now.Add(-time.Minute)}}
		require.NoError(t, tryPass(t, h))
		require.Contains(t, c.log.String(), `"node":"n9"`)
	})
}

func TestWhatIsDoneWithWhatIsOverdue(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		long, late := now.Add(-10*time.Minute), now.Add(-misfireAfter+time.Millisecond)
		c.add(1, "tick", time.Second, long)
		c.add(2, "tick", time.Second, late)
		c.add(3, "off", time.Second, long)
		c.add(4, "off", time.Second, late)
		c.add(5, "gone", time.Second, long)
		c.add(6, "gone", time.Second, long).State = execute.Paused
		c.add(7, "tick", time.Second, long).ResumedAt = now.Add(-90 * time.Second)
		c.due = []run.Stuck{{Class: "gone"}, {Class: "tick"}, {Class: "tick", Why: "its job is gone"}}
		require.NoError(t, tryPass(t, h))

		require.Equal(t, now.Add(time.Second).UnixMilli(), c.rows[1].Next.UnixMilli())
		require.Equal(t, late, c.rows[2].Next, "not yet a misfire")
		for _, id := range []int64{3, 4, 6} {
			require.True(t, c.rows[id].Next.After(now), "execute %d is moved on", id)
			require.False(t, c.rows[id].Next.After(now.Add(time.Second)))
		}
		require.Equal(t, long, c.rows[5].Next, "a class that no live node handles is left alone")
		require.Equal(t, []run.Stuck{{Class: "gone", Why: NoHandler}, {Class: "tick", Why: "its job is gone"}}, c.told)
		require.True(t, c.rows[7].Next.After(now), "what is due since it was resumed and too late is a misfire")
		runs := map[int64]int64{}
		for _, m := range c.moves {
			for _, r := range m.Runs {
				runs[m.Execute.ID] += r.Count
			}
		}
		require.Equal(t, map[int64]int64{1: 601, 7: 91}, runs, "only misfires are on record")
	})
}

func TestTheAppOffMovesEverythingOn(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.view.AppOn, c.view.At = false, now.Add(-time.Second)
		c.add(1, "tick", time.Second, now.Add(-time.Hour))
		c.add(2, "tick", time.Second, now.Add(-time.Second/2))
		require.NoError(t, tryPass(t, h))
		require.Len(t, c.moves, 1)
		require.Empty(t, c.moves[0].Runs)
		require.Equal(t, now, c.rows[1].Next)
		require.Equal(t, now.Add(-time.Second/2), c.rows[2].Next, "due after the switch was read: it may be on by now")
	})
}

func TestWhatWasDueBeforeTheAppWasOffIsOwed(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.view.AppOn, c.view.AppSwitchedAt = false, now.Add(-5*time.Second)
		c.add(1, "tick", time.Second, now.Add(-7*time.Second))
		c.add(2, "tick", time.Second, now.Add(-5*time.Second))
		require.NoError(t, tryPass(t, h))
		runs := map[int64]int64{}
		for _, m := range c.moves {
			for _, r := range m.Runs {
				runs[m.Execute.ID] += r.Count
			}
		}
		require.Equal(t, map[int64]int64{1: 2}, runs)
		require.True(t, c.rows[1].Next.After(now))
		require.True(t, c.rows[2].Next.After(now))
	})
}

func TestNewExecutesAreBegun(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		for id, class := range []string{"tick", "off", "gone"} {
			c.add(int64(id), class, time.Second, time.Time{})
		}
		require.NoError(t, tryPass(t, h))
		require.Equal(t, now, c.rows[0].Next)
		require.Equal(t, now.Add(time.Second), c.rows[1].Next, "begun, then moved on")
		require.Zero(t, c.rows[2].Next)
	})
}

func TestABrokenScheduleIsSetToErrorAndHealsWhenItParses(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		for id, state := range map[int64]execute.State{1: execute.Executing, 2: execute.Paused} {
			e := c.add(id, "tick", time.Second, now.Add(-time.Hour))
			e.State, e.Problem, e.Schedule = state, errors.New("bad expression"), execute.Schedule{}
		}
		still := c.add(3, "tick", time.Second, now.Add(-time.Hour))
		still.State, still.Problem = execute.Error, errors.New("bad expression")
		c.add(4, "tick", time.Second, now.Add(-time.Hour)).State = execute.Error
		c.stuck[1], c.stuck[2] = false, false
		p := &pass{Handler: h, view: c.view, now: now, slice: now.Add(time.Hour)}
		for _, step := range []func(context.Context) (bool, error){p.begin, p.applyPolicies, p.moveOnPaused} {
			_, err := step(t.Context())
			require.NoError(t, err)
		}
		for _, id := range []int64{1, 2} {
			require.Equal(t, execute.Error, c.rows[id].State)
		}
		c.rows[1].Problem, c.rows[2].Problem = errors.New("bad expression"), errors.New("bad expression")
		_, err := p.heal(t.Context())
		require.NoError(t, err)
		require.Equal(t, execute.Executing, c.rows[4].State)
		require.Equal(t, now.UnixMilli(), c.rows[4].Next.UnixMilli(), "it fires from now on")
		for _, id := range []int64{1, 2, 3} {
			require.Equal(t, execute.Error, c.rows[id].State, "only what parses is healed")
		}
	})
}

func TestPages(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		for id := range int64(2*page + 1) {
			c.add(id+1, "tick", time.Second, now.Add(-time.Hour))
			broken := c.add(id+10000, "tick", time.Second, now)
			broken.State = execute.Error
			if id%2 == 0 {
				broken.Problem = errors.New("bad expression")
			}
		}
		require.NoError(t, tryPass(t, h))
		states := map[execute.State]int{}
		for id, e := range c.rows {
			states[e.State]++
			require.True(t, id >= 10000 || e.Next.After(now))
		}
		require.Equal(t, map[execute.State]int{execute.Executing: 2*page + 1 + page, execute.Error: page + 1}, states)
	})
}

func TestAPageOfWhichNothingCanBeMovedIsLeft(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		for id, state := range []execute.State{execute.Executing, execute.Paused, execute.Error} {
			c.add(int64(id), "tick", time.Second, now.Add(-time.Hour)).State = state
			c.stuck[int64(id)] = true
		}
		c.add(5, "tick", time.Second, time.Time{})
		c.stuck[5] = true
		require.NoError(t, tryPass(t, h))
		require.Empty(t, c.moves)
		require.Contains(t, c.calls, "derive")
	})
}

// A schedule that is faster than a page is moved on once in a pass, not for ever.
func TestASchedulesThatFiresWhileItIsMovedOn(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.work = 20 * time.Millisecond
		c.add(1, "off", time.Millisecond, now.Add(-time.Second))
		c.add(2, "tick", time.Millisecond, now.Add(-time.Second)).State = execute.Paused
		c.add(3, "tick", time.Millisecond, now.Add(-2*time.Minute))
		require.NoError(t, tryPass(t, h))
		require.Len(t, c.moves, 3)
	})
}

func TestRunComesByEveryIntervalAndOutlastsAnOutage(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.work = 10 * time.Millisecond // a pass that takes its time does not put the next one off
		c.awayFrom, c.awayUntil = now.Add(62*time.Second), now.Add(10*time.Minute)
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(11*time.Minute))
		defer cancel()
		h.Run(ctx)

		var on []time.Duration
		for _, at := range c.entered {
			if at.Before(c.awayFrom) {
				on = append(on, at.Sub(now))
			}
		}
		require.Equal(t, []time.Duration{0, interval, 2 * interval, 3 * interval, 4 * interval}, on)
		require.Equal(t, 1, strings.Count(c.log.String(), "failed; trying again"), "logged once")
		back := slices.IndexFunc(c.entered, c.awayUntil.Before)
		require.LessOrEqual(t, c.entered[back].Sub(c.awayUntil), 3*time.Second, "it continues soon")
		require.Contains(t, c.log.String(), "works again")
		require.Equal(t, interval, c.entered[back+1].Sub(c.entered[back]))
	})
}
