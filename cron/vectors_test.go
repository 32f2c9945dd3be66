package cron

import (
	"bufio"
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

func readVectors(t testing.TB, name string) []vector {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	var all []vector
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var v vector
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		all = append(all, v)
	}
	require.NoError(t, lines.Err())
	return all
}

// A step behind a name, which Quartz drops without a word. The vectors call some of these lines
// ordinary, yet it is one of the defects that are not wanted: they are refused.
var namedStep = regexp.MustCompile(`(?i)[a-z]{3}/\d`)

// optional tells which lines need not be matched.
func (v vector) optional() bool {
	return v.Maxyear || v.Tzdiff || v.Cat == "quirk" || strings.HasPrefix(v.Cat, "lenient_") ||
		strings.HasPrefix(v.Comment, "LENIENT") || namedStep.MatchString(v.Expr)
}

func (v vector) parse(t testing.TB, opts ...Option) (*Schedule, error) {
	t.Helper()
	loc, err := LoadLocation(v.TZ)
	require.NoError(t, err)
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
