package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/proof/claimtime"
)

// TestALineTakesItsTime also sees that it breaks with either side, and leaves nothing open.
func TestALineTakesItsTime(t *testing.T) {
	s, err := openSite(t.Context(), Options{}, extent{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close(context.Background())) })
	const delay = 20 * time.Millisecond
	err = s.byLine(t.Context(), delay, func(dsn string) error {
		db, err := openPool(dsn, 1)
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		require.NoError(t, db.PingContext(t.Context()))
		began := time.Now()
		var text string
		require.NoError(t, db.GetContext(t.Context(), &text, `SELECT REPEAT('x', 1000000)`))
		assert.Len(t, text, 1_000_000)
		took := time.Since(began)
		assert.GreaterOrEqual(t, took, delay, "there and back")
		assert.Less(t, took, 10*delay, "not for each part of an answer")
		return nil
	})
	require.NoError(t, err)
}

func TestClaimsAreTimed(t *testing.T) {
	s, err := openSite(t.Context(), Options{}, extent{claimSizes: []claimtime.Size{{Fires: 1, Claims: 3}, {Fires: 20, Claims: 3}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close(context.Background())) })
	var r Report
	require.NoError(t, s.distance(t.Context(), &r))
	require.Len(t, r.ClaimTimes, 2*len(delays))
	for _, c := range r.ClaimTimes {
		assert.Greater(t, c.MedianMs, c.DelayMs, "%+v", c)
		assert.GreaterOrEqual(t, c.P99Ms, c.MedianMs)
	}
	assert.Len(t, r.claimTimeTable().rows, 2*len(delays))
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	c := Comparison{Base: []float64{1, 2, 4}, Head: []float64{2, 1, 4}}
	assert.Equal(t, []float64{0.5, 1, 2}, c.ratios())
	assert.InDelta(t, 1, median(c.ratios()), 0)
}
