package qrtz

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/execute"
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

// server is where a loader reads: it may be away for a while, and data may grow.
type server struct {
	awayUntil time.Time
	size      int64
	gone      bool
}

func (s *server) read(_ context.Context, _ execute.Run, most int64) ([]byte, int64, error) {
	switch {
	case s.gone:
		return nil, 0, execute.ErrNoData
	case time.Now().Before(s.awayUntil):
		return nil, 0, errors.New("away")
	case s.size > most:
		return nil, s.size, nil
	}
	return make([]byte, s.size), s.size, nil
}

func loading(t *testing.T, s *server, test func(t *testing.T, l *loader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &loader{read: s.read, budget: newBudget(100), turns: make(chan struct{}, 1), pause: time.Second})
	})
}

func TestDataThatCameWithTheClaimIsNotRead(t *testing.T) {
	loading(t, &server{gone: true}, func(t *testing.T, l *loader) {
		data, release, err := l.load(t.Context(), execute.Run{Data: []byte("{}"), DataSize: 2})
		require.NoError(t, err)
		release()
		require.Equal(t, "{}", string(data))
	})
}

func TestDataIsReadOverAnOutage(t *testing.T) {
	s := &server{size: 50}
	loading(t, s, func(t *testing.T, l *loader) {
		s.awayUntil = time.Now().Add(20 * time.Second)
		data, release, err := l.load(t.Context(), execute.Run{DataSize: 50})
		require.NoError(t, err)
		require.Len(t, data, 50)
		release()
		require.Zero(t, l.budget.taken)
	})
}

func TestDataThatHasGrownIsReadAllTheSame(t *testing.T) {
	loading(t, &server{size: 80}, func(t *testing.T, l *loader) {
		data, release, err := l.load(t.Context(), execute.Run{DataSize: 50})
		require.NoError(t, err)
		require.Len(t, data, 80)
		require.Equal(t, int64(80), l.budget.taken)
		release()
	})
}

func TestDataThatCannotBeReadGivesTheRoomBack(t *testing.T) {
	for name, s := range map[string]*server{
		"gone":            {gone: true},
		"away too long":   {awayUntil: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)},
		"run has to stop": {awayUntil: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) {
			loading(t, s, func(t *testing.T, l *loader) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if name == "run has to stop" {
					time.AfterFunc(time.Second, func() { cancel(ErrFenced) })
				}
				began := time.Now()
				_, _, err := l.load(ctx, execute.Run{DataSize: 50})
				require.ErrorContains(t, err, "JOB_DATA (50 bytes) could not be read")
				require.Equal(t, name == "run has to stop", errors.Is(err, ErrFenced))
				require.LessOrEqual(t, time.Since(began), dataPatience)
				require.Zero(t, l.budget.taken)
				cancel(nil)
			})
		})
	}
}
