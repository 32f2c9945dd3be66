package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the database's clock showed a while ago, it showed by the offset of that time.
func TestAnEarlierTimeIsOursByTheOffsetOfThen(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	var c serverClock
	require.Equal(t, []span{{at(10), at(20)}}, c.ours(at(10), at(20)))
	c.see(at(100), 65*time.Second)
	c.see(at(200), 62*time.Second)
	c.see(at(300), 59*time.Second)
	require.Equal(t, []span{{at(50), at(60)}}, c.ours(at(50), at(60)))
	require.Equal(t, []span{{at(238), at(240)}}, c.ours(at(300), at(302)), "and not by that of now")
	twice := c.ours(at(361), at(362)) // it stepped back by 3 s
	require.Equal(t, []span{{at(299), at(300)}, {at(302), at(303)}}, twice)
	require.Empty(t, c.ours(at(140), at(150)), "it never showed them")
}
