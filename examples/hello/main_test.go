package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/examples/internal/program"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// The README shows this program, to the letter.
func TestTheREADMEShowsThisProgram(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	start := strings.Index(string(source), "package main\n") // behind its comment
	require.Contains(t, string(readme), "```go\n"+string(source[start:])+"```\n")
}

// It greets in a database that has nothing, and again in one that has its tables and its job.
func TestItGreetsAndStopsOnSIGTERM(t *testing.T) {
	dsn := testdb.DSN(t)
	for range 2 {
		hello := program.Start(t, dsn)
		hello.Await("hello world, due at ")
		hello.Stop()
	}
}

// When one of two is killed, the other greets, and no greeting comes twice.
func TestWhenOneIsKilledTheOtherContinues(t *testing.T) {
	dsn := testdb.DSN(t)
	first := program.Start(t, dsn)
	first.Await("hello world, due at ")
	second := program.Start(t, dsn)
	second.Await("joined")
	first.Kill()
	second.AwaitAnother("hello world, due at ")
	second.Stop()
	due := regexp.MustCompile(`due at \S+`).FindAllString(first.Log()+second.Log(), -1)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(due))), len(due), "each of %v once", due)
}
