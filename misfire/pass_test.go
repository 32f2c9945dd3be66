package misfire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What fails for the same reason in several steps is one line, however the steps have wrapped and joined it.
func TestStepsThatFailForOneReasonAreOneLine(t *testing.T) {
	for _, fail := range [][]string{{"bury", "free overlap keys", "abandoned", "derive"}, {"bury", "derive"}} {
		in(t, func(t *testing.T, c *cluster, h *Handler, _ time.Time) {
			for _, name := range fail {
				c.err[name] = fmt.Errorf("%s: %w", name, errAway)
			}
			c.err["adopt"] = errors.New("something else")
			require.NoError(t, tryPass(t, h))
			require.Equal(t, 2, strings.Count(c.log.String(), "failed; trying again until it works"), c.log.String())
		})
	}
}

// A step that has more to do gets a tenth of a second even when the steps before it have used up the pass.
func TestAStepHasAShareThoughTheTimeIsOver(t *testing.T) {
	in(t, func(t *testing.T, _ *cluster, h *Handler, now time.Time) {
		p := &pass{Handler: h, until: now, failed: map[string]error{}}
		done := 0
		more := p.work(t.Context(), []step{{"endless", func(context.Context) (bool, error) {
			done++
			time.Sleep(10 * time.Millisecond)
			return true, nil
		}}})
		require.True(t, more)
		require.Equal(t, 10, done)
	})
}

// Steps with more to do share what time is left, and take it up again, in turns, until it is over.
func TestStepsShareTheTime(t *testing.T) {
	in(t, func(t *testing.T, _ *cluster, h *Handler, now time.Time) {
		p := &pass{Handler: h, until: now.Add(3 * time.Second), failed: map[string]error{}}
		done := map[string]int{}
		work := func(name string, calls int) step {
			return step{name, func(context.Context) (bool, error) {
				done[name]++
				time.Sleep(100 * time.Millisecond)
				return done[name] < calls, nil
			}}
		}
		require.False(t, p.work(t.Context(), []step{work("a", 12), work("b", 12), work("c", 1)}), "all is done")
		require.Equal(t, map[string]int{"a": 12, "b": 12, "c": 1}, done)
		require.Equal(t, 2500*time.Millisecond, time.Since(now), "and no longer")

		clear(done)
		p.until = time.Now().Add(3 * time.Second)
		require.True(t, p.work(t.Context(), []step{work("a", 100), work("b", 100), work("c", 1)}))
		require.Equal(t, map[string]int{"a": 15, "b": 14, "c": 1}, done, "a third, a half of the rest, and so on")
	})
}

func TestAPassThatHangsIsGivenUp(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.hangs = true
		require.NoError(t, tryPass(t, h))
		require.Equal(t, hardLimit, time.Since(now))
		require.True(t, h.unfinished)
	})
}
