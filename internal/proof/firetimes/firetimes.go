// Package firetimes says when a schedule fires, the slow way: it walks real time second by second, asks package time what the
// clock shows, and compares that with the text of the expression; a fixed rate it counts. It shares no code with the engine
// or with package cron, so that what checks them by it does not repeat their mistakes.
package firetimes

import (
	"fmt"
	"iter"
	"regexp"
	"strings"
	"time"
)

// Schedule is a schedule as its row has it.
type Schedule struct {
	Cron       string        // an expression; empty for a fixed rate
	Zone       string        // of the expression: an IANA name, or an offset as Java writes it; empty is UTC
	Every      time.Duration // the fixed rate; 0 fires only at the start
	Start, End time.Time     // no fire before the one or after the other; no end if End is zero
}

// Fires are the fires from one time to another, both included, however many the schedule allows. The error says that no engine
// can read the schedule.
func (s Schedule) Fires(from, until time.Time) (iter.Seq[time.Time], error) {
	if !s.End.IsZero() && s.End.Before(until) {
		until = s.End
	}
	if from.Before(s.Start) {
		from = s.Start
	}
	if s.Cron != "" {
		return s.cronFires(from, until)
	}
	if s.Every < 0 || s.Every%time.Millisecond != 0 {
		return nil, fmt.Errorf("a rate of %s", s.Every)
	}
	return s.rateFires(from, until), nil
}

// rateFires counts from the start, in milliseconds: a time.Duration ends after 292 years.
func (s Schedule) rateFires(from, until time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		start, every := s.Start.UnixMilli(), s.Every.Milliseconds()
		if every == 0 {
			if !s.Start.Before(from) && !s.Start.After(until) {
				yield(s.Start)
			}
			return
		}
		for k := (from.UnixMilli() - start) / every; ; k++ {
			fire := time.UnixMilli(start + k*every)
			if fire.After(until) || !fire.Before(from) && !yield(fire) {
				return
			}
		}
	}
}

const (
	piece = 24 * time.Hour // that is walked at a time
	seam  = 4 * time.Hour  // before it: what the clock showed then does not fire again
)

func (s Schedule) cronFires(from, until time.Time) (iter.Seq[time.Time], error) {
	expr, err := ParseCron(s.Cron)
	if err != nil {
		return nil, err
	}
	loc, err := location(s.Zone)
	if err != nil {
		return nil, err
	}
	return func(yield func(time.Time) bool) {
		for begin := from; !begin.After(until); begin = begin.Add(piece) {
			end := begin.Add(piece)
			if end.After(until) {
				end = until.Add(time.Second)
			}
			walked := Walk(loc, begin.Add(-seam), end)
			fires := walked.Once(expr)
			if expr.EveryHour() {
				fires = walked.RealTime(expr)
			}
			for _, unix := range fires {
				fire := time.Unix(unix, 0)
				if fire.Before(begin) || !fire.Before(begin.Add(piece)) || fire.After(until) {
					continue // of another piece
				}
				if !yield(fire) {
					return
				}
			}
		}
	}, nil
}

var offset = regexp.MustCompile(`^(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d\d))?$`)

// location is a zone by its name.
func location(name string) (*time.Location, error) {
	if name == "Z" {
		name = ""
	}
	if m := offset.FindStringSubmatch(name); m != nil {
		seconds := atoi(m[2]) * 3600
		if m[3] != "" {
			seconds += atoi(m[3]) * 60
		}
		if m[1] == "-" {
			seconds = -seconds
		}
		return time.FixedZone(name, seconds), nil
	}
	if strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("zone %q is another one on each machine", name)
	}
	return time.LoadLocation(name)
}
