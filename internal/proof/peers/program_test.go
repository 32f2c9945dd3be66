package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReaped(t *testing.T) {
	stat := "12 (a (odd) name) S 1 12 12 0 -1 4194304 1 2 3 4 100 50 250 30 20 0 1"
	assert.Equal(t, 2800*time.Millisecond, reaped(stat))
	assert.Zero(t, reaped("12 (x) S"))
}

func TestFamilyCountsChildren(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	before := family(os.Getpid())
	require.NoError(t, exec.CommandContext(t.Context(), "/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run())
	assert.Greater(t, family(os.Getpid()), before)
}

func TestFind(t *testing.T) {
	_, ok := find("no-such-program", "/nowhere/*/bin")
	assert.False(t, ok)
	path, ok := find("sh")
	assert.True(t, ok)
	assert.True(t, strings.HasSuffix(path, "/sh"))
}
