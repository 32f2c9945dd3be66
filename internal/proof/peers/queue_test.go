package main

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	p := pace{time.Second, []int{20, 200}, []time.Duration{3 * time.Second, 2 * time.Second}}
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	assert.Equal(t, []ask{{span{t0, at(1)}, 20}, {span{at(1), at(4)}, 20}, {span{at(4), at(6)}, 200}}, p.asks(t0))
}

func TestWaits(t *testing.T) {
	micro := t0.UnixMicro()
	e := ending{
		Committed: map[int64]int64{1: micro - 1, 2: micro, 3: micro + 100, 4: micro + 1000},
		Started:   map[int64]int64{2: micro + 70, 3: micro + 90},
	}
	all, err := e.waits(span{t0, t0.Add(time.Millisecond)})
	require.NoError(t, err)
	assert.ElementsMatch(t, []int64{70, 1}, all, "1 is before the span, 4 after it, and 3 began before its commit was known")
	_, err = e.waits(span{t0, t0.Add(time.Second)})
	require.ErrorContains(t, err, "run 4 was enqueued and has not begun")
}

func TestEach(t *testing.T) {
	var mu sync.Mutex
	seen := map[int64]bool{}
	n, err := each(4, func(next func() int64) error {
		for range 10 {
			one := next()
			mu.Lock()
			seen[one] = true
			mu.Unlock()
		}
		return nil
	})
	require.NoError(t, err)
	assert.EqualValues(t, 40, n)
	assert.Len(t, seen, 40)
	_, err = each(2, func(func() int64) error { return errors.New("refused") })
	require.ErrorContains(t, err, "refused")
}
