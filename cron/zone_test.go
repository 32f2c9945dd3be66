package cron

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLoadLocation(t *testing.T) {
	for name, wantOffset := range map[string]int{
		"": 0, "UTC": 0, "GMT": 0, "Z": 0, "UT": 0, "Etc/UTC": 0, "GMT0": 0, "GMT+0": 0,
		"Asia/Shanghai": 8 * hour, "PRC": 8 * hour, "Etc/GMT-8": 8 * hour, "Asia/Kolkata": 5*hour + 30*60,
		"GMT+8": 8 * hour, "GMT+08": 8 * hour, "GMT+08:00": 8 * hour, "GMT+0800": 8 * hour, "UTC+8": 8 * hour,
		"UTC-5": -5 * hour, "UT+05:30": 5*hour + 30*60, "+08:00": 8 * hour, "-03": -3 * hour, "+8": 8 * hour,
		"GMT-00:30": -30 * 60, "+01:02:03": hour + 2*60 + 3, "+18:00": 18 * hour,
		"+08:59": 8*hour + 59*60,
	} {
		loc, err := LoadLocation(name)
		require.NoError(t, err, name)
		_, offset := time.Date(2025, 1, 1, 0, 0, 0, 0, loc).Zone()
		require.Equal(t, wantOffset, offset, name)

		again, err := LoadLocation(loc.String())
		require.NoError(t, err, "what a location calls itself loads again")
		require.Equal(t, loc.String(), again.String())
	}
}

func TestLoadLocationRefuses(t *testing.T) {
	for name, want := range map[string]string{
		"asia/shanghai":              "did you mean Asia/Shanghai?",
		"ASIA/SHANGHAI":              "did you mean Asia/Shanghai?",
		"utc":                        "did you mean UTC?",
		"Shanghai":                   "did you mean Asia/Shanghai?",
		"new york":                   "did you mean America/New_York?",
		"Asia/Shangai":               "did you mean Asia/Shanghai?",
		" Asia/Shanghai":             "did you mean Asia/Shanghai?",
		"Europe/Berlln":              "did you mean Europe/Berlin?",
		"America/New York":           "did you mean America/New_York?",
		"Local":                      "differs from machine to machine",
		"localtime":                  "differs from machine to machine",
		"GMT+19":                     "unknown time zone",
		"GMT+8:5":                    "unknown time zone",
		"GMT+":                       "unknown time zone",
		"+":                          "unknown time zone",
		"+08:00:00:00":               "unknown time zone",
		"+08:60":                     "unknown time zone",
		"+18:00:01":                  "unknown time zone",
		"+008":                       "unknown time zone",
		"+1/":                        "unknown time zone",
		"+1:":                        "unknown time zone",
		"Mars/Olympus_Mons":          "use an IANA name",
		"../../etc/passwd":           "unknown time zone",
		"zone.tab":                   "unknown time zone",
		"X":                          "use an IANA name",
		strings.Repeat("a", 1000000): "use an IANA name",
	} {
		_, err := LoadLocation(name)
		require.ErrorContains(t, err, want, "%.40q", name)
	}
}

// Every name on the list loads: a suggestion never sends the user into the next error.
func TestSuggestedZonesLoad(t *testing.T) {
	names := strings.Fields(zoneNames)
	require.Greater(t, len(names), 400)
	for _, name := range names {
		_, err := LoadLocation(name)
		require.NoError(t, err)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}} {
		require.Equal(t, c.want, mistakes(c.a, c.b), c)
	}
}
