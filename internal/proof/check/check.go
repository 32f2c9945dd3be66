// Package check is the independent auditor: it recomputes from the stored schedules which fires should
// have happened and compares them with what is on record, and with what handlers say they did. When a
// schedule fires it knows from package firetimes, which shares nothing with the engine; its SQL is its
// own and only reads.
package check

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// Options say what to check.
type Options struct {
	App         string
	From, Until time.Time // the fires to check, both included

	// LateAfter is how long after its time a fire may still wait for its claim. Only after that is it
	// Missing. Zero, the default, is right once all schedules have ended.
	LateAfter time.Duration

	// Except leaves out jobs whose names begin with it. Empty leaves out none.
	Except string

	// Off are spans in which fires may be passed over without a trace, as promised for an app, all
	// nodes or a schedule switched off: what did not happen in them is not expected.
	Off []Span

	// Record and RecordTable are the handlers' own accounts of what they started, if they kept one.
	// The table has the columns EXECUTE_ID, FIRE_TIME, ATTEMPT, NODE and STARTED_AT, times in
	// milliseconds, and may have FINISHED_AT. An account is taken as complete for every execute that it
	// mentions. What it says of runs without a schedule is ignored: nothing identifies them.
	//
	// Record is called once the snapshot has been taken, so that it knows of every start that the
	// snapshot shows; what it knows of later ones is not held against it.
	Record      func() ([]Start, error)
	RecordTable string
}

// Span is a span of time, both ends included.
type Span struct{ From, Until time.Time }

// Start is one start of a handler, as the handler saw it.
type Start struct {
	ExecuteID  int64
	FireTime   time.Time
	StartedAt  time.Time // by the database's clock
	FinishedAt time.Time // likewise; zero if it is not known
	Attempt    int       // 0 counts as 1
	Node       string
}

// Run checks the fires of one app. The error says that the check could not be made; what it found
// wrong is in the report. It reads one snapshot, so that it can be run beside working nodes.
//
// Each execute is checked as far back as its stored schedule is known to have applied: a fixed rate
// from its START_TIME, a cron schedule from its START_TIME or creation, either from the last change
// by SQL; and as far on as it was active: to its end, or to when it was paused.
func Run(ctx context.Context, db *sql.DB, prefix string, opts Options) (Report, error) {
	a := audit{opts: opts, prefix: schema.Prefix(prefix), lossy: map[int64]bool{}}
	if err := errors.Join(a.prefix.Validate(), opts.validate()); err != nil {
		return Report{}, fmt.Errorf("check: %w", err)
	}
	if err := a.read(ctx, sqlx.NewDb(db, "mysql")); err != nil {
		return Report{}, fmt.Errorf("check app %q: %w", opts.App, err)
	}
	return a.finish(), nil
}

func (o Options) validate() error {
	switch {
	case o.App == "":
		return errors.New("Options.App is empty: want the name of an app")
	case o.From.IsZero(), o.Until.Before(o.From):
		return fmt.Errorf("Options.Until (%s) must not be before Options.From (%s)", o.Until.Format(time.RFC3339), o.From.Format(time.RFC3339))
	case o.LateAfter < 0:
		return fmt.Errorf("Options.LateAfter (%s) must not be negative", o.LateAfter)
	case o.RecordTable != "" && !tableName.MatchString(o.RecordTable):
		return fmt.Errorf("Options.RecordTable (%q): want letters, digits and _", o.RecordTable)
	}
	return nil
}

// fireKey names a fire.
type fireKey struct {
	execute int64
	fire    int64 // in milliseconds
}

// attemptKey names an attempt to carry out a fire.
type attemptKey struct {
	fireKey
	attempt int
}

// audit is a check in progress.
type audit struct {
	opts   Options
	prefix schema.Prefix
	report Report

	now    time.Time                // the database's clock, right before the snapshot
	taken  time.Time                // the same when it had been taken: what is not in it may have been deleted until then
	nodes  map[string]sql.NullInt64 // the instance that holds each node id
	starts map[attemptKey][]Start   // by the independent account; those with a run on record are removed
	upTo   map[fireKey]int          // the highest attempt at each fire by that account
	kept   map[int64]bool           // the executes that the account mentions
	lossy  map[int64]bool           // the executes, and whether they have runs of which no row is kept
	spans  map[lane][]span          // what ran when, of jobs that let only some runs go at a time
	late   []time.Duration
}

// onRecord takes the independent account.
func (a *audit) onRecord(starts []Start) {
	a.starts, a.upTo, a.kept = map[attemptKey][]Start{}, map[fireKey]int{}, map[int64]bool{}
	for _, s := range starts {
		if s.ExecuteID == 0 {
			continue
		}
		s.Attempt = max(s.Attempt, 1)
		key := attemptKey{fireKey{s.ExecuteID, s.FireTime.UnixMilli()}, s.Attempt}
		a.starts[key] = append(a.starts[key], s)
		a.upTo[key.fireKey] = max(a.upTo[key.fireKey], s.Attempt)
		a.kept[s.ExecuteID] = true
	}
	for _, same := range a.starts {
		if first := same[0]; len(same) > 1 {
			a.report.add(double, first.ExecuteID, first.FireTime, "attempt %d was started %d times, %s", first.Attempt, len(same), startsOf(same))
		}
	}
}

func startsOf(starts []Start) string {
	text := ""
	for i, s := range starts {
		if i > 0 {
			text += " and "
		}
		text += fmt.Sprintf("by node %q at %s", s.Node, clock(s.StartedAt))
	}
	return text
}

// judge compares the fires of one execute with its runs.
func (a *audit) judge(e *executeRow, runs []runRow) {
	a.report.Executes++
	a.lossy[e.ID] = !e.keepsAll() || e.KeepRuns > 0
	runs = a.withoutDoubles(runs)
	last := map[int64]runRow{} // the latest attempt of each fire
	var skips []runRow
	for _, r := range runs {
		a.judgeRun(r)
		if r.State == stateSkipped {
			skips = append(skips, r)
		} else {
			last[r.FireTime] = r
		}
	}
	done := func(fire int64) bool {
		_, ok := last[fire]
		return ok || covered(skips, fire) || a.upTo[fireKey{e.ID, fire}] > 0
	}
	skipped := make([]int64, len(skips))
	for _, fire := range a.expected(e, runs, done) {
		a.report.Expected++
		ms := fire.UnixMilli()
		if r, ok := last[ms]; ok {
			if e.keepsAll() || a.takeStarts(e, fire) <= r.Attempt {
				a.count(r)
			} else {
				a.report.Run++ // a later attempt, of which no row is kept
			}
			delete(last, ms)
		} else if i := covering(skips, ms); i >= 0 {
			skipped[i]++
			if !e.keepsAll() && a.takeStarts(e, fire) > 0 {
				a.report.Run++ // and a further attempt was skipped
			} else {
				a.report.Skipped++
			}
		} else {
			a.withoutRow(e, fire)
		}
	}
	for _, r := range last {
		if r.at().Before(a.opts.From) || r.at().After(earlier(a.opts.Until, a.now)) {
			continue // a fire may be claimed a little before its time
		}
		a.report.Unscheduled++
		a.report.note(unscheduled, r.ExecuteID, r.at(), "run %d belongs to no fire of the schedule as it is stored: asked for, or it was changed since", r.ID)
	}
	for i, r := range skips {
		if r.at().Before(a.opts.From) || r.until().After(a.opts.Until) || skipped[i] <= r.Count {
			continue
		}
		a.report.add(missing, r.ExecuteID, r.at(), "run %d is SKIPPED for %d fires up to %s, but the schedule has %d there",
			r.ID, r.Count, clock(r.until()), skipped[i])
	}
}

// withoutDoubles reports rows that name the same attempt. The unique key forbids them; an auditor does not trust it.
func (a *audit) withoutDoubles(runs []runRow) []runRow {
	seen := map[attemptKey]int64{}
	kept := runs[:0:0]
	for _, r := range runs {
		key := attemptKey{fireKey{r.ExecuteID, r.FireTime}, r.Attempt}
		if other, ok := seen[key]; ok {
			a.report.add(double, r.ExecuteID, r.at(), "runs %d and %d both are attempt %d", other, r.ID, r.Attempt)
			continue
		}
		seen[key] = r.ID
		kept = append(kept, r)
	}
	return kept
}

// judgeRun looks at one run for itself.
func (a *audit) judgeRun(r runRow) {
	key := attemptKey{fireKey{r.ExecuteID, r.FireTime}, r.Attempt}
	account := a.starts[key]
	delete(a.starts, key)
	for _, s := range account {
		a.judgeStart(s)
		if r.Node.String != s.Node && r.Node.Valid {
			a.report.add(noNode, r.ExecuteID, r.at(), "run %d is on record for node %q, but %q started it", r.ID, r.Node.String, s.Node)
		}
	}
	if r.StartedAt.Valid && r.StartedAt.Int64 < r.FireTime {
		a.report.add(early, r.ExecuteID, r.at(), "run %d started %d ms early on node %q", r.ID, r.FireTime-r.StartedAt.Int64, r.Node.String)
	}
	switch r.State {
	case stateSucceeded, stateFailed, stateRunning, stateLost:
		if _, ok := a.nodes[r.Node.String]; !ok || !r.Instance.Valid {
			a.report.add(noNode, r.ExecuteID, r.at(), "run %d is %s, but its node %q (instance %d) is unknown", r.ID, r.State, r.Node.String, r.Instance.Int64)
		}
	case statePending, stateSkipped:
		if len(account) > 0 && !account[0].StartedAt.After(a.now) {
			a.report.add(noRun, r.ExecuteID, r.at(), "a handler was started, but run %d is %s", r.ID, r.State)
		}
	}
	if r.State == stateSucceeded && a.kept[r.ExecuteID] && len(account) == 0 {
		a.report.add(missing, r.ExecuteID, r.at(), "run %d SUCCEEDED, but no handler says it did it", r.ID)
	}
	a.measure(r, account)
}

// measure notes how late a first attempt started.
func (a *audit) measure(r runRow, account []Start) {
	switch {
	case r.Attempt > 1 || r.FireTime < a.opts.From.UnixMilli() || r.FireTime > a.opts.Until.UnixMilli():
	case r.StartedAt.Valid:
		a.late = append(a.late, time.Duration(r.StartedAt.Int64-r.FireTime)*time.Millisecond)
	case len(account) > 0:
		a.late = append(a.late, account[0].StartedAt.Sub(account[0].FireTime))
	}
}

// count counts a fire by the state of its latest attempt.
func (a *audit) count(r runRow) {
	switch r.State {
	case statePending:
		a.report.Pending++
	case stateCancelled:
		a.report.Cancelled++
	case stateLost:
		a.report.Lost++
	case stateRunning:
		if a.abandoned(r) {
			a.report.Lost++
			a.report.note(lost, r.ExecuteID, r.at(), "run %d is RUNNING on node %q, instance %d, which is gone", r.ID, r.Node.String, r.Instance.Int64)
			return
		}
		a.report.Run++
	default:
		a.report.Run++
	}
}

// abandoned tells whether a RUNNING run belongs to an instance that no node is any more.
func (a *audit) abandoned(r runRow) bool {
	holder, ok := a.nodes[r.Node.String]
	return !ok || !holder.Valid || !r.Instance.Valid || holder.Int64 != r.Instance.Int64
}

// withoutRow judges a fire that has no row at all.
func (a *audit) withoutRow(e *executeRow, fire time.Time) {
	behind := e.Next.Valid && fire.UnixMilli() < e.Next.Int64 || e.State != stateExecuting
	switch {
	case !behind && a.now.Sub(fire) <= a.opts.LateAfter:
		a.report.Waiting++
	case !behind:
		a.report.add(missing, e.ID, fire, "no node has claimed it (state %s)", e.State)
	case e.keepsAll() && !e.cleaned(fire, a.taken):
		a.report.add(missing, e.ID, fire, "the schedule has moved on without it (state %s)", e.State)
	case a.takeStarts(e, fire) > 0:
		a.report.Run++
	case a.kept[e.ID] && e.writesRow() && !e.cleaned(fire, a.taken):
		a.report.add(missing, e.ID, fire, "no row is left, as if it had succeeded (HISTORY %s), but no handler says it did it", e.History)
	default:
		a.report.Untraced++
	}
}

// takeStarts takes, from the independent account, the starts at a fire of which no row is on record, and returns the
// highest attempt among them, 0 for none.
func (a *audit) takeStarts(e *executeRow, fire time.Time) int {
	at, highest := fireKey{e.ID, fire.UnixMilli()}, 0
	for attempt := 1; attempt <= a.upTo[at]; attempt++ {
		key := attemptKey{at, attempt}
		for _, s := range a.starts[key] {
			highest = attempt
			a.judgeStart(s)
			if _, ok := a.nodes[s.Node]; !ok {
				a.report.add(noNode, e.ID, fire, "by its own account node %q started it, which is unknown", s.Node)
			}
			if attempt == 1 {
				a.late = append(a.late, s.StartedAt.Sub(s.FireTime))
			}
		}
		delete(a.starts, key)
	}
	return highest
}

func (a *audit) judgeStart(s Start) {
	if s.StartedAt.Before(s.FireTime) {
		a.report.add(early, s.ExecuteID, s.FireTime, "by its own account the handler started %s early on node %q", s.FireTime.Sub(s.StartedAt), s.Node)
	}
}

// finish judges what is left and sums up.
func (a *audit) finish() Report {
	for key, starts := range a.starts {
		s := starts[0]
		lossy, stored := a.lossy[key.execute]
		switch {
		case !stored: // the tables do not tell what it owed
		case s.FireTime.Before(a.opts.From), s.FireTime.After(a.opts.Until), s.StartedAt.After(a.now):
		case lossy:
			a.report.Unscheduled++
			a.report.note(unscheduled, key.execute, s.FireTime, "started %s, at no fire of the schedule as it is stored", startsOf(starts))
		default:
			a.report.add(noRun, key.execute, s.FireTime, "started %s, but no run is on record", startsOf(starts))
		}
	}
	a.judgeOverlaps()
	a.report.From, a.report.Until = a.opts.From, a.opts.Until
	a.report.sum(a.late)
	return a.report
}

func covered(skips []runRow, fire int64) bool { return covering(skips, fire) >= 0 }

// covering is the index of the SKIPPED row that stands for the fire; -1 if there is none.
func covering(skips []runRow, fire int64) int {
	for i, s := range skips {
		if fire >= s.FireTime && fire <= s.until().UnixMilli() {
			return i
		}
	}
	return -1
}
