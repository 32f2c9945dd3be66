package qrtz_test

import (
	"os"
	"path/filepath"
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

// A test is looked for beside what it tests. What tests of several files share is in main_test.go.
func TestATestFileHasTheNameOfItsSource(t *testing.T) {
	for _, folder := range []string{".", "app", "misfire", "node", "poller", "pool", "schema"} {
		tests, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, tests, folder)
		for _, test := range tests {
			if name := filepath.Base(test); name == "main_test.go" || name == "example_test.go" {
				continue
			}
			source := strings.TrimSuffix(strings.TrimSuffix(test, "_test.go"), "_linux") + ".go"
			require.FileExists(t, source, "what %s tests", test)
		}
	}
}
