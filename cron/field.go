package cron

import (
	"math/bits"
	"strconv"
	"strings"
)

// The years in which a schedule can fire. Quartz gives up a hundred years after the current year;
// a fixed last year keeps the answers the same whenever they are asked for. The year field may name
// later years, up to 9999: as in Quartz, nothing fires in them.
const (
	FirstYear = 1970
	LastYear  = 2126
)

// set holds the values of one field, bit n for value n. Years are stored as their distance from
// FirstYear; all other fields fit in the first word.
type set [(LastYear-FirstYear)/64 + 1]uint64

func (s *set) add(v int)      { s[v/64] |= 1 << (v % 64) }
func (s *set) has(v int) bool { return s[v/64]&(1<<(v%64)) != 0 }

// next returns the smallest value not below v, and whether there is one.
func (s *set) next(v int) (int, bool) {
	for i := v / 64; i < len(s); i++ {
		word := s[i]
		if i == v/64 {
			word = word >> (v % 64) << (v % 64)
		}
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word), true
		}
	}
	return 0, false
}

// field describes what may be written in one place of an expression.
type field struct {
	name     string
	min, max int
	maxStep  int
	base     int      // value of bit 0 in the set
	years    bool     // a range must not wrap around, and values after LastYear are left out
	names    []string // names[i] means min+i
	allowed  string   // for messages
}

var (
	secondField = field{name: "seconds", max: 59, maxStep: 59, allowed: "0 to 59"}
	minuteField = field{name: "minutes", max: 59, maxStep: 59, allowed: "0 to 59"}
	hourField   = field{name: "hours", max: 23, maxStep: 23, allowed: "0 to 23"}
	domField    = field{name: "day-of-month", min: 1, max: 31, maxStep: 31, allowed: "1 to 31, ?, L, L-n, LW, L-nW or nW"}
	monthField  = field{
		name: "month", min: 1, max: 12, maxStep: 12, allowed: "1 to 12 or JAN to DEC",
		names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
	}
	dowField = field{
		name: "day-of-week", min: 1, max: 7, maxStep: 7, allowed: "1 (Sunday) to 7, SUN to SAT, ?, L, nL or n#k",
		names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"},
	}
	yearField = field{
		name: "year", min: FirstYear, max: 9999, maxStep: 9999 - FirstYear, base: FirstYear, years: true,
		allowed: "1970 to 9999",
	}
)

// parse reads a comma-separated list. The text must be in upper case.
func (f *field) parse(text string) (set, *fault) {
	var s set
	at := 0
	for item := range strings.SplitSeq(text, ",") {
		if err := f.parseItem(&s, item); err != nil {
			err.at += at
			return s, err
		}
		at += len(item) + 1
	}
	return s, nil
}

// parseItem reads one of `*`, `n`, `n-m`, each with or without `/step`, and adds its values to s.
// Quartz reads `/5` as `*/5`.
func (f *field) parseItem(s *set, item string) *fault {
	body, stepText, stepped := strings.Cut(item, "/")
	step := 1
	if stepped {
		n, ok := number(stepText)
		if !ok || n < 1 || n > f.maxStep {
			return faultf(len(body)+1, "%q is no step; after / use 1 to %d", stepText, f.maxStep)
		}
		step = n
	}
	if body == "*" || (body == "" && stepped) {
		return f.fill(s, f.min, f.max, step)
	}

	low, high, isRange := strings.Cut(body, "-")
	from, named, err := f.value(low)
	if err != nil {
		return err
	}
	if named && stepped {
		return faultf(len(body), "a step cannot follow names (Quartz ignores it); use numbers: %s", f.inNumbers(item))
	}
	if !isRange {
		to := from
		if stepped {
			to = f.max
		}
		return f.fill(s, from, to, step)
	}

	to, toNamed, err := f.value(high)
	if err != nil {
		err.at += len(low) + 1
		return err
	}
	if named != toNamed {
		return faultf(0, "%q mixes a name and a number; use two names or two numbers", body)
	}
	return f.fill(s, from, to, step)
}

// fill adds every step-th value of a range. A range whose end lies before its start wraps around,
// and its steps are counted on across the turn; in years there is no turn.
func (f *field) fill(s *set, from, to, step int) *fault {
	size := f.max - f.min + 1
	switch {
	case f.years && to < from:
		return faultf(0, "%d-%d ends before it starts", from, to)
	case f.years:
		to = min(to, LastYear)
	case to < from:
		to += size
	}
	for v := from; v <= to; v += step {
		s.add((v-f.min)%size + f.min - f.base)
	}
	return nil
}

// value reads a number or a name and tells which it was.
func (f *field) value(text string) (v int, named bool, err *fault) {
	if n, ok := number(text); ok {
		if n < f.min || n > f.max {
			return 0, false, faultf(0, "%s is out of range; use %s", text, f.allowed)
		}
		return n, false, nil
	}
	if text == "" {
		return 0, false, faultf(0, "a value is missing; use %s", f.allowed)
	}
	for i, name := range f.names {
		if text == name {
			return f.min + i, true, nil
		}
		if strings.HasPrefix(text, name) {
			return 0, false, faultf(0, "%q is unknown; the name is %s, of three letters", text, name)
		}
	}
	return 0, false, faultf(0, "%q is not allowed here; use %s", text, f.allowed)
}

// inNumbers rewrites names as numbers, for a message.
func (f *field) inNumbers(text string) string {
	for i, name := range f.names {
		text = strings.ReplaceAll(text, name, strconv.Itoa(f.min+i))
	}
	return text
}

// number reads a short decimal number without sign.
func number(text string) (int, bool) {
	if text == "" || len(text) > 6 {
		return 0, false
	}
	n := 0
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = n*10 + int(text[i]-'0')
	}
	return n, true
}
