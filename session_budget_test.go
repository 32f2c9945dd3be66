package qrtz

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheBudgetIsKeptAndEverybodyGetsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		var taken, most atomic.Int64
		var all sync.WaitGroup
		for range 200 {
			bytes := rand.Int64N(100) + 1
			all.Go(func() {
				giveBack, err := b.take(t.Context(), bytes)
				if err != nil {
					t.Error(err)
					return
				}
				now := taken.Add(bytes)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				time.Sleep(time.Millisecond)
				taken.Add(-bytes)
				giveBack()
				giveBack() // once counts
			})
		}
		all.Wait()
		require.LessOrEqual(t, most.Load(), int64(100))
		require.Zero(t, b.taken)
	})
}

func TestWhatIsLargerThanTheBudgetGetsThroughAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		small, err := b.take(t.Context(), 1)
		require.NoError(t, err)
		granted := make(chan string, 2)
		for _, one := range []struct {
			name  string
			bytes int64
		}{{"large", 1000}, {"small", 1}} {
			go func() {
				giveBack, _ := b.take(t.Context(), one.bytes)
				granted <- one.name
				giveBack()
			}()
			synctest.Wait()
		}
		require.Empty(t, granted, "what asks later does not overtake")
		small()
		require.Equal(t, "large", <-granted)
		require.Equal(t, "small", <-granted)
	})
}

func TestWaitingForTheBudgetEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		all, err := b.take(t.Context(), 100)
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error)
		go func() {
			_, err := b.take(ctx, 50)
			failed <- err
		}()
		synctest.Wait()
		behind := make(chan struct{})
		go func() {
			_, _ = b.take(t.Context(), 10)
			close(behind)
		}()
		synctest.Wait()
		cancel(ErrCancelled)
		require.ErrorIs(t, <-failed, ErrCancelled)
		all()
		<-behind
		require.Equal(t, int64(10), b.taken)
	})
}

// Granted and ended at the same moment: either way nothing is kept.
func TestAShareThatCameTooLateIsGivenBack(t *testing.T) {
	for range 100 {
		b := newBudget(100)
		_, err := b.take(t.Context(), 100)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if giveBack, err := b.take(ctx, 50); err == nil {
				giveBack()
			}
		}()
		for {
			b.mu.Lock()
			if len(b.queue) == 1 {
				cancel()
				b.taken = 0
				b.grant()
				b.mu.Unlock()
				break
			}
			b.mu.Unlock()
			runtime.Gosched()
		}
		<-done
		require.Zero(t, b.taken)
	}
}
