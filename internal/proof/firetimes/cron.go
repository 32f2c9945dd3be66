package firetimes

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cron is one expression, field by field.
type Cron struct {
	fields                  []string
	seconds, minutes, hours [60]bool
	days                    map[int64]bool // answers of NamesDay
}

var names3 = strings.NewReplacer(
	"JAN", "1", "FEB", "2", "MAR", "3", "APR", "4", "MAY", "5", "JUN", "6", "JUL", "7", "AUG", "8",
	"SEP", "9", "OCT", "10", "NOV", "11", "DEC", "12",
	"SUN", "1", "MON", "2", "TUE", "3", "WED", "4", "THU", "5", "FRI", "6", "SAT", "7",
)

// The fields, as far as their texts go. What Quartz reads in them that is of no use, package cron refuses; this does not care.
var (
	list      = regexp.MustCompile(`^(\*|\d+(-\d+)?)?(/\d+)?(,(\*|\d+(-\d+)?)?(/\d+)?)*$`)
	dayRule   = regexp.MustCompile(`^(\?|L|LW|L-\d+W?|\d+W)$`)
	weekRule  = regexp.MustCompile(`^(\?|L|[1-7]L|[1-7]#[1-5])$`)
	limits    = [7][2]int{{0, 59}, {0, 59}, {0, 23}, {1, 31}, {1, 12}, {1, 7}, {1970, 9999}}
	fieldText = [7]string{"seconds", "minutes", "hours", "day-of-month", "month", "day-of-week", "year"}
)

// ParseCron reads an expression. The error says that it is none.
func ParseCron(expr string) (*Cron, error) {
	fields := strings.Fields(names3.Replace(strings.ToUpper(expr)))
	if len(fields) == 6 {
		fields = append(fields, "*")
	}
	if len(fields) != 7 {
		return nil, fmt.Errorf("%q has %d fields", expr, len(fields))
	}
	for i, text := range fields {
		if i == 3 && dayRule.MatchString(text) || i == 5 && weekRule.MatchString(text) {
			continue
		}
		if !list.MatchString(text) || !within(text, limits[i][0], limits[i][1]) {
			return nil, fmt.Errorf("%q is nothing for the %s", text, fieldText[i])
		}
	}
	c := &Cron{fields: fields, days: map[int64]bool{}}
	for i := range 60 {
		c.seconds[i] = names(fields[0], i, 0, 59)
		c.minutes[i] = names(fields[1], i, 0, 59)
		c.hours[i] = i < 24 && names(fields[2], i, 0, 23)
	}
	return c, nil
}

// within tells whether a list names only values that there are, and no step of 0.
func within(text string, low, high int) bool {
	for item := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(item, "/")
		if stepped && (atoi(step) == 0) || item == "" {
			return false
		}
		for number := range strings.SplitSeq(span, "-") {
			if number != "" && number != "*" && (atoi(number) < low || atoi(number) > high) {
				return false
			}
		}
	}
	return true
}

// EveryHour tells whether the hours field allows every hour: then the schedule follows real time.
func (o *Cron) EveryHour() bool { return !slices.Contains(o.hours[:24], false) }

// Matches tells whether a wall time, given as if it were UTC, is named.
func (o *Cron) Matches(wall int64) bool {
	date := wall / 86400 * 86400
	clock := wall - date
	if !o.seconds[clock%60] || !o.minutes[clock/60%60] || !o.hours[clock/3600] {
		return false
	}
	named, known := o.days[date]
	if !known {
		named = o.NamesDay(time.Unix(date, 0).UTC())
		o.days[date] = named
	}
	return named
}

// NamesDay tells whether a day, at midnight in UTC, is named.
func (o *Cron) NamesDay(d time.Time) bool {
	if !names(o.fields[4], int(d.Month()), 1, 12) || !names(o.fields[6], d.Year(), 1970, 9999) {
		return false
	}
	if o.fields[5] == "?" {
		return namesDom(o.fields[3], d, names(o.fields[4], 1, 1, 12))
	}
	return namesDow(o.fields[5], d)
}

func namesDom(text string, d time.Time, january bool) bool {
	last := time.Date(d.Year(), d.Month()+1, 0, 0, 0, 0, 0, time.UTC)
	rest, workday := strings.CutSuffix(text, "W")
	target := d
	switch {
	case rest == "L":
		target = last
	case strings.HasPrefix(rest, "L-"):
		target = last.AddDate(0, 0, -atoi(rest[2:]))
	case workday:
		target = time.Date(d.Year(), d.Month(), atoi(rest), 0, 0, 0, 0, time.UTC)
		if target.Month() != d.Month() && rest == "29" && january {
			return false // from the fire of January, Quartz does not see February
		}
	default:
		return names(text, d.Day(), 1, 31)
	}
	if rest != text { // W: among the days of the month, Monday to Friday, the nearest, else the later
		best := time.Time{}
		for x := last.AddDate(0, 0, 1-last.Day()); !x.After(last); x = x.AddDate(0, 0, 1) {
			distance := x.Sub(target).Abs()
			if x.Weekday() != time.Saturday && x.Weekday() != time.Sunday && distance <= 48*time.Hour &&
				(best.IsZero() || distance < best.Sub(target).Abs()) {
				best = x
			}
		}
		if strings.HasPrefix(rest, "L") && target.Month() != d.Month() {
			return false
		}
		if target.Month() != d.Month() && (target.Weekday() != time.Saturday || target.Day() != 1) {
			return false
		}
		target = best
	}
	return target.Equal(d)
}

func namesDow(text string, d time.Time) bool {
	dow := int(d.Weekday()) + 1
	if day, nth, ok := strings.Cut(text, "#"); ok {
		return dow == atoi(day) && (d.Day()-1)/7 == atoi(nth)-1
	}
	if text == "L" {
		return dow == 7
	}
	if day, ok := strings.CutSuffix(text, "L"); ok {
		return dow == atoi(day) && d.AddDate(0, 0, 7).Month() != d.Month()
	}
	return names(text, dow, 1, 7)
}

// names tells whether a list names a value, by counting through each of its ranges.
func names(list string, value, low, high int) bool {
	if list == "*" {
		return true
	}
	for item := range strings.SplitSeq(list, ",") {
		span, stepText, stepped := strings.Cut(item, "/")
		from, to, isRange := strings.Cut(span, "-")
		first, last, step := low, high, 1
		if stepped {
			step = atoi(stepText)
		}
		if span != "*" && span != "" {
			first = atoi(from)
			if isRange {
				last = atoi(to)
			} else if !stepped {
				last = first
			}
		}
		for v, n := first, 0; ; v, n = v+1, n+1 {
			if v > high {
				v = low
			}
			if n%step == 0 && v == value {
				return true
			}
			if v == last {
				break
			}
		}
	}
	return false
}

func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// ClockWalk is what the clock of a zone showed second by second, as Unix times of the same digits in UTC.
type ClockWalk struct {
	start int64
	Walls []int64
}

// Walk looks at the clock of a zone from one time to before another.
func Walk(loc *time.Location, from, to time.Time) ClockWalk {
	w := ClockWalk{start: from.Unix()}
	for t := from.Unix(); t < to.Unix(); t++ {
		_, offset := time.Unix(t, 0).In(loc).Zone()
		w.Walls = append(w.Walls, t+int64(offset))
	}
	return w
}

// RealTime returns the instants whose wall time is named.
func (w ClockWalk) RealTime(o *Cron) []int64 {
	var fires []int64
	for i, wall := range w.Walls {
		if o.Matches(wall) {
			fires = append(fires, w.start+int64(i))
		}
	}
	return fires
}

// Once returns, for each named wall time, the instant that shows it first, or the first one after
// the gap that swallowed it.
func (w ClockWalk) Once(o *Cron) []int64 {
	var fires []int64
	first := slices.Min(w.Walls)
	seen := make([]bool, slices.Max(w.Walls)-first+1)
	for i, wall := range w.Walls {
		skipped := wall
		if i > 0 && wall > w.Walls[i-1] {
			skipped = w.Walls[i-1] + 1
		}
		for ; skipped <= wall; skipped++ {
			if o.Matches(skipped) && !seen[skipped-first] {
				seen[skipped-first] = true
				fires = append(fires, w.start+int64(i))
			}
		}
	}
	return slices.Compact(fires)
}
