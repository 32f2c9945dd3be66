package main

import (
	"fmt"
	"reflect"
	"strings"
)

// Step is one thing that happens. What makes no sense at that moment, such as a heartbeat of a process that does not live, does nothing.
type Step struct {
	Do   string
	Node int    // of the processes, from 0
	ID   int64  // of a job or an execute; the number of a run on record
	By   ms     // how long; until when
	Text string // a class, a key, a mode
	On   bool
	N    int
	Job  *Job
	Exec *Exec

	// Something goes wrong at a statement of a step of a process, counted from 1.
	At   int
	How  string // freeze, lost (the answer), never (it did not arrive)
	Then []Step // what others do in the freeze
}

// Job is a job to be added.
type Job struct {
	Recovery         bool
	Overlap, History string
	QueueLimit       int
	MaxRunning       int
	Priority         int
	Timeout          ms
	Attempts         int
	Backoff          ms
	MaxBackoff       ms
	KeepRuns         int
}

// Exec is an execute to be added. Start and End count from now; 0 is none.
type Exec struct {
	Cron       string
	Every      ms
	Repeat     int64
	Start, End ms
	Misfire    string
	CatchUp    int
	State      string
	NoApp      bool // it does not name its app
}

func (s Step) String() string { return literal(reflect.ValueOf(s)) }

// literal writes a value as Go, fields that are zero left out.
func literal(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		return "&" + v.Elem().Type().Name() + literal(v.Elem())
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				fields = append(fields, v.Type().Field(i).Name+": "+literal(v.Field(i)))
			}
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case reflect.Slice:
		var all []string
		for i := range v.Len() {
			all = append(all, literal(v.Index(i)))
		}
		return "[]Step{" + strings.Join(all, ", ") + "}"
	default:
		return fmt.Sprintf("%#v", v.Interface())
	}
}

// history writes steps as a test to be kept.
func history(steps []Step) string {
	var b strings.Builder
	b.WriteString("{name: \"…\", steps: []Step{\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "\t%s,\n", s)
	}
	b.WriteString("}},\n")
	return b.String()
}
