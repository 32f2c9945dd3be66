package cron

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	docTime = "2006-01-02 15:04:05"
	docFire = "Mon 2006-01-02 15:04:05 -0700"
)

var (
	docFence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	docRow   = regexp.MustCompile("(?m)^\\| `([^|]*)` \\| (at|every)( [^|]*) \\|$")
)

// docBlock is a fenced example: `key: value` lines, and under `fires:` one fire a line.
type docBlock struct {
	values map[string]string
	fires  []string
}

func readDoc(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/schedules.md")
	require.NoError(t, err)
	return string(text)
}

// docExamples returns the fenced examples of one kind.
func docExamples(t *testing.T, kind string) []string {
	t.Helper()
	var found []string
	for _, m := range docFence.FindAllStringSubmatch(readDoc(t), -1) {
		require.Contains(t, []string{"next", "refused", "simple", "misfire"}, m[1], "an example without a check")
		if m[1] == kind {
			found = append(found, m[2])
		}
	}
	return found
}

func docBlocks(t *testing.T, kind string) []docBlock {
	t.Helper()
	var blocks []docBlock
	for _, text := range docExamples(t, kind) {
		b := docBlock{values: map[string]string{}}
		for line := range strings.Lines(text) {
			if fire, ok := strings.CutPrefix(line, "  "); ok {
				b.fires = append(b.fires, strings.TrimSpace(fire))
				continue
			}
			key, value, ok := strings.Cut(line, ":")
			require.True(t, ok, line)
			b.values[key] = strings.TrimSpace(value)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// at reads a time of the block, in the zone or with an offset of its own.
func (b docBlock) at(t *testing.T, key string, loc *time.Location) time.Time {
	t.Helper()
	if at, err := time.Parse(docTime+" -0700", b.values[key]); err == nil {
		return at
	}
	at, err := time.ParseInLocation(docTime, b.values[key], loc)
	require.NoError(t, err)
	return at
}

func (b docBlock) schedule(t *testing.T) *Schedule {
	t.Helper()
	var opts []Option
	if b.values["rule"] == "quartz" {
		opts = append(opts, QuartzDST())
	}
	return mustParse(t, b.values["expr"], b.values["zone"], opts...)
}

func TestDocNext(t *testing.T) {
	blocks := docBlocks(t, "next")
	require.Len(t, blocks, 16)
	for _, b := range blocks {
		s := b.schedule(t)
		at := b.at(t, "after", s.loc)
		require.NotEmpty(t, b.fires)
		for _, want := range b.fires {
			at = s.Next(at)
			got := "never"
			if !at.IsZero() {
				got = at.Format(docFire)
			}
			require.Equal(t, want, got, "%v", b.values)
		}
	}
}

func TestDocRefused(t *testing.T) {
	examples := docExamples(t, "refused")
	require.Len(t, examples, 7)
	for _, text := range examples {
		expr, want, ok := strings.Cut(strings.TrimSpace(text), "\n")
		require.True(t, ok)
		_, err := Parse(expr, nil)
		require.EqualError(t, err, want)
	}
}

func TestDocMeanings(t *testing.T) {
	rows := docRow.FindAllStringSubmatch(readDoc(t), -1)
	require.Len(t, rows, 13)
	for _, row := range rows {
		require.Equal(t, row[2]+row[3], mustParse(t, row[1], "UTC").Describe(), row[1])
	}
}

// SIMPLE schedules are the engine's; here only the arithmetic of the examples is checked.
func TestDocSimple(t *testing.T) {
	blocks := docBlocks(t, "simple")
	require.Len(t, blocks, 3)
	for _, b := range blocks {
		every, err := time.ParseDuration(b.values["every"])
		require.NoError(t, err)
		count, err := strconv.Atoi(b.values["count"])
		require.NoError(t, err)
		end := time.Unix(1<<40, 0)
		if b.values["end"] != "" {
			end = b.at(t, "end", time.UTC)
		}
		at := b.at(t, "start", time.UTC)
		for n, want := range b.fires {
			got := "never"
			if (count < 0 || n < count) && !at.After(end) {
				got = at.Format(docTime)
			}
			require.Equal(t, want, got, "%v", b.values)
			at = at.Add(every)
		}
	}
}

func TestDocMisfire(t *testing.T) {
	blocks := docBlocks(t, "misfire")
	require.Len(t, blocks, 4)
	for _, b := range blocks {
		s := b.schedule(t)
		up := b.at(t, "up", s.loc)
		var missed []string
		at := s.Next(b.at(t, "down", s.loc))
		for ; !at.After(up); at = s.Next(at) {
			missed = append(missed, at.Format(time.TimeOnly))
		}
		require.Equal(t, b.values["missed"], strings.Join(missed, " "))
		require.Equal(t, b.values["next"], at.Format(docTime))
		runs := map[string]int{"FIRE_ONCE": 1, "SKIP": 0, "CATCH_UP": len(missed), "PAUSED": 0}
		require.Equal(t, b.values["runs"], strconv.Itoa(runs[b.values["policy"]]))
	}
}
