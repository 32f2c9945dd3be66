package outage_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/outage"
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

// line is a line of the log.
type line struct {
	Level, Doing, Error, Message string
	Failed                       int
}

const (
	began = "failed; trying again until it works"
	over  = "works again"
	lasts = "still fails"
)

func lines(t *testing.T, out *bytes.Buffer) (all []line) {
	t.Helper()
	for d := json.NewDecoder(out); d.More(); {
		var l line
		require.NoError(t, d.Decode(&l))
		all = append(all, l)
	}
	return all
}

func TestAnOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := outage.New(zerolog.New(&out), "sweep")
		for range 2 { // two outages
			p.Next(nil, normal)
			p.Next(nil, normal)
			for range 7 {
				time.Sleep(p.Next(errGone, normal))
			}
			p.Next(nil, normal)
			p.Next(nil, normal)
			time.Sleep(time.Minute)
		}
		first, last := line{"warn", "sweep", errGone.Error(), began, 0}, line{"info", "sweep", "", over, 7}
		assert.Equal(t, []line{first, last, first, last}, lines(t, &out))
	})
}

func TestALongOutageIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := outage.New(zerolog.New(&out), "sweep")
		for start := time.Now(); time.Since(start) < 25*time.Minute; time.Sleep(2 * time.Second) {
			p.Next(fmt.Errorf("dial 127.0.0.1:%d: refused", time.Now().UnixNano()), normal) // its numbers do not make it another one
		}
		p.Next(nil, normal)
		var said []string
		for _, l := range lines(t, &out) {
			said = append(said, l.Message)
		}
		assert.Equal(t, []string{began, lasts, lasts, over}, said)
	})
}

// A loop that fails every other time says so once a minute, not each time.
func TestALoopThatAlternatesDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := outage.New(zerolog.New(&out), "sweep")
		for start := time.Now(); time.Since(start) < 10*time.Minute; time.Sleep(500 * time.Millisecond) {
			p.Next(errGone, normal)
			p.Next(nil, normal)
		}
		said := lines(t, &out)
		assert.Len(t, said, 2*10, "failed and works again, once a minute")
		for i, l := range said {
			assert.Equal(t, []string{began, over}[i%2], l.Message)
		}
	})
}

// Two errors in turns are two lines, and an end that comes within a minute after an end that was said is not one of its own.
func TestDifferentErrorsAreSaidOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := outage.New(zerolog.New(&out), "sweep")
		for range 100 {
			time.Sleep(p.Next(errGone, normal))
			time.Sleep(p.Next(errors.New("too many connections"), normal))
		}
		p.Next(nil, normal)
		var said []string
		for _, l := range lines(t, &out) {
			said = append(said, l.Message+" "+l.Error)
		}
		assert.Equal(t, []string{began + " " + errGone.Error(), began + " too many connections", over + " "}, said)
	})
}

// Nor do errors that are all different.
func TestManyErrorsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := outage.New(zerolog.New(&out), "sweep")
		for i := range 500 {
			time.Sleep(p.Next(errors.New(strings.Repeat("x", i+1)), normal))
		}
		assert.Less(t, len(lines(t, &out)), 20)
	})
}

// What was not tried has not begun to work.
func TestOnlyWhatFailedWorksAgain(t *testing.T) {
	var out bytes.Buffer
	p := outage.New(zerolog.New(&out), "sweep")
	p.Next(errGone, normal)
	assert.Equal(t, normal, p.Next(outage.ErrIdle, normal))
	p.Note("claim pending runs", errGone)
	p.Note("adopt", nil)
	p.Next(nil, normal)
	p.Note("claim pending runs", nil)
	assert.Equal(t, []line{
		{"warn", "sweep", errGone.Error(), began, 0},
		{"warn", "sweep: claim pending runs", errGone.Error(), began, 0},
		{"info", "sweep", "", over, 1},
		{"info", "sweep: claim pending runs", "", over, 1},
	}, lines(t, &out))
}

func TestALineIsBounded(t *testing.T) {
	var out bytes.Buffer
	outage.New(zerolog.New(&out), "sweep").Next(errors.New(strings.Repeat("é\xff", 50<<20/3)), normal)
	assert.Less(t, out.Len(), 20<<10) // JSON escapes
	assert.True(t, utf8.Valid(out.Bytes()))
	assert.Equal(t, "short", outage.Clip("short"))
}
