package cron

import (
	"math/bits"
	"time"
)

// A Schedule is an expression together with the time zone it is meant for. It never changes and is
// safe for concurrent use.
type Schedule struct {
	text string
	loc  *time.Location
	rule clockRule

	seconds, minutes, hours uint64 // bit n for value n
	days                    dayRule
	months                  [yearKinds]uint16 // the months that have a day, by kind of year
	years                   set               // the years that have a day
}

// clockRule is what happens when the clock of the zone jumps.
type clockRule uint8

const (
	onceRule     clockRule = iota // each wall time once
	realTimeRule                  // each instant that matches
	quartzRule
)

// String returns the expression as it was written, its fields separated by single blanks.
func (s *Schedule) String() string { return s.text }

// Next returns the first fire after the given time, in the schedule's location. It returns the zero
// time when there is none: the schedule names no day that exists, or none up to [LastYear].
// Fires fall on whole seconds.
func (s *Schedule) Next(after time.Time) time.Time {
	from := max(after.Unix(), firstInstant)
	if from > lastInstant {
		return time.Time{}
	}
	from++
	var at int64
	var ok bool
	switch s.rule {
	case onceRule:
		at, ok = s.nextOnce(from)
	case realTimeRule:
		at, ok = s.nextRealTime(from)
	default:
		at, ok = s.nextQuartz(from)
	}
	if !ok {
		return time.Time{}
	}
	return time.Unix(at, 0).In(s.loc)
}

// findDays notes the years, and for each kind of year the months, that have a day.
func (s *Schedule) findDays(months uint64, years set) {
	for kind := range yearKind(yearKinds) {
		for m := 1; m <= 12; m++ {
			if months&(1<<m) != 0 && s.days.days(kind, m) != 0 {
				s.months[kind] |= 1 << m
			}
		}
	}
	for y := FirstYear; y <= LastYear; y++ {
		if years.has(y-FirstYear) && s.months[kindOf(y)] != 0 {
			s.years.add(y - FirstYear)
		}
	}
}

// nextWall returns the first wall time not before wall that the fields match, and whether there is
// one. It knows nothing of zones.
func (s *Schedule) nextWall(wall int64) (int64, bool) {
	today := floorDiv(wall, day)
	year, month, dom := date(today)
	if year > LastYear {
		return 0, false
	}
	if year < FirstYear {
		today, year, month, dom = 0, FirstYear, 1, 1
		wall = 0
	}
	found, ok := s.nextDay(year, month, dom)
	if !ok {
		return 0, false
	}
	if found == today {
		if clock, ok := s.nextClock(int(wall - today*day)); ok {
			return today*day + int64(clock), true
		}
		if found, ok = s.nextDay(year, month, dom+1); !ok {
			return 0, false
		}
	}
	clock, _ := s.nextClock(0)
	return found*day + int64(clock), true
}

// nextDay returns the number of the first matching day not before the given one. dom may be one
// more than the month has days.
func (s *Schedule) nextDay(year, month, dom int) (int64, bool) {
	for {
		found, ok := s.years.next(year - FirstYear)
		if !ok {
			return 0, false
		}
		if found += FirstYear; found != year {
			year, month, dom = found, 1, 1
		}
		kind := kindOf(year)
		for months := notBelow(uint64(s.months[kind]), month); months != 0; months &= months - 1 {
			m := bits.TrailingZeros64(months)
			days := s.days.days(kind, m)
			if m == month {
				days = notBelow(days, dom)
			}
			if days != 0 {
				return dayNumber(year, m, bits.TrailingZeros64(days)), true
			}
		}
		if year++; year > LastYear {
			return 0, false
		}
		month, dom = 1, 1
	}
}

// nextClock returns the first matching second of the day not before the given one.
func (s *Schedule) nextClock(clock int) (int, bool) {
	h, m, sec := clock/hour, clock/60%60, clock%60
	hours, minutes, seconds := notBelow(s.hours, h), notBelow(s.minutes, m), notBelow(s.seconds, sec)
	if hours&(1<<h) == 0 {
		minutes = 0 // another hour: its first minute
	}
	if minutes&(1<<m) == 0 {
		seconds = 0
	}
	if seconds == 0 {
		seconds = s.seconds
		minutes = minutes &^ (1 << m)
	}
	if minutes == 0 {
		minutes = s.minutes
		hours = hours &^ (1 << h)
	}
	if hours == 0 {
		return 0, false
	}
	return bits.TrailingZeros64(hours)*hour + bits.TrailingZeros64(minutes)*60 + bits.TrailingZeros64(seconds), true
}

// notBelow returns the values of a set from n up.
func notBelow(set uint64, n int) uint64 { return set >> n << n }
