package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mutate tries mutations of the fixture, and returns the report.
func mutate(t *testing.T, o options) string {
	t.Helper()
	t.Setenv("QRTZ_TEST_DSN", "none@tcp(127.0.0.1:1)/") // the fixture needs no database
	var out, progress bytes.Buffer
	o.packages, o.jobs, o.seed, o.progress = []string{fixture}, 2, 1, &progress
	o.out = filepath.Join(t.TempDir(), "report", "mutations.txt")
	require.NoError(t, run(t.Context(), o, &out), progress.String())
	if !o.list {
		written, err := os.ReadFile(o.out)
		require.NoError(t, err)
		assert.Equal(t, out.String(), string(written))
	}
	return out.String()
}

func TestWhatTheTestsOfTheFixtureNotice(t *testing.T) {
	report := mutate(t, options{})
	assert.Regexp(t, `fixture +33 +33 +14 +42.4% +14 +0 +19 +0\n`, report, "points, tried, noticed, share, own, others, none, equivalent")
	var survivors []string
	for _, m := range regexp.MustCompile(`(?m)^    fixture (\w+: \S+ [^:]+): (.*)$`).FindAllStringSubmatch(report, -1) {
		survivors = append(survivors, m[1]+": "+m[2])
	}
	assert.ElementsMatch(t, []string{
		"lockSQL: SQL column not set: STATE = 'Y' -> STATE = STATE",
		"lockSQL: SQL predicate removed: ID = ? -> true",
		"lockSQL: SQL predicate removed: (A < 1 OR B IS NULL) -> true",
		"lockSQL: SQL alternative removed: A < 1 -> false",
		"lockSQL: SQL alternative removed: B IS NULL -> false",
		"lockSQL: SQL comparison moved: (A < 1 -> (A <= 1",
		"Grade: bound moved: points < 0 -> points <= 0",
		"Grade: constant moved: points < 0 -> points < -1",
		"Grade: bound moved: points >= 50 -> points > 50",
		"Grade: constant moved: points >= 50 -> points >= 49",
		"Grade: bound moved: points <= 100 -> points < 100",
		"Grade: constant moved: points <= 100 -> points <= 101",
		"Untested: condition negated: i == 3 -> !(i == 3)",
		"Untested: constant moved: i == 3 -> i == 4",
		"Untested: statement dropped: break -> none",
		"Untested: statement dropped: done <- true -> none",
		"Late: bound moved: now.After(due.Add(window)) -> !now.Before(due.Add(window))",
		"Lock: SQL lock removed: FOR UPDATE SKIP LOCKED -> none",
		"Lock: SQL lock removed: SKIP LOCKED -> none",
	}, survivors)
	assert.Contains(t, report, "fixture/fixture.go:38 (0 tests reach it)\n    fixture Untested: statement dropped: break -> none\n      before: break\n      after:  none\n")
	assert.Contains(t, mutate(t, options{list: true}), "fixture/fixture.go:17 fixture listSQL: SQL limit", "a text of SQL has the line of its point")
}

func TestEquivalentsAreLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "equivalent.txt")
	require.NoError(t, os.WriteFile(path, []byte("fixture Untested: statement dropped: break -> none\nfixture Gone: x -> y\nrun Else: x -> y\n\tFor a test.\n"), 0o600))
	report := mutate(t, options{only: regexp.MustCompile(`Untested|Late: duration`), equivalents: path})
	assert.Regexp(t, `fixture +33 +5 +2 +40.0% +2 +0 +3 +1\n`, report)
	assert.Contains(t, report, "Equivalent, and left out:\n  fixture Untested: statement dropped: break -> none\n      For a test.\n")
	assert.Contains(t, report, "No such mutation, in equivalent.txt: fixture Gone: x -> y\n")
	assert.NotContains(t, report, "run Else", "of a package that is not mutated")
}

func TestTheTestsOfOtherPackagesAreTheSecondStage(t *testing.T) {
	report := mutate(t, options{with: []string{"testdata/user"}, only: regexp.MustCompile(`Untested`)})
	assert.Regexp(t, `fixture +33 +4 +2 +50.0% +0 +2 +2 +0\n`, report)
}

func TestASeedChoosesTheSample(t *testing.T) {
	first := mutate(t, options{list: true, sample: 5})
	assert.Len(t, regexp.MustCompile(`\n`).FindAllString(first, -1), 5)
	assert.Equal(t, first, mutate(t, options{list: true, sample: 5}))
	assert.Contains(t, mutate(t, options{list: true, sample: 6}), first, "a larger sample has the smaller one")
}
