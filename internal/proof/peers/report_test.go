package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLateness(t *testing.T) {
	var all []int64
	for i := range int64(200) {
		all = append(all, 1000*(200-i))
	}
	all = append(all[:199], -5000)
	assert.Equal(t, Late{Count: 200, Early: 1, P50: 100, P99: 198, Max: 200}, lateness(all))
	assert.Equal(t, Late{Count: 1, P50: 2, P99: 2, Max: 2}, lateness([]int64{2000}))
	assert.Zero(t, lateness(nil))
}

var example = Report{
	Quick: true, Conditions: [][2]string{{"cores", "2"}}, Absent: []string{"River: not here: PostgreSQL is missing"},
	Claims: []Claims{
		{Peer: nameQrtz, Settings: "2,000 workers", Nodes: 3, Kept: Fires{Due: 9000}, Most: Fires{Started: 10_000}},
		{Peer: nameQrtz, Settings: "2,000 workers, no history", Nodes: 3, Most: Fires{Started: 40_000}},
		{Peer: nameQuartz, Settings: "tuned", Nodes: 1, Most: Fires{Started: 100}},
		{Peer: nameQuartz, Settings: "tuned", Nodes: 3, Most: Fires{Started: 400}},
	},
	Queued: []Queued{
		{Peer: nameQrtz, From: there, Nodes: 1, Rate: 20, Late: Late{P50: 8, P99: 16}},
		{Peer: nameRiver, From: there, Nodes: 1, Rate: 20, Late: Late{P50: 2, P99: 64}},
	},
	Backlog: []Backlog{
		{Peer: nameQrtz, Settings: "defaults", Nodes: 1, PerSecond: 8000},
		{Peer: nameQrtz, Settings: "tuned: 2,000 workers", Nodes: 1, PerSecond: 9000},
		{Peer: nameRiver, Settings: "defaults", Nodes: 1, PerSecond: 1000},
		{Peer: nameRiver, Settings: "tuned: 5 ms", Nodes: 1, PerSecond: 18_000},
	},
	Enqueue: []Enqueue{{nameQrtz, 1, 1, 1000}, {nameQrtz, 8, 1, 3000}, {nameRiver, 8, 1, 1500}},
}

func TestMarkdown(t *testing.T) {
	text := example.Markdown()
	for _, row := range []string{
		"| cores | 2 |", "| not measured | River: not here: PostgreSQL is missing |", ", quickly (--quick) |",
		"| qrtz | 2,000 workers | 3 | 9,000 | 10,000 |  | 0 |",
		"| Quartz | tuned | 3 | 0 | 400 | 25 × |", "| Quartz | tuned | 1 | 0 | 100 | - |",
		"| 20 | another process | 1 | River |  | 0 | 2 | 64 | 0 | 0 | 0 | 0.25 ×, 4 × |",
		"| 1 | River | defaults | 0 | 1,000 | 8 × |", "| 1 | River | tuned: 5 ms | 0 | 18,000 | 0.50 × |",
		"| 8 | 1 | River | 1,500 | 2 × |",
	} {
		assert.Contains(t, text, row)
	}
	assert.NotContains(t, text, "from a fire's time", "what was not measured has no table")
	var out strings.Builder
	require.NoError(t, example.Print(&out))
	assert.Contains(t, out.String(), "a backlog of no-op runs")
}

func TestIntoPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	read := func() string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	require.NoError(t, os.WriteFile(path, []byte("above\n"), 0o600))
	require.NoError(t, intoPage(path, "one\n"))
	require.Equal(t, "above\n"+marksBegin+"\none\n"+marksEnd, read())
	require.NoError(t, os.WriteFile(path, []byte(read()+"below\n"), 0o600))
	require.NoError(t, intoPage(path, "two\n"))
	require.Equal(t, "above\n"+marksBegin+"\ntwo\n"+marksEnd+"below\n", read())
}
