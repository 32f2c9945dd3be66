package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBenchRefuses(t *testing.T) {
	for _, args := range [][]string{{"--only", "claims,nothing"}, {"--workers", "0"}, {"floor"}} {
		r := run(t, nil, append([]string{"bench"}, args...)...)
		assert.Equal(t, 2, r.code, args)
	}
	assert.NotContains(t, run(t, nil, "bench", "--help").stdout, "A node of a benchmark", "that is between the two of them")
}

// TestBenchWritesItsFiles measures the least there is.
func TestBenchWritesItsFiles(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	require.NoError(t, os.WriteFile(page, []byte("above\n<!-- qrtz bench: what follows is generated -->\nold\n<!-- qrtz bench: end -->\nbelow\n"), 0o600))
	args := []string{"bench", "--quick", "--only", "startup", "--json", filepath.Join(dir, "json"), "--svg", filepath.Join(dir, "svg"), "--markdown", page}
	for range 2 {
		r := run(t, nil, args...)
		require.Zero(t, r.code, r.stderr)
		assert.Contains(t, r.stdout, "process start to first fire")
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Regexp(t, `(?s)^above\n<!--.*### Conditions\n.*### Starting and stopping.*<!-- qrtz bench: end -->\nbelow\n$`, string(text))
	assert.NotContains(t, string(text), "old")
	for _, name := range []string{"json", "svg"} {
		assert.FileExists(t, filepath.Join(dir, name))
	}
}
