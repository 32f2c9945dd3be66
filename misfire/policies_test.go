package misfire

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/run"
)

// recorded is how many fires the moves of an execute put on record.
func (c *cluster) recorded(id int64) (n int64) {
	for _, m := range c.moves {
		if m.Execute.ID == id {
			for _, r := range m.Runs {
				n += r.Count
			}
		}
	}
	return n
}

func TestAllNewExecutesAreBegunInOnePass(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, _ time.Time) {
		for id := range int64(2*page + 1) {
			c.add(id+1, "tick", time.Second, time.Time{})
		}
		require.NoError(t, tryPass(t, h))
		require.Len(t, c.moves, 2*page+1)
		require.Equal(t, 3, c.count("new"), "no more looks than pages")
	})
}

func TestNewExecutesThatCannotBeBegunAreLookedAtOnce(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, _ time.Time) {
		for id := range int64(page) {
			c.add(id+1, "tick", time.Second, time.Time{})
			c.stuck[id+1] = true
		}
		require.NoError(t, tryPass(t, h))
		require.Equal(t, 1, c.count("new"))
	})
}

// A cut-off page of new executes is not all that there was.
func TestNewExecutesAreBegunThoughTheirTimeIsShort(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		var s execute.Schedules
		yearly, err := s.Parse(execute.Spec{Kind: execute.Cron, Cron: "0 0 0 1 1 ?", Repeat: execute.Forever})
		require.NoError(t, err)
		for id := range int64(3) {
			c.add(id+1, "tick", time.Second, time.Time{}).Schedule = yearly
		}
		c.work = time.Minute // the time of each step is over after one statement
		p := &pass{Handler: h, view: c.view, now: now, slice: now}
		for range 3 {
			more, err := p.begin(t.Context())
			require.NoError(t, err)
			if !more {
				break
			}
		}
		require.Equal(t, []int{1, 1, 1}, c.batches)
	})
}

func TestAFireAtTheInstantOfTheResumeIsNotOfThePause(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		resumed := now.Add(-90 * time.Second)
		c.add(1, "tick", time.Second, resumed).ResumedAt = resumed
		c.add(2, "tick", time.Second, resumed.Add(-time.Second)).ResumedAt = resumed
		require.NoError(t, tryPass(t, h))
		require.Len(t, c.moves, 3, "one move for the first, two for the second")
		require.EqualValues(t, 91, c.recorded(1))
		require.EqualValues(t, 91, c.recorded(2))
		require.True(t, c.rows[1].Next.After(now))
		require.True(t, c.rows[2].Next.After(now))
	})
}

// What was resumed just so long ago that its first fire is a misfire takes two moves. The pass makes both.
func TestWhatAMoveLeavesOverdueIsMovedAgainInThePass(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.add(1, "tick", time.Second, now.Add(-time.Hour)).ResumedAt = now.Add(-misfireAfter)
		require.NoError(t, tryPass(t, h))
		require.Len(t, c.moves, 2)
		require.True(t, c.rows[1].Next.After(now))
		require.EqualValues(t, 61, c.recorded(1))
	})
}

func TestAWalkReadsNoMoreThanThereIs(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.add(1, "tick", time.Second, now.Add(-time.Hour))
		require.NoError(t, tryPass(t, h))
		require.Equal(t, 2, c.count("overdue"), "once for the policies, once for what is off")
	})
}

// A page that other transactions have locked does not hide what is behind it.
func TestAWalkGoesBehindWhatCannotBeMoved(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		for id := range int64(page) {
			c.add(id+1, "tick", time.Second, now.Add(-time.Hour))
			c.stuck[id+1] = true
		}
		c.add(page+1, "tick", time.Second, now.Add(-2*misfireAfter))
		require.NoError(t, tryPass(t, h))
		require.True(t, c.rows[page+1].Next.After(now))
		require.Equal(t, 3, c.count("overdue"))
	})
}

func TestWhatIsPutOnRecordAsSkippedIsTold(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		var told []run.SkippedFire
		h.cfg.Skipped = func(fires []run.SkippedFire) { told = append(told, fires...) }
		c.skipped = []run.SkippedFire{{Class: "tick", NewRun: run.NewRun{Count: 60}}}
		c.add(1, "tick", time.Second, now.Add(-time.Hour))
		require.NoError(t, tryPass(t, h))
		require.Equal(t, c.skipped, told)
	})
}

func TestAnExecuteThatCannotBeMovedByAnErrorIsLeftToTheNextWalk(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.add(1, "tick", time.Second, now.Add(-time.Hour))
		c.err["move"] = errAway
		require.True(t, failed(t, h))
		require.Equal(t, now.Add(-time.Hour), c.rows[1].Next)
		delete(c.err, "move")
		require.False(t, failed(t, h))
		require.True(t, c.rows[1].Next.After(now))
	})
}

// A walk that is cut off in the middle of a page continues behind what it has tried, moved or not. The next walk begins at the
// front again.
func TestAWalkThatIsCutOffContinuesBehindWhatItHasTried(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		for id := range int64(4) {
			c.add(id+1, "tick", time.Second, now.Add(-time.Hour))
		}
		c.stuck[1], c.stuck[2] = true, true
		p := &pass{Handler: h, view: c.view, now: now, slice: now} // the time of each step is over after one transaction
		calls := 0
		for more := true; more && calls < 10; calls++ {
			var err error
			more, err = p.applyPolicies(t.Context())
			require.NoError(t, err)
		}
		require.Equal(t, []int{1, 1, 1, 1}, c.batches)
		require.True(t, c.rows[3].Next.After(now))
		require.True(t, c.rows[4].Next.After(now))

		c.stuck[1] = false
		_, err := p.applyPolicies(t.Context())
		require.NoError(t, err)
		require.True(t, c.rows[1].Next.After(now))
	})
}

func TestAPageIsMovedInOneWalkThoughInSeveralTransactions(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		for id := range int64(9) {
			e := c.add(id+1, "tick", time.Millisecond, now.Add(-time.Hour))
			e.Misfire, e.CatchUpLimit = execute.CatchUp, 900
		}
		require.NoError(t, tryPass(t, h))
		require.Len(t, c.batches, 3)
		require.Equal(t, 2, c.count("overdue"))
	})
}

func TestPausedExecutesAreMovedOnToTheNextMillisecond(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.add(1, "tick", time.Millisecond, now.Add(-time.Hour)).State = execute.Paused
		require.NoError(t, tryPass(t, h))
		require.Equal(t, now.Add(time.Millisecond), c.rows[1].Next)
	})
}

// What a person corrects after a walk has passed it is found by the next walk.
func TestHealingBeginsAtTheFrontAgain(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.add(5, "tick", time.Second, now.Add(-time.Hour)).State = execute.Error
		require.NoError(t, tryPass(t, h))
		require.Equal(t, execute.Executing, c.rows[5].State)
		c.add(1, "tick", time.Second, now.Add(-time.Hour)).State = execute.Error
		require.NoError(t, tryPass(t, h))
		require.Equal(t, execute.Executing, c.rows[1].State)
	})
}

func TestAWalkThatIsEndedMovesNothing(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.add(1, "tick", time.Second, now.Add(-time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p := &pass{Handler: h, view: c.view, now: now, slice: now.Add(time.Second)}
		more, err := p.applyPolicies(ctx)
		require.NoError(t, err)
		require.True(t, more)
		require.Empty(t, c.moves)
	})
}
