package run

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/internal/text"
)

// Overlap says what becomes of a fire while another run of its job is RUNNING.
type Overlap string

// The overlap rules.
const (
	OverlapAllow Overlap = "ALLOW" // it runs beside it
	OverlapSkip  Overlap = "SKIP"  // it is recorded as skipped
	OverlapQueue Overlap = "QUEUE" // it waits; of those that wait, the newest QUEUE_LIMIT are kept
)

// History says which runs stay on record when they have ended.
type History string

// The history rules.
const (
	HistoryAll    History = "ALL"
	HistoryFailed History = "FAILED" // what succeeded is deleted
	HistoryNone   History = "NONE"   // no row is written, unless recovery, overlap or retry need one while the run goes; a run that dies with its node leaves no trace
)

// Priority decides which runs start first where several are due at once and there is no room for all of them.
type Priority int8

// The priorities.
const (
	PriorityLow    Priority = -1
	PriorityNormal Priority = 0
	PriorityHigh   Priority = 1
)

// Within is the priority that there is: a person may have typed any number.
func (p Priority) Within() Priority { return min(max(p, PriorityLow), PriorityHigh) }

// MostRunning is the greatest MaxRunning: each run has a slot of its own, from 0 on.
const MostRunning = 10000

// Options are what a job asks of its runs; each is a column of QRTZ_JOB.
type Options struct {
	Recovery   bool          // a run whose node died is tried again elsewhere
	Overlap    Overlap       // OVERLAP
	QueueLimit int           // with OverlapQueue
	MaxRunning int           // how many runs of the job go at once in the whole cluster; 0 for any number
	Priority   Priority      // PRIORITY
	Timeout    time.Duration // of a run; 0 for none
	Attempts   int           // at most, of one fire, when it fails
	Backoff    time.Duration // before the second attempt; it doubles with each further one
	MaxBackoff time.Duration // between attempts
	History    History       // HISTORY
	KeepFor    time.Duration // how long finished runs are kept; 0 for ever
	KeepRuns   int           // how many finished runs are kept; 0 for any number
}

// Validate names every option that cannot work.
func (o Options) Validate() error {
	var problems []error
	refuse := func(when bool, format string, args ...any) {
		if when {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	overlaps, histories := []Overlap{OverlapAllow, OverlapSkip, OverlapQueue}, []History{HistoryAll, HistoryFailed, HistoryNone}
	refuse(!slices.Contains(overlaps, o.Overlap), "overlap %q: want one of %s", o.Overlap, text.List(overlaps))
	refuse(!slices.Contains(histories, o.History), "history %q: want one of %s", o.History, text.List(histories))
	refuse(o.MaxRunning < 0 || o.MaxRunning > MostRunning, "MaxRunning (%d) must be between 0, for any number, and %d", o.MaxRunning, MostRunning)
	refuse(o.Priority < PriorityLow || o.Priority > PriorityHigh, "Priority (%d) must be PriorityLow, PriorityNormal or PriorityHigh", o.Priority)
	refuse(o.QueueLimit < 1, "QueueLimit (%d) must be at least 1", o.QueueLimit)
	refuse(o.Timeout < 0, "Timeout (%s) must not be negative", o.Timeout)
	refuse(o.Attempts < 1, "Attempts (%d) must be at least 1", o.Attempts)
	refuse(o.Backoff < 0, "Backoff (%s) must not be negative", o.Backoff)
	refuse(o.MaxBackoff < o.Backoff, "MaxBackoff (%s) must not be below Backoff (%s)", o.MaxBackoff, o.Backoff)
	refuse(o.KeepFor < 0, "KeepFor (%s) must not be negative", o.KeepFor)
	for name, d := range map[string]time.Duration{"Timeout": o.Timeout, "Backoff": o.Backoff, "MaxBackoff": o.MaxBackoff, "KeepFor": o.KeepFor} {
		refuse(d > 0 && d%time.Millisecond != 0, "%s (%s): want whole milliseconds", name, d)
		refuse(d > century, "%s (%s) must be at most 100 years", name, d)
	}
	for name, n := range map[string]int{"QueueLimit": o.QueueLimit, "Attempts": o.Attempts, "KeepRuns": o.KeepRuns} {
		refuse(n > math.MaxInt32, "%s (%d) must be at most %d, or Unlimited", name, n, math.MaxInt32)
	}
	refuse(o.KeepRuns < 0, "KeepRuns (%d) must not be negative", o.KeepRuns)
	return errors.Join(problems...)
}

// WithoutRow are the options of a run that has no row: what needs one is off.
func (o Options) WithoutRow() Options {
	o.History, o.Overlap, o.MaxRunning, o.Recovery, o.Attempts = HistoryNone, OverlapAllow, 0, false, 1
	return o
}

// keeps tells whether a run that ended so stays on record.
func (o Options) keeps(state State) bool {
	return o.History == HistoryAll || o.History == HistoryFailed && state != Succeeded
}

// RetryIn is how long to wait after attempt failed: Pause, give or take a fifth, so that what failed together does not come back
// together.
func (o Options) RetryIn(attempt int) time.Duration {
	pause := o.Pause(attempt)
	fifth := pause / 5
	return pause - fifth + rand.N(2*fifth+1)
}

// Pause is Backoff, doubled with each attempt after the first, and at most MaxBackoff.
func (o Options) Pause(attempt int) time.Duration {
	pause := min(o.Backoff, o.MaxBackoff)
	for ; attempt > 1 && pause > 0 && pause < o.MaxBackoff; attempt-- {
		pause += min(pause, o.MaxBackoff-pause)
	}
	return pause
}

// OptionColumns are the columns of QRTZ_JOB that OptionRow reads.
const OptionColumns = `J.RECOVERY <> 0 AS RECOVERY, J.OVERLAP, J.QUEUE_LIMIT, J.RUN_TIMEOUT, J.ATTEMPTS, J.BACKOFF, J.MAX_BACKOFF, J.HISTORY, J.KEEP_FOR, J.KEEP_RUNS,
       J.MAX_RUNNING, J.PRIORITY AS JOB_PRIORITY`

// runOptionColumns are OptionColumns of a run R of the job J: what the run has of its own takes the place of the job's. A run whose key may be
// used once stays on record, since its row is what keeps the key.
const runOptionColumns = `J.RECOVERY <> 0 AS RECOVERY, J.OVERLAP, J.QUEUE_LIMIT, COALESCE(R.RUN_TIMEOUT, J.RUN_TIMEOUT) AS RUN_TIMEOUT,
       COALESCE(R.ATTEMPTS, J.ATTEMPTS) AS ATTEMPTS, J.BACKOFF, J.MAX_BACKOFF, IF(R.KEY_ONCE = 1, 'ALL', J.HISTORY) AS HISTORY, J.KEEP_FOR, J.KEEP_RUNS,
       J.MAX_RUNNING, COALESCE(R.PRIORITY, J.PRIORITY) AS JOB_PRIORITY`

// OptionRow is the options as columns. Its fields are pointers, since a job may have been deleted under its run.
type OptionRow struct {
	Recovery   *bool     `db:"RECOVERY"`
	Overlap    *Overlap  `db:"OVERLAP"`
	QueueLimit *int      `db:"QUEUE_LIMIT"`
	Timeout    *int64    `db:"RUN_TIMEOUT"`
	Attempts   *int      `db:"ATTEMPTS"`
	Backoff    *int64    `db:"BACKOFF"`
	MaxBackoff *int64    `db:"MAX_BACKOFF"`
	History    *History  `db:"HISTORY"`
	KeepFor    *int64    `db:"KEEP_FOR"`
	KeepRuns   *int      `db:"KEEP_RUNS"`
	MaxRunning *int      `db:"MAX_RUNNING"`
	Priority   *Priority `db:"JOB_PRIORITY"`
}

// Options are the options that the columns say.
func (r OptionRow) Options() Options {
	if r.Overlap == nil {
		return Defaults() // its job is gone
	}
	return Options{
		Recovery: *r.Recovery, Overlap: *r.Overlap, QueueLimit: max(*r.QueueLimit, 0),
		Timeout: fromColumn(*r.Timeout), Attempts: *r.Attempts, Backoff: fromColumn(*r.Backoff), MaxBackoff: fromColumn(*r.MaxBackoff),
		History: *r.History, KeepFor: fromColumn(*r.KeepFor), KeepRuns: *r.KeepRuns,
		MaxRunning: min(max(*r.MaxRunning, 0), MostRunning), Priority: r.Priority.Within(),
	}
}

// OptionNames are the columns of QRTZ_JOB that hold options.
var OptionNames = []string{
	"RECOVERY", "OVERLAP", "QUEUE_LIMIT", "RUN_TIMEOUT", "ATTEMPTS", "BACKOFF", "MAX_BACKOFF",
	"HISTORY", "KEEP_FOR", "KEEP_RUNS", "MAX_RUNNING", "PRIORITY",
}

// Columns are the values of the columns that OptionNames names, in their order.
func (o Options) Columns() []any {
	return []any{
		o.Recovery, o.Overlap, o.QueueLimit, o.Timeout.Milliseconds(), o.Attempts, o.Backoff.Milliseconds(), o.MaxBackoff.Milliseconds(),
		o.History, o.KeepFor.Milliseconds(), o.KeepRuns, o.MaxRunning, o.Priority,
	}
}

// Defaults are the options of a job that says nothing, as the columns have them too.
func Defaults() Options {
	return Options{
		Overlap: OverlapAllow, QueueLimit: 10, Attempts: 1, Backoff: 10 * time.Second, MaxBackoff: time.Hour,
		History: HistoryAll, KeepFor: 30 * 24 * time.Hour,
	}
}

// century is the longest duration that a column takes.
const century = 100 * 365 * 24 * time.Hour

// fromColumn bounds what a person may have typed to what a Duration holds with room to spare: 0 to 100 years.
func fromColumn(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), century.Milliseconds())) * time.Millisecond
}
