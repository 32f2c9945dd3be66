package cron

import (
	"math"
	"time"
)

// reach is more than any two clocks on earth differ, in seconds: what happens to a zone's clock
// further away than this cannot move a wall time across it.
const reach = 2 * day

// The instants between which anything can fire, whatever the zone.
var (
	firstInstant = dayNumber(FirstYear, 1, 1)*day - reach
	lastInstant  = dayNumber(LastYear+1, 1, 1)*day + reach
)

// span is a stretch of time during which the clock does not jump: from the instant it was asked for
// until end (exclusive), the wall time is the instant plus offset.
type span struct {
	end    int64
	offset int64
}

func (s *Schedule) spanAt(t int64) span {
	at := time.Unix(t, 0).In(s.loc)
	_, offset := at.Zone()
	_, bound := at.ZoneBounds()
	if bound.IsZero() {
		return span{math.MaxInt64, int64(offset)}
	}
	end := bound.Unix()
	if end <= t { // on 31 December of a leap year Go takes the year to be over
		end += day
	}
	return span{max(end, t+1), int64(offset)}
}

// nextRealTime returns the first instant from t on whose wall time matches.
func (s *Schedule) nextRealTime(t int64) (int64, bool) {
	for t <= lastInstant {
		here := s.spanAt(t)
		at := int64(math.MaxInt64)
		if wall, ok := s.nextWall(t + here.offset); ok {
			at = wall - here.offset
		}
		if at < here.end {
			return at, true
		}
		if here.end-t > reach { // no wall time before that match comes back: skip to it
			here.end = max(here.end, at-reach)
		}
		t = here.end
	}
	return 0, false
}

// nextOnce returns the first instant from t on at which the clock reaches, or jumps past, a matching
// wall time that it had not reached before t.
func (s *Schedule) nextOnce(t int64) (int64, bool) {
	reached := int64(math.MinInt64) // the latest wall time shown before t
	here := s.spanAt(t - reach)
	for here.end < t {
		reached = max(reached, here.end-1+here.offset)
		here = s.spanAt(here.end)
	}
	reached = max(reached, t-1+here.offset)

	wall, ok := s.nextWall(reached + 1)
	if !ok {
		return 0, false
	}
	for {
		at := max(wall-here.offset, t)
		if at < here.end {
			return at, true
		}
		t = max(here.end, at-reach)
		here = s.spanAt(t)
	}
}

// nextQuartz returns what Quartz computes: the first matching wall time not before that of t; where
// it exists twice, its second pass; where it does not exist, Java's calendar moves it on by the
// length of the gap, and the search starts again from there.
func (s *Schedule) nextQuartz(t int64) (int64, bool) {
	wall := t + s.spanAt(t).offset
	for {
		var ok bool
		if wall, ok = s.nextWall(wall); !ok {
			return 0, false
		}
		at, gap := s.lastInstantOf(wall)
		if gap == 0 && at >= t {
			return at, true
		}
		wall += max(gap, 1)
	}
}

// lastInstantOf returns the last instant that shows a wall time, or the length of the gap it is in.
func (s *Schedule) lastInstantOf(wall int64) (at, gap int64) {
	start := int64(math.MinInt64)
	here := s.spanAt(wall - reach)
	found := false
	for {
		if t := wall - here.offset; start <= t && t < here.end {
			at, found = t, true
		}
		if here.end > wall+reach {
			break
		}
		next := s.spanAt(here.end)
		if wall-here.offset >= here.end && wall-next.offset < here.end {
			gap = next.offset - here.offset
		}
		start, here = here.end, next
	}
	if found {
		return at, 0
	}
	return 0, gap
}
