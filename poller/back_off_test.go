package poller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of many nodes that are all behind, each waits after a claim, so that no more than some claim at once.
func TestOfManyNodesThatAreBehindSomeClaimAtOnce(t *testing.T) {
	for _, c := range []struct {
		nodes      int
		took, late time.Duration
		pause      time.Duration
	}{
		{30, 100 * time.Millisecond, time.Second, 650 * time.Millisecond},
		{8, 100 * time.Millisecond, time.Second, 100 * time.Millisecond},
		{30, time.Second, time.Second, longBackOff},
		{4, 100 * time.Millisecond, time.Second, 0},
		{30, dearClaim - time.Millisecond, time.Second, 0},
		{30, 100 * time.Millisecond, grace, 0},
	} {
		benched(t, 10, func(b *bench, now time.Time) {
			b.cluster.nodes = c.nodes
			b.put(every(1, time.Hour, now.Add(-c.late)))
			b.planAll()
			b.backOff(c.took)
			require.Equal(b.t, c.pause, b.backingOff(), "%+v", c)
			wait, _ := b.dispatch(b.t.Context())
			require.Len(b.t, b.won(), map[bool]int{true: 1, false: 0}[c.pause == 0], "%+v", c)
			if c.pause > 0 {
				require.Equal(b.t, c.pause, wait)
				rest(c.pause)
				_, _ = b.dispatch(b.t.Context())
				require.Len(b.t, b.won(), 1)
			}
		})
	}
}
