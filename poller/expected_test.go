package poller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExpectedRunsAreLookedForLessAndLess(t *testing.T) {
	var e expected
	now := time.Now()
	_, any := e.next()
	require.False(t, any)
	e.add(now, []int64{1, 2})
	e.add(now.Add(time.Millisecond), []int64{3})
	ids, _ := e.due(now)
	require.Equal(t, []int64{1, 2}, ids)
	e.found([]int64{1})
	ids, _ = e.due(now.Add(time.Millisecond))
	require.Equal(t, []int64{2, 3}, ids)
	at, any := e.next()
	require.True(t, any)
	require.Equal(t, now.Add(2*time.Millisecond), at)
	e.found([]int64{2, 3})
	require.False(t, e.any())
}

func TestExpectedRunsAreGivenUp(t *testing.T) {
	var e expected
	now := time.Now()
	e.add(now, []int64{1})
	looks := 0
	for ; e.any(); looks++ {
		at, _ := e.next()
		require.LessOrEqual(t, at.Sub(now), 2*expectFor)
		_, _ = e.due(at)
	}
	require.Less(t, looks, 14)
}

func TestTooManyExpectedRunsAreForgotten(t *testing.T) {
	var e expected
	now := time.Now()
	e.add(now, from(1, mostExpected+1))
	ids, tooMany := e.due(now)
	require.Empty(t, ids)
	require.True(t, tooMany)
	require.False(t, e.any())
}

// While no slot is free, nothing is looked for, however much is added.
func TestExpectedRunsAreBounded(t *testing.T) {
	var e expected
	now := time.Now()
	for id := range int64(20 * mostExpected) {
		e.add(now, []int64{id})
		require.LessOrEqual(t, len(e.groups), mostKept)
	}
	at, any := e.next()
	require.True(t, any)
	require.False(t, at.After(now))
	_, tooMany := e.due(now)
	require.True(t, tooMany)
	require.False(t, e.any())
	e.add(now, []int64{1})
	ids, tooMany := e.due(now)
	require.Equal(t, []int64{1}, ids)
	require.False(t, tooMany)
}
