package execute

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFiresAreInOrderAndLimited(t *testing.T) {
	e := parsed(t, everySecond(5), 1, at(1))
	require.Equal(t, []time.Time{at(1)}, e.Fires(at(1), 10), "until is included")
	require.Empty(t, e.Fires(at(1).Add(-1), 10))
	require.Empty(t, e.Fires(at(100), 0))
	require.Len(t, e.Fires(at(100), 2), 2)
	fires := e.Fires(at(100), 100)
	require.Len(t, fires, 4, "one of five is behind")
	for i, fire := range fires {
		require.Equal(t, at(1+i).UnixMilli(), fire.UnixMilli())
	}
}
