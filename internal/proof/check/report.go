package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report is what a check found. Every expected fire is counted once:
// Expected = Run + Lost + Skipped + Cancelled + Pending + Waiting + Untraced + the Missing that have no row.
type Report struct {
	From, Until time.Time
	Executes    int // how many were checked

	Expected int // fires that the schedules owe
	Run      int // carried out, or being carried out by a live node
	Lost     int // claimed by a node that died
	Skipped  int // recorded as misfires, or skipped by an overlap rule
	Pending  int // handed back, to be tried again, or left for any node: to be claimed
	Waiting  int // due, and no later than Options.LateAfter

	Cancelled int // on request
	Untraced  int // claimed, and of their runs no row is kept (HISTORY, KEEP_FOR, KEEP_RUNS) nor any handler's account

	Double  int // attempts that were started more than once
	Missing int // fires with neither a run nor a recorded skip, and runs that no handler did
	Early   int // starts before their time
	NoNode  int // runs of a node without a row
	NoRun   int // starts of handlers without a run on record
	Overlap int // runs that went beside as many of their job as may go at a time (OVERLAP, MAX_RUNNING)

	Unscheduled int // runs of no fire of the schedule as it is stored; asked for, for example
	Unreadable  int // executes whose schedule cannot be read, and so not be checked

	P50, P99, Max time.Duration // how late first attempts started

	// Offenders name the first of each kind, at most ten.
	Offenders []Offender
}

// Offender is one thing that is wrong, or worth a note.
type Offender struct {
	Kind      string // "double", "missing" …
	ExecuteID int64
	Fire      time.Time
	At        time.Time // when it happened, if that may be long after Fire, as with a run that had to wait; else Fire
	Detail    string
}

// String names the offender in one line.
func (o Offender) String() string {
	return fmt.Sprintf("%s: execute %d, fire %s: %s", o.Kind, o.ExecuteID, clock(o.Fire), o.Detail)
}

const (
	double      = "double"
	missing     = "missing"
	early       = "early"
	noNode      = "no node"
	noRun       = "no run"
	overlap     = "overlap"
	lost        = "lost"
	unscheduled = "unscheduled"
	unreadable  = "unreadable"

	maxOffenders = 10 // of a kind
)

// Ok tells whether everything held that must always hold.
func (r Report) Ok() bool {
	return r.Double == 0 && r.Missing == 0 && r.Early == 0 && r.NoNode == 0 && r.NoRun == 0 && r.Overlap == 0
}

// String is the report for people, several lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d schedules from %s to %s\n", r.Executes, clock(r.From), clock(r.Until))
	fmt.Fprintf(&b, "expected %d: run %d, lost %d, skipped %d, pending %d, waiting %d\n", r.Expected, r.Run, r.Lost, r.Skipped, r.Pending, r.Waiting)
	if r.Cancelled > 0 || r.Untraced > 0 {
		fmt.Fprintf(&b, "cancelled %d, untraced %d\n", r.Cancelled, r.Untraced)
	}
	fmt.Fprintf(&b, "double %d, missing %d, early %d, without node %d, without run %d, overlapping %d\n",
		r.Double, r.Missing, r.Early, r.NoNode, r.NoRun, r.Overlap)
	if r.Unscheduled > 0 || r.Unreadable > 0 {
		fmt.Fprintf(&b, "unscheduled %d, unreadable schedules %d\n", r.Unscheduled, r.Unreadable)
	}
	fmt.Fprintf(&b, "late p50 %s, p99 %s, max %s\n", r.P50, r.P99, r.Max)
	for _, o := range r.Offenders {
		fmt.Fprintf(&b, "  %s\n", o)
	}
	return b.String()
}

// add counts an offence and names it.
func (r *Report) add(kind string, execute int64, fire time.Time, format string, args ...any) {
	switch kind {
	case double:
		r.Double++
	case missing:
		r.Missing++
	case early:
		r.Early++
	case noNode:
		r.NoNode++
	case noRun:
		r.NoRun++
	case overlap:
		r.Overlap++
	}
	r.note(kind, execute, fire, format, args...)
}

// overlapping counts an overlap, and says when it was.
func (r *Report) overlapping(execute int64, fire, at time.Time, format string, args ...any) {
	before := len(r.Offenders)
	r.add(overlap, execute, fire, format, args...)
	if len(r.Offenders) > before {
		r.Offenders[before].At = at
	}
}

// note names what is worth a look, unless ten of its kind are named already.
func (r *Report) note(kind string, execute int64, fire time.Time, format string, args ...any) {
	n := 0
	for _, o := range r.Offenders {
		if o.Kind == kind {
			n++
		}
	}
	if n < maxOffenders {
		r.Offenders = append(r.Offenders, Offender{kind, execute, fire, fire, fmt.Sprintf(format, args...)})
	}
}

// sum orders the offenders and computes the percentiles.
func (r *Report) sum(late []time.Duration) {
	slices.SortStableFunc(r.Offenders, func(a, b Offender) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Fire.Compare(b.Fire), cmp.Compare(a.ExecuteID, b.ExecuteID))
	})
	slices.Sort(late)
	r.P50, r.P99, r.Max = percentile(late, 50), percentile(late, 99), percentile(late, 100)
}

// percentile is the smallest of the sorted values that p percent of them do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max((len(sorted)*p+99)/100-1, 0)]
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
