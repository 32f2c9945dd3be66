package cron

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// vector is one line of testdata: an answer of Quartz 2.3.2.
type vector struct {
	ID, Cat, Env, Expr, TZ, Comment string
	After                           int64
	N                               int
	Next                            []int64
	Error                           bool
	Maxyear, Tzdiff                 bool
}

func readVectors(tb testing.TB, name string) []vector {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(tb, err)
	var all []vector
	for line := range bytes.Lines(text) {
		var v vector
		require.NoError(tb, json.Unmarshal(line, &v))
		all = append(all, v)
	}
	return all
}

// A step behind a name, which Quartz drops without a word. The vectors call some of these lines
// ordinary, yet it is one of the defects that are not wanted: they are refused.
var namedStep = regexp.MustCompile(`(?i)[a-z]{3}/\d`)

// odd tells which lines show what Quartz makes of malformed or doubtful input. They need not match.
func (v vector) odd() bool {
	return v.Cat == "quirk" || strings.HasPrefix(v.Cat, "lenient_") || strings.HasPrefix(v.Comment, "LENIENT")
}

// optional tells which lines need not be matched.
func (v vector) optional() bool {
	return v.odd() || v.Maxyear || v.Tzdiff || namedStep.MatchString(v.Expr)
}

func (v vector) parse(tb testing.TB, opts ...Option) (*Schedule, error) {
	tb.Helper()
	loc, err := LoadLocation(v.TZ)
	require.NoError(tb, err)
	return Parse(v.Expr, loc, opts...)
}

// answer asks for up to n fires.
func (v vector) answer(s *Schedule) []int64 {
	var fires []int64
	for at := time.UnixMilli(v.After); len(fires) < v.N; {
		if at = s.Next(at); at.IsZero() {
			break
		}
		fires = append(fires, at.UnixMilli())
	}
	return fires
}

func TestQuartzAnswers(t *testing.T) {
	for name, want := range map[string]int{"vectors.jsonl": 13693, "handpicked.jsonl": 61} {
		t.Run(name, func(t *testing.T) {
			checked := 0
			for _, v := range readVectors(t, name) {
				s, err := v.parse(t, QuartzDST())
				switch {
				case v.Error:
					checked++
					require.Error(t, err, "%s %q", v.ID, v.Expr)
				case v.optional():
				default:
					checked++
					require.NoError(t, err, "%s %q", v.ID, v.Expr)
					require.Equal(t, v.Next, v.answer(s), "%s %q %s %s", v.ID, v.Expr, v.TZ, v.Comment)
				}
			}
			require.Equal(t, want, checked)
		})
	}
}

// The default rule differs from Quartz's around clock changes and nowhere else.
func TestDefaultRuleOnQuartzAnswers(t *testing.T) {
	for name, want := range map[string]int{"vectors.jsonl": 7810, "handpicked.jsonl": 37} {
		t.Run(name, func(t *testing.T) {
			checked := 0
			for _, v := range readVectors(t, name) {
				if v.Error || v.optional() || v.Env == "gap" || v.Env == "overlap" {
					continue
				}
				s, err := v.parse(t)
				require.NoError(t, err)
				got := v.answer(s)
				if nearChange(v.Next, s.loc) || nearChange(got, s.loc) {
					continue
				}
				checked++
				require.Equal(t, v.Next, got, "%s %q %s %s", v.ID, v.Expr, v.TZ, v.Comment)
			}
			require.Equal(t, want, checked)
		})
	}
}

// nearChange tells whether a clock change lies within a day of any of the times.
func nearChange(times []int64, loc *time.Location) bool {
	for _, ms := range times {
		at := time.UnixMilli(ms).In(loc)
		_, before := at.Add(-24 * time.Hour).Zone()
		_, now := at.Zone()
		_, after := at.Add(24 * time.Hour).Zone()
		if before != now || now != after {
			return true
		}
	}
	return false
}

// Quartz drops a step behind a name. We refuse it, in all the lines that have one.
func TestNamedStepsAreRefused(t *testing.T) {
	refused := 0
	for _, v := range readVectors(t, "vectors.jsonl") {
		if v.Error || v.odd() || v.Maxyear || !namedStep.MatchString(v.Expr) {
			continue
		}
		_, err := v.parse(t)
		require.ErrorContains(t, err, "a step cannot follow names", v.Expr)
		refused++
	}
	require.Equal(t, 59, refused)
}

// Doubtful input is refused or understood as Quartz understands it, never in a third way.
func TestOddInputIsNotReadDifferently(t *testing.T) {
	accepted, refused := 0, 0
	for _, v := range readVectors(t, "vectors.jsonl") {
		if !v.odd() || v.Error || v.Maxyear || v.Tzdiff {
			continue
		}
		s, err := v.parse(t, QuartzDST())
		if err != nil {
			refused++
			continue
		}
		accepted++
		require.Equal(t, v.Next, v.answer(s), "%s %q %s", v.ID, v.Expr, v.TZ)
	}
	require.Equal(t, []int{91, 495}, []int{accepted, refused})
}
