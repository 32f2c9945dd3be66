package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/pool"
)

func TestAClassTakesNoMoreThanItsLimit(t *testing.T) {
	p := pool.New(10)
	p.Limit([]string{"mail", "tick"}, map[string]int{"mail": 2}, -1)
	assert.Equal(t, 2, p.Room("mail"))
	assert.Equal(t, 2, p.ReserveFor("mail", 5))
	assert.Zero(t, p.ReserveFor("mail", 1))
	require.Equal(t, 8, p.Reserve(10))
	assert.Zero(t, p.Assign("mail", 1), "reserved slots neither")
	assert.Equal(t, 3, p.Assign("tick", 3))
	p.Release(5)
	assert.Equal(t, 5, p.Free())
	p.ReleaseFor("mail", 1)
	assert.Equal(t, 1, p.ReserveFor("mail", 5))

	p.Change("tick", "mail", 1) // what was claimed is of the other class, whatever its limit
	assert.Zero(t, p.Room("mail"))
	p.ReleaseFor("mail", 1)
	assert.Zero(t, p.Room("mail"))
	p.ReleaseFor("mail", 1)
	assert.Equal(t, 1, p.Room("mail"))

	p.Limit([]string{"mail", "tick"}, nil, -1)
	assert.Equal(t, 7, p.ReserveFor("mail", 100), "the limit was lifted, only the size is left")
}

// last runs n functions of a class for as long as d, if there is room.
func last(p *pool.Pool, class string, n int, d time.Duration) int {
	got := p.ReserveFor(class, n)
	for range got {
		p.Go(class, func() { time.Sleep(d) })
	}
	synctest.Wait()
	return got
}

func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func drain(p *pool.Pool) { _ = p.Drain(context.Background()) }

func TestSlowClassesLeaveAShareOfThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(8)
		defer drain(p)
		p.Limit([]string{"report", "export", "tick"}, nil, 0)
		assert.Equal(t, 7, last(p, "report", 8, 4*time.Second), "how long it takes is not known yet")
		assert.Equal(t, 1, last(p, "tick", 1, time.Millisecond), "one of a class that has not run yet")
		rest(time.Second)
		assert.Zero(t, last(p, "report", 1, time.Minute), "it is slow: one of those under way has lasted a second")
		assert.Equal(t, 1, last(p, "tick", 8, time.Millisecond), "it is quick")
		rest(4 * time.Second)
		assert.Equal(t, 3, last(p, "export", 3, time.Hour))
		assert.Equal(t, 4, last(p, "report", 8, 4*time.Second), "with the others that are slow")
		assert.Equal(t, 1, p.Free())
		p.Resize(32)
		assert.Equal(t, 4, 32-7-last(p, "report", 32, 4*time.Second), "an eighth of the new size")
	})
}

func TestAClassIsJudgedByItsLatestFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(4)
		defer drain(p)
		p.Limit([]string{"sync", "tick"}, nil, 2)
		last(p, "sync", 1, 20*time.Second)
		rest(20 * time.Second)
		assert.Equal(t, 2, p.Room("sync"))
		n := 0
		for ; p.Room("sync") == 2; n++ {
			last(p, "sync", 1, time.Millisecond)
			rest(20 * time.Millisecond)
		}
		assert.InDelta(t, 22, n, 2, "it has been quick for a while")
		assert.Equal(t, 4, last(p, "sync", 4, 2*time.Second))
		rest(1500 * time.Millisecond)
		assert.Zero(t, p.Room("sync"), "it is slow again, before one of them has ended")
	})
}

func TestWhatNoQuickClassNeedsIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		classes        []string
		size, reserved int
		want           int
	}{
		"by default":                 {[]string{"report", "tick"}, 64, 0, 56},
		"by setting":                 {[]string{"report", "tick"}, 64, 20, 44},
		"none, by setting":           {[]string{"report", "tick"}, 64, -1, 64},
		"more than there are":        {[]string{"report", "tick"}, 8, 20, 1},
		"a small pool":               {[]string{"report", "tick"}, 3, 0, 3},
		"a class alone":              {[]string{"report"}, 64, 0, 64},
		"two that are known as slow": {[]string{"report", "slow"}, 64, 0, 64},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pool.New(c.size)
				defer drain(p)
				p.Limit(c.classes, nil, c.reserved)
				last(p, "report", 1, 4*time.Second)
				rest(4 * time.Second)
				if c.classes[len(c.classes)-1] == "slow" {
					last(p, "slow", 1, 4*time.Second)
					rest(4 * time.Second)
				}
				assert.Equal(t, c.want, last(p, "report", 100, time.Second))
			})
		})
	}
}

// A slot that does many quick things one after the other is not slow.
func TestWhatGoesOnInASlotIsJudgedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(8)
		p.Limit([]string{"quick", "other"}, nil, 0)
		require.Equal(t, 1, p.ReserveFor("quick", 1))
		p.GoOn("quick", func(next func()) {
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				next()
			}
		})
		for range 9 {
			time.Sleep(time.Second)
			require.Greater(t, p.Room("quick"), 8)
		}
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, 8, p.Free())
	})
}
