package outage_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/outage"
)

var errGone = errors.New("the database is gone")

const normal = 5 * time.Second

func TestPausesGrowToABound(t *testing.T) {
	p := outage.New(zerolog.Nop(), "test")
	assert.Equal(t, normal, p.Next(nil, normal))
	most := 100 * time.Millisecond
	for try := range 20 {
		pause := p.Next(errGone, normal)
		assert.GreaterOrEqual(t, pause, most/2, "try %d", try)
		assert.LessOrEqual(t, pause, most, "try %d", try)
		most = min(2*most, 2*time.Second)
	}
	assert.Equal(t, normal, p.Next(nil, normal))
	assert.LessOrEqual(t, p.Next(errGone, normal), 100*time.Millisecond, "the next outage starts short again")
}

// The nodes of a cluster lose their database at the same moment and must not come back in step.
func TestPausesAreJittered(t *testing.T) {
	for _, failures := range []int{1, 3, 10} {
		seen := map[time.Duration]bool{}
		for range 100 {
			p := outage.New(zerolog.Nop(), "test")
			for range failures - 1 {
				p.Next(errGone, normal)
			}
			seen[p.Next(errGone, normal)] = true
		}
		assert.Greater(t, len(seen), 90, "after %d failures", failures)
	}
}

func TestPausesAreNeverLongerThanNormal(t *testing.T) {
	for _, normal := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond} {
		p := outage.New(zerolog.Nop(), "test")
		for range 50 {
			assert.LessOrEqual(t, p.Next(errGone, normal), normal)
		}
	}
}

// A loop that normally does not wait at all does not hammer a database that is away.
func TestPausesAreNeverNothing(t *testing.T) {
	p := outage.New(zerolog.Nop(), "test")
	for range 50 {
		pause := p.Next(errGone, 0)
		assert.GreaterOrEqual(t, pause, 50*time.Millisecond)
		assert.LessOrEqual(t, pause, 100*time.Millisecond)
	}
}

func TestAnOutageIsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	p := outage.New(zerolog.New(&out), "sweep")
	for range 2 { // two outages
		p.Next(nil, normal)
		p.Next(nil, normal)
		for range 7 {
			p.Next(errGone, normal)
		}
		p.Next(nil, normal)
		p.Next(nil, normal)
	}
	type line struct {
		Level, Doing, Error string
		Failed              int
	}
	var lines []line
	for d := json.NewDecoder(&out); d.More(); {
		var l line
		require.NoError(t, d.Decode(&l))
		lines = append(lines, l)
	}
	began, over := line{"warn", "sweep", errGone.Error(), 0}, line{"info", "sweep", "", 7}
	assert.Equal(t, []line{began, over, began, over}, lines)
}
