package main

import (
	"bytes"
	"go/token"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const fixture = "testdata/fixture"

func loadFixture(t *testing.T) (*board, []*source) {
	t.Helper()
	fset := token.NewFileSet()
	module, err := os.Getwd()
	require.NoError(t, err)
	sources, err := load(t.Context(), module, fset, "./"+fixture)
	require.NoError(t, err)
	return find(fset, sources), sources
}

func TestEachKindOfMutationIsFound(t *testing.T) {
	b, _ := loadFixture(t)
	var keys []string
	for _, p := range b.points {
		keys = append(keys, p.key)
	}
	assert.ElementsMatch(t, []string{
		"fixture ofAppSQL: SQL predicate removed: APPLICATION = ? -> true",
		"fixture ofAppSQL: SQL predicate removed: STATE <> 'N' -> true",
		"fixture listSQL: SQL predicate removed: ID > ? -> true",
		"fixture listSQL: SQL comparison moved: ID > ? -> ID >= ?",
		"fixture listSQL: SQL order reversed: ORDER BY ID -> reversed",
		"fixture listSQL: SQL limit moved: LIMIT 1 -> LIMIT 2",
		"fixture lockSQL: SQL column not set: STATE = 'Y' -> STATE = STATE",
		"fixture lockSQL: SQL predicate removed: ID = ? -> true",
		"fixture lockSQL: SQL predicate removed: (A < 1 OR B IS NULL) -> true",
		"fixture lockSQL: SQL alternative removed: A < 1 -> false",
		"fixture lockSQL: SQL alternative removed: B IS NULL -> false",
		"fixture lockSQL: SQL comparison moved: (A < 1 -> (A <= 1",
		"fixture Grade: condition negated: points < 0 -> !(points < 0)",
		"fixture Grade: bound moved: points < 0 -> points <= 0",
		"fixture Grade: constant moved: points < 0 -> points < -1",
		"fixture Grade: and/or swapped: points >= 50 && points <= 100 -> points >= 50 || points <= 100",
		"fixture Grade: condition negated: points >= 50 -> !(points >= 50)",
		"fixture Grade: condition negated: points <= 100 -> !(points <= 100)",
		"fixture Grade: bound moved: points >= 50 -> points > 50",
		"fixture Grade: constant moved: points >= 50 -> points >= 49",
		"fixture Grade: bound moved: points <= 100 -> points < 100",
		"fixture Grade: constant moved: points <= 100 -> points <= 101",
		"fixture Grade: statement dropped: grade = \"passed\" -> none",
		"fixture Untested: condition negated: i == 3 -> !(i == 3)",
		"fixture Untested: constant moved: i == 3 -> i == 4",
		"fixture Untested: statement dropped: break -> none",
		"fixture Untested: statement dropped: done <- true -> none",
		"fixture Late: condition negated: now.After(due.Add(window)) -> !(now.After(due.Add(window)))",
		"fixture Late: bound moved: now.After(due.Add(window)) -> !now.Before(due.Add(window))",
		"fixture Late: duration doubled: window -> 2 * window",
		"fixture Late: duration zeroed: window -> 0",
		"fixture Lock: SQL lock removed: FOR UPDATE SKIP LOCKED -> none",
		"fixture Lock: SQL lock removed: SKIP LOCKED -> none",
	}, keys)
}

func TestARewrittenFileCompilesAndKeepsItsLines(t *testing.T) {
	b, sources := loadFixture(t)
	module, err := os.Getwd()
	require.NoError(t, err)
	_, err = b.compile(t.Context(), module, t.TempDir(), sources)
	require.NoError(t, err)
	for _, p := range b.points {
		assert.False(t, p.dropped, p.key)
	}
	f := sources[0].files[0]
	assert.Equal(t, bytes.Count(f.text, []byte("\n")), bytes.Count(b.rewrite(f), []byte("\n")))
}

func TestPointsThatDoNotCompileAreDropped(t *testing.T) {
	b, sources := loadFixture(t)
	module, err := os.Getwd()
	require.NoError(t, err)
	p := b.points[0]
	f := p.file
	b.sites[f] = append(b.sites[f], &site{[]*point{p}, func([]*point) []edit {
		end := bytes.Index(f.text, []byte("grade, nil"))
		return []edit{{from: end, to: end, text: "nonsense, "}}
	}})
	p.line = 31
	_, err = b.compile(t.Context(), module, t.TempDir(), sources)
	require.NoError(t, err)
	assert.True(t, p.dropped)
}
