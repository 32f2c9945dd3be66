package main

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// series are n samples of one thing.
func series(what string, n int, at func(i int) float64) (all []usage) {
	for i := range n {
		all = append(all, usage{int64(i), map[string]float64{what: at(i)}})
	}
	return all
}

func TestWhatLeaksGrows(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		what    string
		at      func(i int) float64
		tooMuch bool
	}{
		"steady":                          {"goroutines", func(int) float64 { return 60 + dice.Float64()*5 }, false},
		"busy at the end":                 {"goroutines", func(i int) float64 { return 60 + float64(max(0, i-90))*float64(i%5)*100 }, false},
		"grows until it is warm":          {"heap MB", func(i int) float64 { return float64(min(i, 19)) }, false},
		"comes and goes":                  {"connections", func(i int) float64 { return float64(10 + 90*(i/10%2)) }, false},
		"one claim in ten leaks":          {"goroutines", func(i int) float64 { return 60 + float64(i) + dice.Float64()*5 }, true},
		"leaks under a load that changes": {"goroutines", func(i int) float64 { return 60 + float64(i) + float64(i%7)*50 }, true},
		"a kilobyte a run":                {"heap MB", func(i int) float64 { return 3 + float64(i)/5 }, true},
		"some more of much":               {"resident MB", func(i int) float64 { return 400 + float64(i) }, false},
		"connections that are not closed": {"connections", func(i int) float64 { return 12 + float64(i)/2 }, true},
		"history that is not deleted":     {"rows bounded", func(i int) float64 { return 200 + 20*float64(i) }, true},
		"history that is deleted":         {"rows bounded", func(i int) float64 { return 200 + float64(i%20)*20 }, false},
	} {
		all := growthsOf("a-n1-1", series(c.what, 100, c.at))
		require.Len(t, all, 1, name)
		require.Equal(t, c.tooMuch, all[0].tooMuch, "%s: %s", name, all[0])
	}
}

// A process that was killed soon says nothing, whatever it did.
func TestAShortLifeSaysNothing(t *testing.T) {
	require.Empty(t, growthsOf("a-n1-1", series("goroutines", fewSamples, func(i int) float64 { return float64(100 * i) })))
}

func TestAProcessMeasuresItself(t *testing.T) {
	path := useOf(filepath.Join(t.TempDir(), "a-n1-1.jsonl"))
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, watchSelf(ctx, path, time.Millisecond))
	require.Eventually(t, func() bool {
		all, err := readSeries(path, time.Now())
		return err == nil && len(all) > 2
	}, 20*time.Second, 10*time.Millisecond)
	cancel()
	all, err := readSeries(path, time.Now())
	require.NoError(t, err)
	for _, what := range []string{"heap MB", "resident MB", "goroutines", "descriptors", "connections"} {
		require.Contains(t, all[0].Used, what)
	}
	require.Positive(t, all[0].Used["descriptors"])

	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = file.WriteString(`{"At":1,"Us`)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	cut, err := readSeries(path, time.Now())
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(cut), len(all), "a line that was cut off is left out")
	none, err := readSeries(path+"none", time.Now())
	require.NoError(t, err)
	require.Empty(t, none)
}
