package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Describe explains the schedule in English: "at 02:00:00 on Monday to Friday".
func (s *Schedule) Describe() string {
	fields := splitFields(s.text)
	months, _ := monthField.parse(fields[4].upper())
	text := s.describeClock() + s.days.describe()
	if months[0] != 1<<13-2 {
		text += " in " + listOf(months[0]>>1, 12, true, func(i int) string { return time.Month(i + 1).String() })
	}
	if len(fields) == 7 && fields[6].text != "*" {
		years, _ := yearField.parse(fields[6].upper())
		text += " in " + listYears(years, fields[6].text)
	}
	if _, ok := s.years.next(0); !ok {
		text += " (never fires)"
	}
	return strings.TrimSuffix(text, " every day")
}

// describeClock spells out up to four times of the day; more than that it describes unit by unit,
// as in "every 10 minutes of hours 1 to 3".
func (s *Schedule) describeClock() string {
	if bits.OnesCount64(s.hours)*bits.OnesCount64(s.minutes)*bits.OnesCount64(s.seconds) <= 4 {
		var times []string
		for clock, ok := s.nextClock(0); ok; clock, ok = s.nextClock(clock + 1) {
			times = append(times, fmt.Sprintf("%02d:%02d:%02d", clock/hour, clock/60%60, clock%60))
		}
		return "at " + enumerate(times)
	}
	const zero = 1
	var parts []string
	if s.seconds != zero {
		parts = append(parts, describeUnit(s.seconds, 60, "second"))
	}
	hours := describeUnit(s.hours, 24, "hour")
	switch {
	case s.minutes == zero && len(parts) == 0 && isEvery(hours): // every hour, at minute 0
	case s.minutes == 1<<60-1 && len(parts) > 0 && isEvery(parts[0]): // every second of every minute
	default:
		parts = append(parts, describeUnit(s.minutes, 60, "minute"))
	}
	if s.hours != 1<<24-1 || len(parts) == 0 || !isEvery(parts[len(parts)-1]) {
		parts = append(parts, hours)
	}
	text := strings.Join(parts, " of ")
	if isEvery(text) {
		return text
	}
	return "at " + text
}

func isEvery(text string) bool { return strings.HasPrefix(text, "every ") }

// describeUnit says "every minute", "every 5 minutes", "minute 7" or "minutes 7 and 10 to 20".
func describeUnit(set uint64, size int, unit string) string {
	for step := 1; step < size; step++ {
		if size%step != 0 {
			continue
		}
		var every uint64
		for v := 0; v < size; v += step {
			every |= 1 << v
		}
		switch {
		case set != every:
		case step == 1:
			return "every " + unit
		default:
			return fmt.Sprintf("every %d %ss", step, unit)
		}
	}
	return plural(unit, set) + " " + listOf(set, size, false, strconv.Itoa)
}

func plural(unit string, set uint64) string {
	if bits.OnesCount64(set) == 1 {
		return unit
	}
	return unit + "s"
}

func (r *dayRule) describe() string {
	weekday := time.Weekday(r.n).String()
	switch r.kind {
	case inSet:
		if r.set == everyDay {
			return " every day"
		}
		return " on " + plural("day", r.set) + " " + listOf(r.set, 32, false, strconv.Itoa) + " of the month"
	case fromLast:
		return " on the " + daysBeforeLast(r.n) + "last day of the month"
	case workdayFromLast:
		if r.n == 0 {
			return " on the last workday (Monday to Friday) of the month"
		}
		return " on the workday (Monday to Friday) nearest to the " + daysBeforeLast(r.n) + "last day of the month"
	case nearestWorkday:
		return " on the workday (Monday to Friday) nearest to the " + ordinal(r.n) + " of the month"
	case onWeekdays:
		if r.set&everyWeekday == everyWeekday {
			return " every day"
		}
		return " on " + listOf(r.set&everyWeekday, 7, true, func(i int) string { return time.Weekday(i).String() })
	case lastWeekday:
		return " on the last " + weekday + " of the month"
	default: // nthWeekday
		return " on the " + ordinal(r.nth) + " " + weekday + " of the month"
	}
}

func daysBeforeLast(n int) string {
	if n == 0 {
		return ""
	}
	return ordinal(n) + " day before the "
}

func ordinal(n int) string {
	suffix := "th"
	if n/10 != 1 && n%10 >= 1 && n%10 <= 3 {
		suffix = []string{"st", "nd", "rd"}[n%10-1]
	}
	return strconv.Itoa(n) + suffix
}

// listOf names the members of a set of size values, three or more in a row as "a to c". In a
// circular set a row continues from the last value to the first.
func listOf(set uint64, size int, circular bool, name func(int) string) string {
	has := func(i int) bool { return set&(1<<(i%size)) != 0 && (circular || i < size) }
	start := 0
	for circular && start < size && has(start) && has(start+size-1) {
		start++ // in the middle of a row: begin after it
	}
	var items []string
	for i := start; i < start+size; i++ {
		if !has(i) {
			continue
		}
		end := i
		for end+1 < start+size && has(end+1) {
			end++
		}
		switch {
		case end-i >= 2:
			items = append(items, name(i%size)+" to "+name(end%size))
			i = end
		default:
			items = append(items, name(i%size))
		}
	}
	return enumerate(items)
}

// listYears names years, or repeats the field's text if nothing can fire in any of them.
func listYears(years set, text string) string {
	var items []string
	for y, ok := years.next(0); ok; y, ok = years.next(y + 1) {
		end := y
		for end+1 <= LastYear-FirstYear && years.has(end+1) {
			end++
		}
		item := strconv.Itoa(y + FirstYear)
		if end-y >= 2 {
			item += " to " + strconv.Itoa(end+FirstYear)
			y = end
		}
		items = append(items, item)
	}
	if items == nil {
		return text
	}
	return enumerate(items)
}

// enumerate joins with commas and, before the last, "and".
func enumerate(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:len(items)-1], ", ") + " and " + items[len(items)-1]
}
