package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAHistoryIsPrintedAsGo(t *testing.T) {
	require.Equal(t, `{name: "…", steps: []Step{
	{Do: "job", ID: 1, Job: &Job{Recovery: true}},
	{Do: "poll", Node: 1, At: 3, How: "freeze", Then: []Step{{Do: "app"}}},
}},
`, history([]Step{{Do: "job", ID: 1, Job: &Job{Recovery: true}}, {Do: "poll", Node: 1, At: 3, How: "freeze", Then: []Step{{Do: "app"}}}}))
}
