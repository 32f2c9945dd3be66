package cron

import "strings"

// dayRule says which days of a month are named by the two day fields, of which one is `?`.
type dayRule struct {
	kind dayKind
	set  uint64 // inSet: bits 1 to 31; onWeekdays: bits 0 (Sunday) to 6, repeated over six weeks
	n    int    // day of the month, days before its last, or weekday (Sunday is 0)
	nth  int    // nthWeekday: 1 to 5

	january bool // the schedule names January, whatever else
}

type dayKind uint8

const (
	inSet           dayKind = iota // 1,15,20-25
	fromLast                       // L, L-n
	workdayFromLast                // LW, L-nW
	nearestWorkday                 // nW
	onWeekdays                     // MON-FRI
	lastWeekday                    // FRIL
	nthWeekday                     // FRI#3
)

const (
	everyDay      = 0xFFFFFFFE // bits 1 to 31
	everyWeekday  = 0x7F
	repeatedWeeks = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28 | 1<<35
)

// days returns the days named in a month, bit n for day n.
func (r *dayRule) days(kind yearKind, month int) uint64 {
	first, length := kind.month(month)
	inMonth := uint64(1)<<(length+1) - 2
	switch r.kind {
	case inSet:
		return r.set & inMonth
	case fromLast:
		return 1 << max(length-r.n, 0) & inMonth
	case workdayFromLast:
		return workday(length-r.n, first, length) & inMonth
	case nearestWorkday:
		if r.n == 29 && length == 28 && r.january {
			return 0 // see workday
		}
		return workday(r.n, first, length) & inMonth
	case onWeekdays:
		return r.set >> first << 1 & inMonth
	case lastWeekday:
		lastDow := (first + length - 1) % 7
		return 1 << (length - (lastDow-r.n+7)%7)
	default: // nthWeekday
		return 1 << (1 + (r.n-first+7)%7 + 7*(r.nth-1)) & inMonth
	}
}

// workday returns the bit of the day from Monday to Friday that is nearest to dom without leaving
// the month. A month that is one day too short for it counts the missing day in, as Quartz does: 31W fires
// on Friday the 30th of April when May begins on a Saturday, 29W on Friday the 28th of February when March does.
//
// Of 29W this holds only where January is not named as well: Quartz looks on from the fire of 29 January at 29 February,
// which is 1 March, and so never sees February.
func workday(dom, first, length int) uint64 {
	if dom < 1 || dom > length+1 {
		return 0
	}
	switch dow := (first + dom - 1) % 7; {
	case dow == 6 && dom == 1:
		dom += 2
	case dow == 6:
		dom--
	case dow == 0 && dom == length:
		dom -= 2
	case dow == 0:
		dom++
	}
	return 1 << dom
}

// parseDom reads the day-of-month field, in upper case.
func parseDom(text string) (dayRule, *fault) {
	if strings.Contains(text, ",") {
		if i := strings.IndexAny(text, "LW"); i >= 0 {
			return dayRule{}, faultf(i, "L and W must stand alone, not in a list")
		}
	}
	switch rest, last := strings.CutPrefix(text, "L"); {
	case last:
		return parseLast(rest)
	case strings.HasSuffix(text, "W"):
		n, ok := number(text[:len(text)-1])
		if !ok || n < 1 || n > 31 {
			return dayRule{}, faultf(0, "%q is no day; before W use 1 to 31 or L", text[:len(text)-1])
		}
		return dayRule{kind: nearestWorkday, n: n}, nil
	}
	s, err := domField.parse(text)
	return dayRule{kind: inSet, set: s[0]}, err
}

// parseLast reads what follows the L of day-of-month: nothing, -n, W or -nW.
func parseLast(rest string) (dayRule, *fault) {
	r := dayRule{kind: fromLast}
	rest, weekday := strings.CutSuffix(rest, "W")
	if weekday {
		r.kind = workdayFromLast
	}
	if rest == "" {
		return r, nil
	}
	digits, dashed := strings.CutPrefix(rest, "-")
	n, ok := number(digits)
	if !dashed || !ok || n > 30 {
		return r, faultf(1, "%q cannot follow L; use L, L-n, LW or L-nW with n from 0 to 30", rest)
	}
	r.n = n
	return r, nil
}

// parseDow reads the day-of-week field, in upper case.
func parseDow(text string) (dayRule, *fault) {
	if text == "L" { // Quartz: Saturday, every week
		text = "SAT"
	}
	if day, nth, ok := strings.Cut(text, "#"); ok {
		return parseNth(day, nth)
	}
	if day, ok := strings.CutSuffix(text, "L"); ok {
		if strings.ContainsAny(day, ",-/*") {
			return dayRule{}, faultf(len(day), "L must follow one day, as in 6L or FRIL")
		}
		v, _, err := dowField.value(day)
		return dayRule{kind: lastWeekday, n: v - 1}, err
	}
	s, err := dowField.parse(text)
	return dayRule{kind: onWeekdays, set: s[0] >> 1 * repeatedWeeks}, err
}

// parseNth reads day#nth.
func parseNth(day, nth string) (dayRule, *fault) {
	if strings.ContainsAny(day, ",-/*") || strings.Contains(nth, ",") {
		return dayRule{}, faultf(0, "# must stand alone with one day, as in 6#3 or FRI#3")
	}
	v, _, err := dowField.value(day)
	if err != nil {
		return dayRule{}, err
	}
	n, ok := number(nth)
	if !ok || n < 1 || n > 5 {
		return dayRule{}, faultf(len(day)+1, "%q cannot follow #; use 1 to 5", nth)
	}
	return dayRule{kind: nthWeekday, n: v - 1, nth: n}, nil
}
