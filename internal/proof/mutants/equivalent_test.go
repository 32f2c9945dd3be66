package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func equivalents(t *testing.T, text string) (map[string]string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "equivalent.txt")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return readEquivalents(path)
}

func TestEquivalentsHaveReasons(t *testing.T) {
	reasons, err := equivalents(t, "# all\na: b -> c\nd: e -> f\n\tThe same,\n\twritten otherwise.\n\ng: h -> i\n\tNo.\n")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a: b -> c": "The same, written otherwise.", "d: e -> f": "The same, written otherwise.", "g: h -> i": "No."}, reasons)

	_, err = equivalents(t, "a: b -> c\n")
	assert.ErrorContains(t, err, `no reason for "a: b -> c"`)
	_, err = equivalents(t, "\tBecause.\n")
	assert.ErrorContains(t, err, ":1: a reason without a mutation")
	none, err := readEquivalents(filepath.Join(t.TempDir(), "missing"))
	assert.NoError(t, err)
	assert.Empty(t, none)
}
