package check

import (
	"cmp"
	"time"

	"github.com/qrtz-go/qrtz/internal/proof/firetimes"
)

// expected lists the fires that one execute owes. done tells whether a fire has a row: one within a
// span of Options.Off that has none was passed over, and does not count towards REPEAT_COUNT either.
func (a *audit) expected(e *executeRow, runs []runRow, done func(fire int64) bool) []time.Time {
	since, until := a.active(e, runs)
	if until.Before(since) {
		return nil
	}
	spec := e.schedule()
	limit := int64(-1) // of fires
	from := since      // where to count from: a limited number of fires begins at the beginning
	if e.Repeat.Valid && e.Repeat.Int64 >= 0 {
		limit = e.Repeat.Int64
		if spec.Cron == "" || spec.Start.UnixMilli() > 0 {
			from = spec.Start
		}
	}
	all, err := spec.Fires(from, until)
	if err != nil {
		a.report.Unreadable++
		a.report.note(unreadable, e.ID, since, "%v", err)
		return nil
	}
	var fires []time.Time
	var fired int64
	for fire := range all {
		if fired == limit {
			break
		}
		if a.off(fire) && !done(fire.UnixMilli()) {
			continue
		}
		fired++
		if !fire.Before(since) {
			fires = append(fires, fire)
		}
	}
	return fires
}

func (a *audit) off(fire time.Time) bool {
	for _, s := range a.opts.Off {
		if !fire.Before(s.From) && !fire.After(s.Until) {
			return true
		}
	}
	return false
}

// active is the span in which the execute was active, by what is known of it, within the span to check.
func (a *audit) active(e *executeRow, runs []runRow) (since, until time.Time) {
	return later(a.opts.From, e.since(runs)), earlier(earlier(a.opts.Until, a.now), e.until())
}

// since is when the stored schedule began to apply.
func (e *executeRow) since(runs []runRow) time.Time {
	start := time.UnixMilli(max(e.Start, 0))
	changed, known := e.changedAt()
	if e.State == stateExecuting && known && claimedBefore(runs, changed) {
		return later(start, changed) // changed, or resumed, by SQL: what it was before is not known
	}
	if e.Kind == kindSimple {
		return start
	}
	// When a cron schedule was added is not on record. It was before it was last changed, and before its first run.
	var added time.Time
	if known {
		added = changed
	}
	if len(runs) > 0 && (!known || runs[0].at().Before(added)) {
		added = runs[0].at()
	}
	if e.startedByDeclaration(added) {
		return start
	}
	return later(start, added)
}

// startedByDeclaration tells whether START_TIME is about the time at which the execute was added, or later,
// so that the schedule owes what fires from then on. One long before means that it always was.
func (e *executeRow) startedByDeclaration(added time.Time) bool {
	const about = time.Minute
	return e.Start > 0 && added.Sub(time.UnixMilli(e.Start)) < about
}

// until is when the execute stopped being active; far away if it has not.
func (e *executeRow) until() time.Time {
	never := time.UnixMilli(1 << 52)
	changed, known := e.changedAt()
	switch {
	case e.State == stateExecuting:
		return never
	case e.State == stateInit:
		return time.UnixMilli(0)
	case e.State == statePaused && e.PausedAt.Valid:
		return time.UnixMilli(e.PausedAt.Int64)
	case e.State == stateComplete && !e.Next.Valid:
		return never // it came to its own end
	case known:
		return changed // paused, broken or retired then
	}
	return time.UnixMilli(0)
}

func (e *executeRow) changedAt() (time.Time, bool) {
	return time.UnixMilli(e.Changed.Int64), e.Changed.Valid
}

func (e *executeRow) schedule() firetimes.Schedule {
	s := firetimes.Schedule{Every: time.Duration(e.Every.Int64) * time.Millisecond, Start: time.UnixMilli(max(e.Start, 0))}
	if e.Kind != kindSimple {
		s.Cron, s.Zone = cmp.Or(e.Cron.String, "none"), e.Zone.String
	}
	if e.End.Valid && e.End.Int64 > 0 {
		s.End = time.UnixMilli(e.End.Int64)
	}
	return s
}

// claimedBefore tells whether a run was claimed before t.
func claimedBefore(runs []runRow, t time.Time) bool {
	for _, r := range runs {
		if r.ClaimedAt.Valid && r.ClaimedAt.Int64 < t.UnixMilli() {
			return true
		}
	}
	return false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
