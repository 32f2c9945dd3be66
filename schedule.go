package qrtz

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz/execute"
)

// Misfire is what happens to fires that no node ran within Config.MisfireAfter.
type Misfire = execute.Misfire

// The misfire policies.
const (
	FireOnce = execute.FireOnce // run once, now; the default
	Skip     = execute.Skip     // run none; record them
	CatchUp  = execute.CatchUp  // run all, the latest Schedule.CatchUpLimit at most
)

// Schedule is when a job runs: one row of QRTZ_EXECUTE. Make one with Cron, Every or At. What their options set can also be
// assigned to its fields.
type Schedule struct {
	// Name identifies the schedule among those of its job, at most 120 bytes. It may stay empty if the job has only one.
	Name string

	// Start is before the first fire; a fixed rate counts from it. Defaults to when the schedule is first declared.
	Start time.Time

	// End is after the last fire; a fire exactly then still runs. Zero for no end.
	End time.Time

	// Count is how many fires there are in all. Defaults to no limit (Unlimited).
	Count int

	Misfire      Misfire // defaults to FireOnce
	CatchUpLimit int     // with CatchUp; defaults to 100, at most 1000

	// Data is handed to the handler in place of the job's, stored as JSON of at most 65,535 bytes; nil for the job's. Data that a
	// run is enqueued with takes the place of both.
	Data any

	kind       execute.Kind
	cron, zone string
	every      time.Duration
	once       bool    // At made it
	problems   []error // with what its options were given
}

// ScheduleOption sets a field of the schedule that Cron, Every or At makes.
type ScheduleOption func(*Schedule)

// Named gives the schedule its Name.
func Named(name string) ScheduleOption { return func(s *Schedule) { s.Name = name } }

// Starting gives the schedule its Start: no fire is before it, and a fixed rate counts from it. The zero time is an error.
func Starting(t time.Time) ScheduleOption {
	return func(s *Schedule) {
		s.Start = t
		s.refuse(t.IsZero(), "Starting: the zero time is no time")
	}
}

// Ending gives the schedule its End: a fire exactly then still runs, none after it does. The zero time is an error.
func Ending(t time.Time) ScheduleOption {
	return func(s *Schedule) {
		s.End = t
		s.refuse(t.IsZero(), "Ending: the zero time is no time")
	}
}

// Times gives the schedule its Count: so many fires in all, 1 at least.
func Times(n int) ScheduleOption {
	return func(s *Schedule) {
		s.Count = n
		s.refuse(n < 1, "Times(%d): want at least 1", n)
	}
}

// OnMisfire says what happens to fires that no node ran in time: FireOnce, Skip or CatchUp.
func OnMisfire(policy Misfire) ScheduleOption { return func(s *Schedule) { s.Misfire = policy } }

// CatchingUp is OnMisfire(CatchUp) with a limit: the latest fires run, so many at most, between 1 and 1000.
func CatchingUp(most int) ScheduleOption {
	return func(s *Schedule) {
		s.Misfire, s.CatchUpLimit = CatchUp, most
		s.refuse(most < 1, "CatchingUp(%d): want at least 1", most)
	}
}

// WithData gives the schedule data of its own, in place of the job's.
func WithData(data any) ScheduleOption { return func(s *Schedule) { s.Data = data } }

func (s *Schedule) refuse(when bool, format string, args ...any) {
	if when {
		s.problems = append(s.problems, fmt.Errorf(format, args...))
	}
}

func (s Schedule) with(options []ScheduleOption) Schedule {
	for i, option := range options {
		if s.refuse(option == nil, "option %d is nil", i); option != nil {
			option(&s)
		}
	}
	return s
}

// Cron is a Quartz expression, seconds first, in a time zone; an empty zone is UTC.
// "0 30 2 ? * MON-FRI" is half past two on weekdays. See docs/schedules.md.
func Cron(expression, zone string, options ...ScheduleOption) Schedule {
	return Schedule{kind: execute.Cron, cron: expression, zone: zone}.with(options)
}

// Every is a fixed rate, in whole milliseconds, of 1 at least: the k-th fire is at Start + k × every, however long the runs take.
func Every(every time.Duration, options ...ScheduleOption) Schedule {
	return Schedule{kind: execute.Simple, every: every}.with(options)
}

// At is a single fire. If t has passed when it is declared, the misfire policy decides. The zero time is an error.
func At(t time.Time, options ...ScheduleOption) Schedule {
	return Schedule{kind: execute.Simple, Start: t, Count: 1, once: true}.with(options)
}

func (s Schedule) declared() (execute.DeclaredSchedule, error) {
	s.refuse(s.once && s.Start.IsZero(), "At: the zero time is no time")
	s.refuse(s.kind == execute.Simple && !s.once && s.every < time.Millisecond, "Every(%s): want at least 1ms", s.every)
	s.refuse(s.every > 0 && s.every%time.Millisecond != 0, "Every(%s): want whole milliseconds", s.every)
	s.refuse(s.Count < 0 && s.Count != Unlimited, "Count (%d) must be at least 1, or Unlimited", s.Count)
	s.refuse(s.CatchUpLimit < 0, "CatchUpLimit (%d) must not be negative", s.CatchUpLimit)
	if err := errors.Join(s.problems...); err != nil {
		return execute.DeclaredSchedule{}, err
	}
	setDefault(&s.Misfire, FireOnce)
	setDefault(&s.CatchUpLimit, 100)
	setDefault(&s.Count, execute.Forever)
	d := execute.DeclaredSchedule{
		Name: s.Name, Misfire: s.Misfire, CatchUpLimit: s.CatchUpLimit,
		Spec: execute.Spec{Kind: s.kind, Cron: s.cron, Zone: s.zone, Repeat: s.Count, Every: s.every, Start: s.Start, End: s.End},
	}
	if s.Data == nil {
		return d, nil
	}
	var err error
	if d.Data, err = json.Marshal(s.Data); err != nil {
		return d, fmt.Errorf("data: %w", err)
	}
	return d, nil
}
