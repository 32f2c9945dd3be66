package misfire

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

func TestOneThatIsStuckIsTold(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, _ time.Time) {
		c.due = []run.Stuck{{Class: "gone"}}
		require.NoError(t, tryPass(t, h))
		require.Equal(t, []run.Stuck{{Class: "gone", Why: NoHandler}}, c.told)

		c.due = nil
		h.cfg.Stuck = func([]run.Stuck) { t.Error("told of nothing") }
		require.NoError(t, tryPass(t, h))
	})
}

func TestAHandlerThatTellsNothing(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, _ *Handler, now time.Time) {
		h := New(c, c, c, c, Config{Interval: interval, MisfireAfter: misfireAfter, Log: zerolog.New(&c.log)})
		c.due, c.abandoned = []run.Stuck{{Class: "gone"}}, []int64{3}
		c.add(1, "tick", time.Second, now.Add(-time.Hour))
		require.NoError(t, h.FullPass(t.Context()))
	})
}
