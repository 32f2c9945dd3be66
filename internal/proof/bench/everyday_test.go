package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWhatAFireCosts(t *testing.T) {
	tr := trial{load: load{Executes: 20, Every: time.Second}, Nodes: 3, Window: 10 * time.Second}
	o := outcome{summary: summary{Fires: 199, CPU: 400 * time.Millisecond, Late: newHistogram().Export()}}
	o.Did = counters{Statements: 500, Commits: 60, Server: 300 * time.Millisecond}
	e := costOf(o, SecondCost{Statements: 10, Commits: 1, ServerMs: 5, NodeMs: 10}, tr)
	assert.Equal(t, FireCost{2.5, 0.3, 1.5, 2}, e.Fire)
	assert.Equal(t, FireCost{2, 0.25, 1.25, 1.5}, e.Beyond)
	assert.Equal(t, 1, e.Missing)
}
