package poller

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

// writer is a store that may be away.
type writer struct {
	mu      sync.Mutex // of all but hangs
	away    bool
	hangs   bool
	late    int
	locked  []int64 // runs whose rows are
	refused []int64
	calls   int
	batches [][]run.Result
}

func (w *writer) complete(ctx context.Context, batch []run.Result) (run.Completed, error) {
	if w.hangs {
		<-ctx.Done()
		return run.Completed{Left: batch}, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if w.away {
		return run.Completed{Left: batch}, errors.New("away")
	}
	done := run.Completed{Late: w.late}
	var written []run.Result
	for _, r := range batch {
		switch {
		case slices.Contains(w.locked, r.Run.ID):
			done.Locked = append(done.Locked, r)
		case slices.Contains(w.refused, r.Run.ID):
			done.Refused = append(done.Refused, run.Refused{Run: r.Run, Err: errors.New("Error 1366")})
		default:
			written = append(written, r)
		}
	}
	w.batches = append(w.batches, written)
	return done, nil
}

func (w *writer) lock(ids ...int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.locked = ids
}

func (w *writer) setAway(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
}

func (w *writer) sizes() (sizes []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.batches {
		sizes = append(sizes, len(b))
	}
	return sizes
}

func (w *writer) written() (ids []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.batches {
		for _, r := range b {
			ids = append(ids, r.Run.ID)
		}
	}
	return ids
}

// collecting runs a test with a collector, which is stopped by the function.
func collecting(t *testing.T, test func(t *testing.T, w *writer, r *Results, stop func(), log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := &writer{}
		r := NewResults(w.complete, zerolog.New(&log))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		test(t, w, r, func() { cancel(); <-done }, &log)
	})
}

func add(r *Results, from, n int) {
	for i := range n {
		r.Add(run.Result{Run: run.Run{ID: int64(from + i)}})
	}
}

func TestResultsAreWrittenInBatches(t *testing.T) {
	collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), _ *bytes.Buffer) {
		add(r, 1, 3)
		synctest.Wait()
		require.Empty(t, w.sizes())
		rest(flushEvery)
		require.Equal(t, []int64{1, 2, 3}, w.written())
		require.Equal(t, []int{3}, w.sizes())

		add(r, 4, flushBatch+7)
		synctest.Wait()
		require.Equal(t, []int{3, flushBatch}, w.sizes()[:2], "a full batch does not wait")
		rest(flushEvery)
		require.Len(t, w.written(), flushBatch+10)

		add(r, 1000, 1)
		r.Add(run.Result{}) // a run without a row: nothing to write
		stop()
		require.Len(t, w.written(), flushBatch+11, "what is left is written at the end")
	})
}

func TestResultsAreKeptWhileTheDatabaseIsAway(t *testing.T) {
	collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), log *bytes.Buffer) {
		w.setAway(true)
		add(r, 1, 700)
		rest(10 * time.Minute)
		require.Equal(t, 1, strings.Count(log.String(), "failed; trying again"), "logged once")
		require.Less(t, w.calls, 1000, "and tried now and then")
		add(r, 701, 1)
		w.setAway(false)
		rest(flushMaxPause)
		ids := w.written()
		require.Len(t, ids, 701)
		for i, id := range ids {
			require.Equal(t, int64(i+1), id, "in order")
		}
		require.Contains(t, log.String(), "works again")
		stop()
		require.Len(t, w.written(), 701)
	})
}

func TestResultsThatComeTooLateAreLogged(t *testing.T) {
	collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), log *bytes.Buffer) {
		w.late = 1 // nothing writes yet
		add(r, 1, 2)
		stop()
		require.Contains(t, log.String(), "came too late")
	})
}

func TestResultsGiveUpAtTheEnd(t *testing.T) {
	for name, hangs := range map[string]bool{"away": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), log *bytes.Buffer) {
				w.hangs = hangs
				w.setAway(!hangs)
				add(r, 1, 2)
				rest(time.Minute)
				began := time.Now()
				stop()
				require.LessOrEqual(t, time.Since(began), lastFlush+flushTimeout)
				require.Contains(t, log.String(), "will be LOST")
				require.Contains(t, log.String(), `"results":2`)
			})
		})
	}
}

func TestResultsComeBackWhileStopping(t *testing.T) {
	collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), _ *bytes.Buffer) {
		w.setAway(true)
		add(r, 1, 2)
		time.AfterFunc(5*time.Second, func() { w.setAway(false) })
		stop()
		require.Len(t, w.written(), 2)
	})
}

func TestALockedRowDelaysOnlyItsOwnResult(t *testing.T) {
	collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), log *bytes.Buffer) {
		w.lock(2)
		add(r, 1, 3)
		rest(flushEvery)
		require.Equal(t, []int64{1, 3}, w.written())
		rest(time.Minute)
		calls := w.calls
		require.Less(t, calls, 30, "tried now and then")
		add(r, 4, 1)
		rest(flushEvery)
		require.Equal(t, []int64{1, 3, 4}, w.written(), "others continue")
		require.Equal(t, 1, strings.Count(log.String(), "another transaction holds"), "logged once")
		w.lock()
		rest(lockedMost)
		require.Equal(t, []int64{1, 3, 4, 2}, w.written())
		require.Contains(t, log.String(), "have been written")

		w.lock(5)
		add(r, 5, 1)
		rest(flushEvery)
		w.lock()
		stop()
		require.Equal(t, []int64{1, 3, 4, 2, 5}, w.written(), "what was locked is written when stopping, too")
	})
}

func TestARowThatStaysLockedDoesNotKeepANodeFromStopping(t *testing.T) {
	collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), log *bytes.Buffer) {
		w.lock(2)
		add(r, 1, 3)
		began := time.Now()
		stop()
		require.Equal(t, []int64{1, 3}, w.written())
		require.LessOrEqual(t, time.Since(began), lastFlush+flushTimeout)
		require.Contains(t, log.String(), "will be LOST")
	})
}

func TestARefusedResultIsGivenUpAndLoggedOnce(t *testing.T) {
	collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), log *bytes.Buffer) {
		w.refused = []int64{2} // nothing writes yet
		add(r, 1, 3)
		rest(time.Minute)
		require.Equal(t, []int64{1, 3}, w.written())
		require.Equal(t, 1, w.calls)
		require.Equal(t, 1, strings.Count(log.String(), "given up"))
		stop()
		require.Equal(t, 1, w.calls)
	})
}

// A flush that had nothing to write does not end an outage.
func TestNothingToWriteIsNoSuccess(t *testing.T) {
	collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), log *bytes.Buffer) {
		w.setAway(true)
		add(r, 1, 1)
		rest(time.Minute)
		taken := r.take() // as another flush does, which waits for the database itself
		rest(time.Minute)
		require.NotContains(t, log.String(), "works again")
		r.putBack(taken)
		w.setAway(false)
		rest(flushMaxPause)
		require.Contains(t, log.String(), "works again")
		stop()
	})
}

// succeeded adds results of fires that nothing waits for.
func succeeded(r *Results, from, n int, change ...func(*run.Result)) {
	for i := range n {
		result := run.Result{Run: run.Run{ID: int64(from + i), ExecuteID: 7, Options: run.Defaults()}, State: run.Succeeded}
		for _, c := range change {
			c(&result)
		}
		r.Add(result)
	}
}

func TestResultsThatNothingWaitsForWaitForCompany(t *testing.T) {
	collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), _ *bytes.Buffer) {
		succeeded(r, 1, 3)
		rest(flushLate - flushEvery)
		require.Empty(t, w.sizes())
		rest(2 * flushEvery)
		require.Equal(t, []int{3}, w.sizes(), "not for ever")

		succeeded(r, 4, companyOf)
		rest(flushEvery)
		require.Equal(t, []int{3, companyOf}, w.sizes(), "there are enough of them")

		succeeded(r, 100, 2)
		add(r, 200, 1)
		rest(flushEvery)
		require.Equal(t, []int{3, companyOf, 3}, w.sizes(), "one that something waits for takes them along")

		succeeded(r, 300, 2)
		rest(2 * flushEvery)
		require.Len(t, w.sizes(), 3)
		r.Hurry()
		rest(flushEvery)
		require.Equal(t, []int{3, companyOf, 3, 2}, w.sizes())

		r.Nodes = func() int { return 3 * fewNodes }
		succeeded(r, 500, 2*companyOf)
		rest(2 * flushEvery)
		require.Len(t, w.sizes(), 4, "of many nodes each writes less often")
		rest(flushLate)

		succeeded(r, 400, 2)
		stop()
		require.Equal(t, []int{3, companyOf, 3, 2, 2 * companyOf, 2}, w.sizes(), "and a node that stops writes them")
	})
}

func TestWhichResultsSomethingWaitsFor(t *testing.T) {
	for name, change := range map[string]func(*run.Result){
		"it failed":                     func(r *run.Result) { r.State = run.Failed },
		"it was enqueued":               func(r *run.Result) { r.Run.ExecuteID = 0 },
		"it would be recovered":         func(r *run.Result) { r.Run.Options.Recovery = true },
		"it is the only one of its job": func(r *run.Result) { r.Run.Options.Overlap = run.OverlapSkip },
		"it has a slot":                 func(r *run.Result) { r.Run.Options.MaxRunning = 2 },
		"a caller waits for it":         func(r *run.Result) { r.Run.ID = 77 },
	} {
		t.Run(name, func(t *testing.T) {
			collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), _ *bytes.Buffer) {
				r.Awaited = func(runID int64) bool { return runID == 77 }
				succeeded(r, 1, 1, change)
				rest(flushEvery)
				require.Equal(t, []int{1}, w.sizes())
				stop()
			})
		})
	}
}

// A handler that asks which run has succeeded last is told of those whose results wait, and from then on they do not.
func TestTheResultsOfAJobThatIsAskedForAreWritten(t *testing.T) {
	collecting(t, func(t *testing.T, w *writer, r *Results, stop func(), _ *bytes.Buffer) {
		of := func(job int64) func(*run.Result) { return func(r *run.Result) { r.Run.JobID = job } }
		succeeded(r, 1, 2, of(1))
		succeeded(r, 3, 1, of(2))
		require.NoError(t, r.WriteOf(t.Context(), 3))
		require.Empty(t, w.sizes())
		require.NoError(t, r.WriteOf(t.Context(), 2))
		require.Equal(t, []int{3}, w.sizes())
		succeeded(r, 4, 1, of(1))
		rest(2 * flushEvery)
		require.Len(t, w.sizes(), 1)
		succeeded(r, 5, 1, of(2))
		rest(flushEvery)
		require.Equal(t, []int{3, 2}, w.sizes())
		stop()
	})
}
