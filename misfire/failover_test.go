package misfire

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

func TestRunsThatAreLostAreToldAndLogged(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, _ time.Time) {
		var told []int
		h.cfg.Lost = func(lost []run.LostRun) { told = append(told, len(lost)) }
		c.abandoned, c.held = []int64{3, 4, 5}, map[int64]int{3: 2, 5: 1}
		require.NoError(t, h.LoseAbandoned(t.Context()))
		require.Equal(t, []int{2, 0, 1}, told)
		require.Contains(t, c.log.String(), `"instance":3,"runs":2`)
		require.Contains(t, c.log.String(), `"instance":5,"runs":1`)
		require.NotContains(t, c.log.String(), `"instance":4`, "another node was faster")
	})
}

// An error with one of several does not keep the others from being lost.
func TestEachAbandonedInstanceIsTried(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, h *Handler, _ time.Time) {
		c.abandoned = []int64{3, 4}
		c.err["free overlap keys"], c.err["lose"] = errors.New("locked"), errAway
		require.EqualError(t, h.LoseAbandoned(t.Context()), "locked\naway\naway")
		require.Equal(t, []int64{3, 4}, c.lost)
	})
}
