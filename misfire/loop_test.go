package misfire

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pass that is cut off leaves the database a third of the interval, and no longer.
func TestTheRestOfAPassComesAfterAThirdOfTheInterval(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.derive, c.work = 100, 100*time.Millisecond
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(2*interval))
		defer cancel()
		h.Run(ctx)
		between := c.entered[1].Sub(c.entered[0])
		require.GreaterOrEqual(t, between, 2*interval/3, "a third for the pass, a third of pause")
		require.LessOrEqual(t, between, 2*interval/3+time.Second)
	})
}

func TestAFullPassDoesAllThereIsAndSaysWhatWentWrong(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, _ time.Time) {
		c.derive, c.work = 200, 100*time.Millisecond
		require.NoError(t, h.FullPass(t.Context()))
		require.Negative(t, c.derive)

		c.derive = 2000
		require.EqualError(t, h.FullPass(t.Context()), "misfire handling: not done after 1m0s")

		c.derive = 0
		c.err["derive"], c.err["adopt"] = errAway, errAway
		require.EqualError(t, h.FullPass(t.Context()), "adopt: away\nderive job states: away")
		c.err = map[string]error{"enter": errAway}
		require.ErrorIs(t, h.FullPass(t.Context()), errAway)
	})
}

func TestNoPassBeginsAfterTheEnd(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(interval+time.Second))
		defer cancel()
		h.Run(ctx)
		require.Len(t, c.entered, 2)
	})
}

func TestAnErrorAfterTheEndIsNotLogged(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, now time.Time) {
		c.work, c.awayUntil = 10*time.Second, now.Add(time.Hour)
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(5*time.Second))
		defer cancel()
		h.Run(ctx)
		require.Len(t, c.entered, 1)
		require.Empty(t, c.log.String())
	})
}
