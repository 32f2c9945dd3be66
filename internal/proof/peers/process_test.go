package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shell starts a process that is a line of shell.
func shell(t *testing.T, script string) *process {
	t.Helper()
	p, err := start("/bin/sh", []string{"-c", script}, nil)
	require.NoError(t, err)
	t.Cleanup(crew{p}.kill)
	return p
}

func TestTheLinesOfACrew(t *testing.T) {
	c := crew{
		shell(t, `echo '{"ready":"one"}'; echo '{"window":{"index":0,"late":[3,-1]}}'; cat >/dev/null; echo '{"end":{"first":8,"started":{"1":8,"2":9},"committed":{"1":7}}}'`),
		shell(t, `echo '{"ready":"two"}'; echo '{"window":{"index":0,"late":[5]}}'; cat >/dev/null; echo '{"end":{"first":6,"started":{"2":6},"committed":{"2":5}}}'`),
	}
	require.NoError(t, c.join(t.Context()))
	assert.Equal(t, "one", c.about())
	w, err := c.window(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int64{3, -1, 5}, w.Late)
	end, err := c.stop()
	require.NoError(t, err)
	assert.EqualValues(t, 6, end.First)
	assert.Equal(t, map[int64]int64{1: 8, 2: 6}, end.Started, "the first start of each counts")
	assert.Equal(t, 1, end.Twice, "run 2 was started by both")
	assert.Equal(t, map[int64]int64{1: 7, 2: 5}, end.Committed)
}

func TestACrewSaysWhyOneHasEnded(t *testing.T) {
	c := crew{shell(t, `echo 'no such table' >&2; exit 3`)}
	err := c.join(t.Context())
	require.ErrorIs(t, err, errEnded)
	_, err = c.stop()
	require.ErrorContains(t, err, "no such table")
	c = crew{shell(t, `echo nonsense; cat >/dev/null`)}
	require.ErrorContains(t, c.join(t.Context()), `it said "nonsense`)
}

func TestANodeEndsWithItsInput(t *testing.T) {
	p := shell(t, `cat >/dev/null`)
	require.NoError(t, p.in.Close())
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("it still runs")
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var end tail
	for range 3000 {
		_, _ = end.Write([]byte("ab"))
	}
	_, _ = end.Write([]byte("the end\n"))
	assert.Len(t, end.text, tailSize)
	assert.Contains(t, end.String(), "abthe end")
}
