package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var t0 = time.UnixMilli(1_700_000_000_000)

func TestSteps(t *testing.T) {
	assert.Equal(t, []int{100, 150, 225, 337}, steps(100, 1.5, 500))
}

func TestStairs(t *testing.T) {
	s := stairs{loads: []int{20, 200}, warm: 3 * time.Second, steady: time.Second, window: 5 * time.Second}
	groups, windows := s.plan(t0)
	assert.Equal(t, []group{{20, t0}, {180, t0.Add(9 * time.Second)}}, groups, "each load adds to the one before")
	assert.Equal(t, []span{{t0.Add(4 * time.Second), t0.Add(9 * time.Second)}, {t0.Add(10 * time.Second), t0.Add(15 * time.Second)}}, windows)
}

func TestPhasesAreSpread(t *testing.T) {
	all := phases([]group{{100, t0}, {4, t0.Add(time.Minute)}})
	assert.Len(t, all, 104)
	assert.False(t, slices.IsSorted(all[:100]))
	slices.Sort(all)
	for i, at := range all[:100] {
		assert.Equal(t, t0.UnixMilli()+int64(i)*10, at)
	}
	assert.Equal(t, t0.Add(time.Minute+750*time.Millisecond).UnixMilli(), all[103])
}

func TestTooMuch(t *testing.T) {
	kept := Fires{Due: 100, Started: 99.5, Late: Late{P99: 20}}
	late := Fires{Due: 100, Started: 100, Late: Late{P99: 1000}}
	slow := Fires{Due: 100, Started: 95}
	lost := Fires{Due: 100, Started: 80}
	assert.True(t, kept.keptUp())
	assert.False(t, late.keptUp())
	assert.False(t, slow.keptUp())
	assert.False(t, tooMuch([]Fires{kept}))
	assert.False(t, tooMuch([]Fires{slow}), "a JVM that is new may be slow at first")
	assert.False(t, tooMuch([]Fires{slow, kept, late}))
	assert.True(t, tooMuch([]Fires{kept, slow, late}))
	assert.True(t, tooMuch([]Fires{kept, lost}))
}
