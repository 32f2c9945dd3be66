package qrtz_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The code of docs/embedding.md is that of the Example tests, line by line.
func TestTheCodeOfThePageOnEmbeddingCompiles(t *testing.T) {
	page, err := os.ReadFile("docs/embedding.md")
	require.NoError(t, err)
	var examples strings.Builder
	for _, file := range []string{"example_test.go", "qrtztest/example_test.go"} {
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		examples.Write(code)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 6)
	for _, block := range blocks {
		indented := strings.ReplaceAll("\t"+strings.TrimSuffix(block[1], "\n"), "\n", "\n\t")
		require.Contains(t, examples.String(), strings.ReplaceAll(indented, "\n\t\n", "\n\n"))
	}
}
