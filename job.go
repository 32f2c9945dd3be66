package qrtz

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz/execute"
)

// Job is what to run and when, as Scheduler.Declare takes it.
type Job struct {
	Name        string // identifies the job in its app, at most 120 bytes
	Class       string // the class of its handler; defaults to Name
	Description string // for people, at most 100 characters
	Data        any    // handed to the handler, stored as JSON; nil for none
	Schedules   []Schedule
}

// Misfire is what happens to fires that nobody ran within Config.MisfireAfter.
type Misfire = execute.Misfire

// The misfire policies.
const (
	FireOnce = execute.FireOnce // run once, now; the default
	Skip     = execute.Skip     // run none; record them
	CatchUp  = execute.CatchUp  // run all, the latest Schedule.CatchUpLimit at most
)

// Schedule is when a job runs: one row of QRTZ_EXECUTE. Make one with Cron, Every or At.
type Schedule struct {
	// Name identifies the schedule among those of its job, at most 120 bytes. It may stay empty if the job has only one.
	Name string

	// Start is before the first fire; a fixed rate counts from it. Defaults to when the schedule is first declared.
	Start time.Time

	// End is after the last fire; a fire exactly then still runs. Zero for no end.
	End time.Time

	// Count is how many fires there are in all. Defaults to no limit.
	Count int

	Misfire      Misfire // defaults to FireOnce
	CatchUpLimit int     // with CatchUp; defaults to 100, at most 1000

	kind       execute.Kind
	cron, zone string
	every      time.Duration
}

// Cron is a Quartz expression, seconds first, in a time zone; an empty zone is UTC.
// "0 30 2 ? * MON-FRI" is half past two on weekdays. See docs/schedules.md.
func Cron(expression, zone string) Schedule {
	return Schedule{kind: execute.Cron, cron: expression, zone: zone}
}

// Every is a fixed rate, in whole milliseconds: the k-th fire is at Start + k × every, however long the runs take.
func Every(every time.Duration) Schedule {
	return Schedule{kind: execute.Simple, every: every}
}

// At is a single fire. If t has passed when it is declared, the misfire policy decides.
func At(t time.Time) Schedule {
	return Schedule{kind: execute.Simple, Start: t, Count: 1}
}

func (j Job) declaration() (execute.Declaration, error) {
	d := execute.Declaration{Name: j.Name, Class: j.Class, Description: j.Description}
	if d.Class == "" {
		d.Class = j.Name
	}
	if j.Data != nil {
		data, err := json.Marshal(j.Data)
		if err != nil {
			return d, fmt.Errorf("job %q: data: %w", j.Name, err)
		}
		d.Data = data
	}
	for _, s := range j.Schedules {
		d.Schedules = append(d.Schedules, s.declared())
	}
	return d, nil
}

func (s Schedule) declared() execute.DeclaredSchedule {
	setDefault(&s.Misfire, FireOnce)
	setDefault(&s.CatchUpLimit, 100)
	setDefault(&s.Count, execute.Forever)
	return execute.DeclaredSchedule{
		Name: s.Name, Misfire: s.Misfire, CatchUpLimit: s.CatchUpLimit,
		Spec: execute.Spec{Kind: s.kind, Cron: s.cron, Zone: s.zone, Repeat: s.Count, Every: s.every, Start: s.Start, End: s.End},
	}
}
