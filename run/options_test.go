package run

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestBackoffDoublesUpToItsLimitGiveOrTakeAFifth(t *testing.T) {
	o := Defaults()
	o.Backoff, o.MaxBackoff = time.Second, 20*time.Second
	for attempt, seconds := range map[int]int{1: 1, 2: 2, 3: 4, 4: 8, 5: 16, 6: 20, 7: 20, 100: 20, math.MaxInt: 20} {
		want := time.Duration(seconds) * time.Second
		shortest, longest := time.Duration(math.MaxInt64), time.Duration(0)
		for range 500 {
			pause := o.RetryIn(attempt)
			require.GreaterOrEqual(t, pause, want*4/5)
			require.LessOrEqual(t, pause, want*6/5)
			shortest, longest = min(shortest, pause), max(longest, pause)
		}
		require.Greater(t, longest-shortest, want/4, "what failed together does not come back together")
	}
}

func TestOptionsNameWhatCannotWork(t *testing.T) {
	require.NoError(t, Defaults().Validate())
	for want, change := range map[string]func(*Options){
		`overlap "NEVER": want one of ALLOW, SKIP, QUEUE`: func(o *Options) { o.Overlap = "NEVER" },
		`history "": want one of ALL, FAILED, NONE`:       func(o *Options) { o.History = "" },
		`QueueLimit (0) must be at least 1`:               func(o *Options) { o.QueueLimit = 0 },
		`Timeout (-1s) must not be negative`:              func(o *Options) { o.Timeout = -time.Second },
		`Attempts (-1) must be at least 1`:                func(o *Options) { o.Attempts = -1 },
		`MaxBackoff (5s) must not be below Backoff (10s)`: func(o *Options) { o.MaxBackoff = 5 * time.Second },
		`Backoff (1.5ms): want whole milliseconds`:        func(o *Options) { o.Backoff = 1500 * time.Microsecond },
		`MaxRunning (-1) must be between 0, for any n`:    func(o *Options) { o.MaxRunning = -1 },
		`MaxRunning (10001) must be between 0`:            func(o *Options) { o.MaxRunning = 10001 },
		`Priority (2) must be PriorityLow, `:              func(o *Options) { o.Priority = 2 },
		`KeepRuns (-2) must not be negative`:              func(o *Options) { o.KeepRuns = -2 },
		`KeepFor (-1ms) must not be negative`:             func(o *Options) { o.KeepFor = -time.Millisecond },
	} {
		o := Defaults()
		change(&o)
		require.ErrorContains(t, o.Validate(), want)
	}
}

// Columns hold what a person types, and no value may stop a claim or the process.
func TestOptionsTypedBySQL(t *testing.T) {
	for _, backoff := range []time.Duration{0, 1, 4, math.MaxInt64} {
		for _, most := range []time.Duration{0, 1, time.Hour, math.MaxInt64} {
			for _, attempt := range []int{math.MinInt, 0, 1, 2, 63, 64, 65, math.MaxInt} {
				o := Options{Backoff: fromColumn(int64(backoff)), MaxBackoff: fromColumn(int64(most))}
				require.GreaterOrEqual(t, o.RetryIn(attempt), time.Duration(0), "%v, attempt %d", o, attempt)
			}
		}
	}
	require.Zero(t, fromColumn(math.MinInt64))

	f := newTables(t)
	testdb.DropChecks(t, f.DB.DB)
	f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 7, OVERLAP = 'QUEUE', QUEUE_LIMIT = -3, RUN_TIMEOUT = -1, ATTEMPTS = -1, BACKOFF = 9223372036854775807,
		MAX_BACKOFF = -9223372036854775808, KEEP_FOR = -1, KEEP_RUNS = -1, MAX_RUNNING = -1, PRIORITY = 127`)
	won := f.claim(f.Join("n1"), 3, f.Add())
	require.Len(t, won.Runs, 1)
	o := won.Runs[0].Options
	require.True(t, o.Recovery)
	require.Zero(t, o.QueueLimit)
	require.Zero(t, o.MaxRunning)
	require.Equal(t, PriorityHigh, o.Priority)
	require.Zero(t, o.Timeout)
	require.Zero(t, o.RetryIn(1))
	n, _, err := f.store.CleanHistory(t.Context(), at(1000))
	require.NoError(t, err)
	require.Zero(t, n)
}
