package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNext(t *testing.T) {
	r := run(t, nil, "next", "0 0 2 ? * MON-FRI", "--tz", "Asia/Shanghai", "--after", "2027-01-01", "-n", "2")
	assert.Zero(t, r.code)
	assert.Equal(t, `0 0 2 ? * MON-FRI   at 02:00:00 on Monday to Friday, Asia/Shanghai

Fri 2027-01-01 02:00:00 CST (+08:00)       2026-12-31 18:00:00Z
Mon 2027-01-04 02:00:00 CST (+08:00)       2027-01-03 18:00:00Z
`, r.stdout)
}

func TestNextSaysWhatTheClockDoes(t *testing.T) {
	const nightly, halfHourly = "0 30 2 * * ?", "0 0/30 * * * ?"
	for _, c := range []struct {
		expression, after string
		quartz            bool
		notes             []string // of the fires after that time
	}{
		{nightly, "2027-03-27", false, []string{"", "moved: the clock jumps from 02:00 to 03:00; by Quartz's rule: 2027-03-29 02:30:00 CEST", ""}},
		{nightly, "2027-03-27", true, []string{"", "by qrtz's own rule: 2027-03-28 03:00:00 CEST", ""}},
		{nightly, "2027-10-31", false, []string{"first pass: the clock shows this time twice; by Quartz's rule: 2027-10-31 02:30:00 CET", ""}},
		{nightly, "2027-10-31", true, []string{"second pass: the clock shows this time twice; by qrtz's own rule: 2027-10-31 02:30:00 CEST", ""}},
		{halfHourly, "2027-03-28T01:00", false, []string{"", "", ""}},
		{halfHourly, "2027-10-31T02:59:59+02:00", false, []string{"second pass: the clock shows this time twice", "second pass", ""}},
	} {
		args := []string{"next", c.expression, "--tz", "Europe/Berlin", "--after", c.after, "--json"}
		if c.quartz {
			args = append(args, "--quartz-dst")
		}
		var got struct {
			Fires []struct{ Local, Note string }
		}
		require.NoError(t, json.Unmarshal([]byte(run(t, nil, args...).stdout), &got))
		for i, note := range c.notes {
			assert.True(t, strings.HasPrefix(got.Fires[i].Note, note), "%s after %s, fire %d: %+v", c.expression, c.after, i, got.Fires[i])
			assert.Equal(t, note == "", got.Fires[i].Note == "", "%s after %s, fire %d: %+v", c.expression, c.after, i, got.Fires[i])
		}
	}
}

func TestNextOfWhatNeverFires(t *testing.T) {
	r := run(t, nil, "next", "0 0 0 1 1 ? 2020", "--after", "2027-01-01 12:00")
	assert.Zero(t, r.code)
	assert.Contains(t, r.stdout, "It never fires after 2027-01-01T12:00:00Z.")
	assert.Contains(t, run(t, nil, "next", "0 0 0 1 1 ? 2020", "--json").stdout, `"fires": []`)
}

func TestNextPointsAtMistakes(t *testing.T) {
	r := run(t, nil, "next", "0 0 25 * * ?")
	assert.Equal(t, 2, r.code)
	assert.Contains(t, r.stderr, "25 is out of range; use 0 to 23\n  0 0 25 * * ?\n      ^\n")
	assert.Contains(t, run(t, nil, "next", "0 0 2 * * ?", "--tz", "Shanghai").stderr, "--tz: unknown time zone \"Shanghai\": did you mean Asia/Shanghai?")
	assert.Contains(t, run(t, nil, "next", "0 0 2 * * ?", "--after", "noon").stderr, `--after: "noon" is not a time`)
	assert.Contains(t, run(t, nil, "next", "0 0 2 * * ?", "-n", "0").stderr, "want 1 to 1000")
}
