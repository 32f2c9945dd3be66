package cron

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/proof/firetimes"
)

var fuzzSeeds = []string{
	"0 0 12 * * ?", "* * * * * ?", "0 0/5 * * * ?", "0 30 2 * * ?", "/20 5-50/7,58 22-2 ? NOV-FEB FRI-MON 2020/3",
	"0 0 0 L-3W * ?", "0 0 0 31W * ?", "0 0 0 LW 2 ?", "0 0 0 L-30 * ? 2096-2104", "0 0 0 ? 2 2#5", "0 0 0 ? * friL", "0 0 0 ? * L",
	"0 0 12 ? * MON-FRI/2", "0 0 12 * *", "@daily", "*/0 * * * * ?", "0 0 0 29 2 ? 2100", "0 0 12 1,,2 * ?", "0 0 12 * * ? 2020 x", "日 0 12 * * ?",
}

func FuzzParse(f *testing.F) {
	for _, expr := range fuzzSeeds {
		f.Add(expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		s, err := Parse(expr, time.UTC)
		if err != nil {
			var parseErr *ParseError
			require.ErrorAs(t, err, &parseErr)
			require.NotEmpty(t, parseErr.Field)
			require.NotEmpty(t, parseErr.Reason)
			require.Contains(t, expr, parseErr.Value)
			require.GreaterOrEqual(t, parseErr.Pos, 1)
			require.LessOrEqual(t, parseErr.Pos, utf8.RuneCountInString(expr)+1)
			return
		}
		again, err := Parse(s.String(), time.UTC)
		require.NoError(t, err)
		require.Equal(t, s, again)
		require.NotEmpty(t, s.Describe())
		at := time.Unix(0, 0)
		for range 20 {
			next := s.Next(at)
			if next.IsZero() {
				return
			}
			require.True(t, next.After(at), "%s: %s after %s", expr, next, at)
			require.True(t, oracleOf(t, expr).Matches(next.Unix()), "%s: %s", expr, next)
			at = next
		}
	})
}

func FuzzNext(f *testing.F) {
	for i, expr := range fuzzSeeds {
		for j, c := range changes {
			if i%4 == j%4 {
				noon, err := time.Parse("2006-01-02 15", c.day+" 12")
				require.NoError(f, err)
				f.Add(expr, c.zone, noon.Unix()-int64(i+j)*7777, (i+j)%2 == 0)
			}
		}
	}
	f.Fuzz(func(t *testing.T, expr, zone string, unix int64, quartz bool) {
		loc, err := LoadLocation(zone)
		if err != nil {
			return
		}
		var opts []Option
		if quartz {
			opts = append(opts, QuartzDST())
		}
		s, err := Parse(expr, loc, opts...)
		if err != nil {
			return
		}
		after := time.Unix(unix, 0)
		next := s.Next(after)
		if next.IsZero() {
			return
		}
		require.True(t, next.After(after), "%s", next)
		require.LessOrEqual(t, next.Year(), LastYear+1)
		o := oracleOf(t, strings.TrimRight(expr, "\r\n"))
		steady := steadyAround(loc, next)
		if steady || s.rule != onceRule {
			walked := firetimes.Walk(loc, next, next.Add(time.Second))
			require.True(t, o.Matches(walked.Walls[0]), "%s does not match %s", next, expr)
		}
		if quartz {
			return // its answers around changes are those of the vectors
		}

		between := after.Add(next.Sub(after) / 2)
		require.Equal(t, next, s.Next(between), "asked at %s instead of %s", between, after)
		require.Equal(t, next, s.Next(next.Add(-time.Nanosecond)))

		// Walk the last two hours before the fire, or from long before a change that is near.
		start := next.Add(-2 * time.Hour)
		from := start
		if !steady {
			from = next.Add(-40 * time.Hour)
		}
		if start.Before(after) {
			start = after
		}
		walked := firetimes.Walk(loc, from, next.Add(time.Second))
		if walked.Walls[0] < 0 {
			return // before 1970, when nothing fires
		}
		want := walked.Once(o)
		if s.rule == realTimeRule {
			want = walked.RealTime(o)
		}
		want = slices.DeleteFunc(want, func(at int64) bool { return at <= start.Unix() })
		require.Equal(t, []int64{next.Unix()}, want, "%s after %s in %s", expr, after, zone)
	})
}

// steadyAround tells whether the clock runs without a jump for two days around.
func steadyAround(loc *time.Location, at time.Time) bool {
	_, offset := at.In(loc).Zone()
	for h := -24; h <= 24; h += 6 {
		if _, other := at.Add(time.Duration(h) * time.Hour).In(loc).Zone(); other != offset {
			return false
		}
	}
	return true
}
