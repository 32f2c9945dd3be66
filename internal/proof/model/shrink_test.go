package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFailureIsMadeAsShortAsItCanBe(t *testing.T) {
	steps := drawHistory(true, 100).Example(7)
	fails := func(steps []Step) bool {
		polls, late := 0, false
		for _, s := range steps {
			switch {
			case s.Do == "poll":
				polls++
			case s.Do == "advance" && s.By >= 1000:
				late = polls > 0
			}
		}
		return late && polls > 1
	}
	require.True(t, fails(steps))
	least := shrink(steps, time.Minute, fails)
	require.Len(t, least, 3, "%v", least)
	for _, s := range least {
		require.Zero(t, s.At, "%v", least)
		if s.Do == "advance" {
			require.Equal(t, ms(1000), s.By)
		}
	}
}
