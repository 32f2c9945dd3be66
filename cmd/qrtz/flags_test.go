package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAges(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "2w": 14 * day, "1d12h": 36 * time.Hour, "1w1d1h1m1s": 8*day + time.Hour + time.Minute + time.Second, "90m": 90 * time.Minute, "0s": 0,
	} {
		var a age
		require.NoError(t, a.Set(text), text)
		assert.Equal(t, want, time.Duration(a), text)
	}
	for text, says := range map[string]string{
		"": "want for example", "d": "want for example", "30": "want for example", "-1h": "want for example", "1h1d": "want for example", "99999w": "a hundred years",
	} {
		var a age
		assert.ErrorContains(t, a.Set(text), says, text)
	}
	for d, want := range map[time.Duration]string{30 * day: "30d", 36 * time.Hour: "36h0m0s", 0: "0s"} {
		a := age(d)
		assert.Equal(t, want, a.String())
	}
}

func TestAFlagThatIsOneOfSome(t *testing.T) {
	value := "failed"
	require.NoError(t, oneOf("--state", &value, endStates))
	assert.Equal(t, "FAILED", value)
	value = ""
	require.NoError(t, oneOf("--state", &value, endStates))
	value = "RUNNING"
	assert.EqualError(t, oneOf("--state", &value, endStates), `--state "RUNNING": want one of SUCCEEDED, FAILED, LOST, CANCELLED, SKIPPED`)
}

func TestListFlags(t *testing.T) {
	for _, c := range []struct {
		l    listFlags
		says string
	}{
		{listFlags{limit: 0}, "--limit 0: want 1 to 1000000"},
		{listFlags{limit: 1_000_001}, "--limit 1000001"},
		{listFlags{limit: 1, after: "1.x"}, `--after "1.x": want`},
		{listFlags{limit: 1, state: "x", states: endStates}, `--state "x"`},
	} {
		assert.ErrorContains(t, c.l.validate(), c.says)
	}
	l := listFlags{limit: 1, after: "17.4", state: "lost", states: endStates}
	require.NoError(t, l.validate())
	assert.Equal(t, "17.4", l.from.String())
	assert.Equal(t, "LOST", l.state)
}
