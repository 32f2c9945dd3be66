package pool_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/pool"
)

func TestReserveTakesWhatIsFree(t *testing.T) {
	p := pool.New(3)
	assert.Equal(t, 3, p.Free())
	assert.Equal(t, 2, p.Reserve(2))
	assert.Equal(t, 1, p.Free())
	assert.Equal(t, 1, p.Reserve(5), "no more than are free")
	assert.Zero(t, p.Reserve(1))
	assert.Zero(t, p.Reserve(0))
	assert.Zero(t, p.Reserve(-1))
	p.Release(2)
	assert.Equal(t, 2, p.Free())
	p.Release(0)
	p.Release(-7)
	assert.Equal(t, 2, p.Free(), "nothing was given back")
	assert.Equal(t, 3, p.Size())
}

func TestGoFreesItsSlotWhenTheFunctionReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, end := pool.New(2), make(chan struct{})
		require.Equal(t, 2, p.ReserveFor("x", 2))
		p.Go("x", func() { <-end })
		p.Go("x", func() {})
		synctest.Wait()
		assert.Equal(t, 1, p.Free())
		close(end)
		synctest.Wait()
		assert.Equal(t, 2, p.Free())
	})
}

func TestResize(t *testing.T) {
	p := pool.New(4)
	require.Equal(t, 3, p.ReserveFor("x", 3))
	p.Resize(2)
	assert.Equal(t, 2, p.Size())
	assert.Zero(t, p.Free(), "not negative while three run on two slots")
	assert.Zero(t, p.ReserveFor("x", 1))
	p.ReleaseFor("x", 1)
	assert.Zero(t, p.Free())
	p.ReleaseFor("x", 1)
	assert.Equal(t, 1, p.Free())
	p.Resize(10)
	assert.Equal(t, 9, p.ReserveFor("x", 100))
}

func TestFreedWakesWhoWaits(t *testing.T) {
	for name, free := range map[string]func(*pool.Pool){
		"release": func(p *pool.Pool) { p.ReleaseFor("x", 1) },
		"return":  func(p *pool.Pool) { p.Go("x", func() {}) },
		"resize":  func(p *pool.Pool) { p.Resize(2) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pool.New(1)
				p.ReserveFor("x", 1)
				var woken atomic.Int32
				for range 2 {
					freed, stop := p.Freed()
					go func() {
						defer stop()
						<-freed
						woken.Add(1)
					}()
				}
				synctest.Wait()
				assert.Zero(t, woken.Load())
				free(p)
				synctest.Wait()
				assert.EqualValues(t, 2, woken.Load(), "each of those who wait")
				assert.Equal(t, 1, p.Free())
			})
		})
	}
}

// No goroutine is listening while several slots come free: none of them may block, and one word is kept.
func TestFreedNeverBlocks(t *testing.T) {
	p := pool.New(3)
	p.ReserveFor("x", 3)
	freed, stop := p.Freed()
	p.ReleaseFor("x", 1)
	p.ReleaseFor("x", 1)
	p.Resize(4)
	select {
	case <-freed:
	default:
		t.Error("nothing was said")
	}
	select {
	case <-freed:
		t.Error("said twice")
	default:
	}
	stop()
	p.ReleaseFor("x", 1)
	select {
	case <-freed:
		t.Error("said to a waiter that has stopped")
	default:
	}
}

func TestDrainOfAnIdlePool(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NoError(t, pool.New(1).Drain(ctx), "there is nothing to wait for")
}

func TestDrainWaitsForAllThatIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(3)
		require.Equal(t, 3, p.ReserveFor("x", 3))
		p.Go("x", func() { time.Sleep(time.Second) })
		p.Go("x", func() { time.Sleep(5 * time.Second) })
		time.AfterFunc(2*time.Second, func() { p.ReleaseFor("x", 1) })
		began := time.Now()
		var waiters sync.WaitGroup
		for range 3 {
			waiters.Go(func() {
				if err := p.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				assert.Equal(t, 5*time.Second, time.Since(began))
			})
		}
		waiters.Wait()
		assert.Equal(t, 3, p.Free())
	})
}

func TestDrainGivesUpAndCanBeTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		impatient := errors.New("drain timeout")
		p := pool.New(1)
		p.ReserveFor("x", 1)
		p.Go("x", func() { time.Sleep(time.Minute) })
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, impatient)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, p.Drain(ctx), impatient)
		assert.Equal(t, time.Second, time.Since(began))
		assert.Zero(t, p.Free())
		require.NoError(t, p.Drain(t.Context()))
		assert.Equal(t, time.Minute, time.Since(began))

		p.ReserveFor("x", 1) // and a pool that was drained works on
		p.Go("x", func() { time.Sleep(time.Second) })
		require.NoError(t, p.Drain(t.Context()))
		assert.Equal(t, time.Minute+time.Second, time.Since(began))
	})
}

// Many goroutines reserve, run and release at once: never more run than the pool has slots, none is lost,
// and who waits for a free slot is always woken.
func TestManyAtOnce(t *testing.T) {
	const size, takers, each = 8, 20, 200
	p := pool.New(size)
	var running, most, ran atomic.Int64
	job := func() {
		now := running.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		ran.Add(1)
		running.Add(-1)
	}
	var wg sync.WaitGroup
	for i := range takers {
		wg.Go(func() {
			for left := each; left > 0; {
				n := p.ReserveFor("x", min(left, 1+i%3))
				if n == 0 {
					waitForSlot(p)
					continue
				}
				if i%4 == 0 && left%5 == 0 {
					p.ReleaseFor("x", 1) // a claim that was lost
					n--
				}
				for range n {
					p.Go("x", job)
				}
				left -= max(n, 1)
			}
		})
	}
	wg.Go(func() {
		for range 100 {
			p.Resize(size - 3)
			_ = p.Free()
			p.Resize(size)
		}
	})
	wg.Wait()
	require.NoError(t, p.Drain(t.Context()))
	assert.Equal(t, size, p.Free())
	assert.LessOrEqual(t, most.Load(), int64(size))
	assert.Positive(t, ran.Load())
	assert.Zero(t, running.Load())
}

// waitForSlot waits for a free slot, or for a millisecond: one may have come free before it began to wait.
func waitForSlot(p *pool.Pool) {
	freed, stop := p.Freed()
	defer stop()
	select {
	case <-freed:
	case <-time.After(time.Millisecond):
	}
}
