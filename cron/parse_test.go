package cron

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		expr, field string
		pos         int
		want        string
	}{
		{"", "expression", 1, `expression: "": no fields; want 6 or 7: seconds minutes`},
		{" \t\n", "expression", 1, "no fields"},
		{"0 12 * * 1-5", "expression", 13, `too few fields (5); want 6 or 7: seconds minutes hours day-of-month month day-of-week [year]; try "0 0 12 ? * MON-FRI"`},
		{"*/5 * * * *", "expression", 12, `try "0 */5 * * * ?"`},
		{"0 0 * * 0,7,5", "expression", 14, `try "0 0 0 ? * SUN,SUN,FRI"`},
		{"0 0 1 * 1", "expression", 10, `try "0 0 0 ? * MON"`},
		{"@daily", "expression", 7, `try "0 0 0 * * ?"`},
		{"0 0 12 * * ? 2020 x", "expression", 19, "8 fields, but nothing may follow the year"},

		{"0 0 12 ? * MON-FRI/2", "day-of-week", 19, `day-of-week: "MON-FRI/2": a step cannot follow names (Quartz ignores it); use numbers: 2-6/2`},
		{"0 0 12 ? JAN/3 MON", "month", 13, `month: "JAN/3": a step cannot follow names (Quartz ignores it); use numbers: 1/3`},
		{"0 0 12 ? * MONDAY-FRIDAY", "day-of-week", 12, `"MONDAY" is unknown; the name is MON, of three letters`},
		{"0 0 12 ? * MON,FRI#3", "day-of-week", 12, "# must stand alone with one day"},
		{"0 0 12 ? * FRI#3,MON", "day-of-week", 12, "# must stand alone with one day"},
		{"0 0 12 ? * 6#6", "day-of-week", 14, `"6" cannot follow #; use 1 to 5`},
		{"0 0 12 ? * 8#1", "day-of-week", 12, "8 is out of range"},
		{"0 0 12 ? * FUNL", "day-of-week", 12, `"FUN" is not allowed here`},
		{"0 0 12 ? * 2-6L", "day-of-week", 15, "L must follow one day"},
		{"0 0 12 ? * 2-FRI", "day-of-week", 12, "mixes a name and a number"},
		{"0 0 12 ? * 2W", "day-of-week", 12, "use 1 (Sunday) to 7, SUN to SAT, ?, L, nL or n#k"},

		{"*/0 * * * * ?", "seconds", 3, `"0" is no step; after / use 1 to 59`},
		{"0/60 * * * * ?", "seconds", 3, "use 1 to 59"},
		{"/ * * * * ?", "seconds", 2, `"" is no step`},
		{"1-2-3 * * * * ?", "seconds", 3, `"2-3" is not allowed here`},
		{"ſ * * * * ?", "seconds", 1, "is not allowed here"},
		{"0 60 * * * ?", "minutes", 3, `minutes: "60": 60 is out of range; use 0 to 59`},
		{"0 0 24 * * ?", "hours", 5, "use 0 to 23"},
		{"0 0 1,\u00a05 * * ?", "hours", 7, "is not allowed here"},
		{"0 0 9999999999999999999 * * ?", "hours", 5, "is not allowed here"},
		{"0 0 12 1,,2 * ?", "day-of-month", 10, "a value is missing"},
		{"0 0 12 0W * ?", "day-of-month", 8, "before W use 1 to 31 or L"},
		{"0 0 12 L-31 * ?", "day-of-month", 9, "n from 0 to 30"},
		{"0 0 12 1,L * ?", "day-of-month", 10, "L and W must stand alone"},
		{"0 0 12 * 日本,13 ?", "month", 10, `"日本" is not allowed here; use 1 to 12 or JAN to DEC`},
		{"0 0 12 * 日本 ?", "month", 10, "is not allowed here"},
		{"0 0 12 1 * MON", "day-of-week", 12, `day-of-month is "1", so day-of-week must be ?`},
		{"0 0 12 * * *", "day-of-week", 12, `try "0 0 12 * * ?"`},
		{"0 0 12 ? * ?", "day-of-week", 12, "one of the two must name days"},
		{"0 0 12 * * ? 1969", "year", 14, "1969 is out of range; use 1970 to 9999"},
		{"0 0 12 * * ? 2020-2010", "year", 14, "2020-2010 ends before it starts"},
		{"0 0 12 * * ? L", "year", 14, "is not allowed here"},
		{"0\n0 12 * * ?", "expression", 13, "too few fields (5)"},
		{"0 0\n12 12 * * ?", "minutes", 3, "is not allowed here"},
	} {
		_, err := Parse(c.expr, nil)
		var parseErr *ParseError
		require.ErrorAs(t, err, &parseErr, c.expr)
		require.Equal(t, c.field, parseErr.Field, c.expr)
		require.Equal(t, c.pos, parseErr.Pos, c.expr)
		require.ErrorContains(t, err, c.want, c.expr)
		require.Contains(t, c.expr, parseErr.Value)
	}
}

func TestParseErrorPointsAfterBlanks(t *testing.T) {
	_, err := Parse("  \t 0  0 12\t* 日 ?", nil)
	var parseErr *ParseError
	require.ErrorAs(t, err, &parseErr)
	require.Equal(t, 15, parseErr.Pos)
	require.Equal(t, "日", parseErr.Value)
}

// Whatever a message tells the reader to try can be parsed.
func TestSuggestionsParse(t *testing.T) {
	for expr := range shorthands {
		_, err := Parse(strings.ToLower(expr), nil)
		requireSuggestion(t, err)
	}
	for _, expr := range []string{"0 0 * * *", "0 0 * * 0", "0 9-17 * * 1-5", "30 4 1,15 * ?", "0 0 ? * MON", "0 0 * * */2", "0 0 0 * * *", "0 0 0 1 * MON"} {
		_, err := Parse(expr, nil)
		requireSuggestion(t, err)
	}
	for _, expr := range []string{"@reboot", "* * * *", "61 0 * * *", "0 0 * * 1/2", "0 0 ? * ?", "x", "0 0 0 1 * FUNDAY"} {
		_, err := Parse(expr, nil)
		require.NotContains(t, err.Error(), "try", expr)
	}
}

func requireSuggestion(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	_, try, found := strings.Cut(err.Error(), `try "`)
	require.True(t, found, err)
	_, err = Parse(strings.TrimSuffix(try, `"`), nil)
	require.NoError(t, err)
}

func TestStringKeepsTheWriting(t *testing.T) {
	s, err := Parse(" 0\t0  2 ? * Mon-fri \n", nil)
	require.NoError(t, err)
	require.Equal(t, "0 0 2 ? * Mon-fri", s.String())
}

func ExampleParse() {
	_, err := Parse("0 0 2 ? * MON-FRI/2", nil)
	fmt.Println(err)
	_, err = Parse("0 2 * * 1-5", nil)
	fmt.Println(err)
	// Output:
	// day-of-week: "MON-FRI/2": a step cannot follow names (Quartz ignores it); use numbers: 2-6/2
	// expression: "0 2 * * 1-5": too few fields (5); want 6 or 7: seconds minutes hours day-of-month month day-of-week [year]; try "0 0 2 ? * MON-FRI"
}
