package execute

import (
	"fmt"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/cron"
)

// Kind is how a schedule is written: JOB_TYPE.
type Kind string

// The kinds of schedule.
const (
	Cron   Kind = "CRON"   // a Quartz expression in a time zone
	Simple Kind = "SIMPLE" // a fixed rate from a start
)

// lastMilli is the last time that a column takes, and a calendar has: the end of the year 9999.
const lastMilli = 253402300799999

// Forever is the Repeat of a schedule without a limit.
const Forever = -1

// Spec is a schedule as it is stored.
type Spec struct {
	Kind   Kind
	Cron   string        // CRON only: six or seven fields, seconds first
	Zone   string        // CRON only: an IANA name; empty is UTC
	Repeat int           // the total number of fires; Forever for no limit, 0 for none
	Every  time.Duration // SIMPLE only: the rate, in whole milliseconds
	Start  time.Time     // no fire before it; a fixed rate counts from it
	End    time.Time     // no fire after it; zero for no end
}

// Schedule answers when an execute fires. It is the one notion of "next fire" that moves,
// preview and audit share. Its fires depend on the stored row alone, never on when it is asked.
type Schedule struct {
	rule       rule
	zone       *time.Location // of its fires: that of a cron schedule, UTC for others
	start, end time.Time
	repeat     int
}

// rule is what differs between kinds: the first time after another, whatever start, end and count.
type rule interface {
	next(after time.Time) time.Time // zero: never again
	countsFromStart() bool
}

// After is the first fire after t, given that fired fires are behind; zero if there is none.
// A fire exactly at the start or at the end counts. It is in the schedule's zone.
func (s Schedule) After(t time.Time, fired int64) time.Time {
	if s.repeat >= 0 && fired >= int64(s.repeat) {
		return time.Time{}
	}
	if t.Before(s.start) {
		t = s.start.Add(-time.Nanosecond)
	}
	next := s.rule.next(t)
	if next.IsZero() || !s.end.IsZero() && next.After(s.end) || next.UnixMilli() > lastMilli {
		return time.Time{}
	}
	return s.in(next)
}

// in is a time in the schedule's zone; none stays none. One that cannot be used has UTC.
func (s Schedule) in(t time.Time) time.Time {
	switch {
	case t.IsZero():
		return time.Time{}
	case s.zone == nil:
		return t.UTC()
	}
	return t.In(s.zone)
}

// allows tells whether a fire lies within start, end and count. It need not be one of the rule's own: a person
// who writes NEXT_FIRE_TIME decides when the execute fires next.
func (s Schedule) allows(fire time.Time, fired int64) bool {
	return (s.repeat < 0 || fired < int64(s.repeat)) && !fire.Before(s.start) && (s.end.IsZero() || !fire.After(s.end))
}

// First is the first fire of a schedule that has none behind it. A fixed rate owes its fires from its
// start on; a cron schedule starts at its start or now, whichever is later, so that an expression
// added with a start in the past does not fire for it. A START_TIME of 0, its default, is no start: it
// anchors a fixed rate, and owes nothing.
func (s Schedule) First(now time.Time) time.Time {
	if s.rule.countsFromStart() && s.start.UnixMilli() > 0 {
		return s.After(s.start.Add(-time.Nanosecond), 0)
	}
	return s.After(now.Add(-time.Nanosecond), 0)
}

// Schedules turns specs into schedules; it remembers time zones, which are costly to load.
// The zero value is ready; it is safe for concurrent use.
type Schedules struct{ zones sync.Map }

// Parse refuses a spec that could never be what its writer meant, saying which column is wrong.
func (p *Schedules) Parse(spec Spec) (Schedule, error) {
	s := Schedule{zone: time.UTC, start: spec.Start, end: spec.End, repeat: spec.Repeat}
	if !spec.End.IsZero() && spec.End.Before(spec.Start) {
		return s, fmt.Errorf("END_TIME %s is before START_TIME %s", spec.End.Format(time.RFC3339), spec.Start.Format(time.RFC3339))
	}
	var err error
	switch spec.Kind {
	case Cron:
		s.rule, s.zone, err = p.cronRule(spec)
	case Simple:
		s.rule, err = newRateRule(spec)
	default:
		err = fmt.Errorf("JOB_TYPE %q: want %s or %s", spec.Kind, Cron, Simple)
	}
	return s, err
}

type cronRule struct{ *cron.Schedule }

func (r cronRule) next(after time.Time) time.Time { return r.Next(after) }
func (r cronRule) countsFromStart() bool          { return false }

func (p *Schedules) cronRule(spec Spec) (rule, *time.Location, error) {
	zone, ok := p.zones.Load(spec.Zone)
	if !ok {
		loc, err := cron.LoadLocation(spec.Zone)
		if err != nil {
			return nil, nil, fmt.Errorf("ZONE_ID: %w", err)
		}
		zone, _ = p.zones.LoadOrStore(spec.Zone, loc)
	}
	loc := zone.(*time.Location)
	schedule, err := cron.Parse(spec.Cron, loc)
	if err != nil {
		return nil, nil, fmt.Errorf("CRON: %w", err)
	}
	return cronRule{schedule}, loc, nil
}

// rateRule fires at start + k × every, so that it does not drift however late its fires run.
type rateRule struct {
	start time.Time
	every time.Duration // 0: only at start
}

func newRateRule(spec Spec) (rule, error) {
	switch {
	case spec.Every < 0, spec.Every == 0 && spec.Repeat != 1 && spec.Repeat != 0:
		return nil, fmt.Errorf("REPEAT_INTERVAL %d ms: want at least 1, unless REPEAT_COUNT is 1", spec.Every.Milliseconds())
	case spec.Every%time.Millisecond != 0:
		return nil, fmt.Errorf("REPEAT_INTERVAL %s: want whole milliseconds", spec.Every)
	}
	return rateRule{spec.Start, spec.Every}, nil
}

func (r rateRule) next(after time.Time) time.Time {
	if after.Before(r.start) {
		return r.start
	}
	if r.every == 0 {
		return time.Time{}
	}
	// In milliseconds, since a time.Duration ends after 292 years and START_TIME may be 0.
	behind := (after.UnixMilli() - r.start.UnixMilli()) / r.every.Milliseconds()
	return time.UnixMilli(r.start.UnixMilli() + (behind+1)*r.every.Milliseconds())
}

func (r rateRule) countsFromStart() bool { return true }
