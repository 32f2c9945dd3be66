package cron

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// An Option changes how a schedule is read.
type Option func(*Schedule)

// QuartzDST makes a schedule answer as Quartz 2.3.2 does when clocks change: a time in a spring gap
// is skipped, and one in an autumn overlap fires in the second pass only, so that a frequent
// schedule is silent during the first.
func QuartzDST() Option {
	return func(s *Schedule) { s.rule = quartzRule }
}

// Parse reads an expression for the clock of loc; nil means UTC.
// Every error is a *[ParseError]. An expression that is well formed but names no day that exists,
// such as 30 February, is no error: its Next returns the zero time.
func Parse(expr string, loc *time.Location, opts ...Option) (*Schedule, error) {
	if loc == nil {
		loc = time.UTC
	}
	fields := splitFields(expr)
	if len(fields) < 6 || len(fields) > 7 {
		return nil, countError(expr, fields)
	}
	s := &Schedule{text: joinFields(fields), loc: loc}
	for _, read := range []func(*Schedule, []word) *ParseError{readClock, readDays, readMonths} {
		if err := read(s, fields); err != nil {
			err.Pos = utf8.RuneCountInString(expr[:err.Pos]) + 1
			return nil, err
		}
	}
	s.rule = onceRule
	if s.hours == 1<<24-1 {
		s.rule = realTimeRule
	}
	for _, opt := range opts {
		opt(s)
	}
	return s, nil
}

// word is one field of an expression and its byte offset.
type word struct {
	text string
	at   int
}

func (w word) upper() string { return upper(w.text) }

// fail returns the error of a field, with Pos still a byte offset.
func (w word) fail(field string, f *fault) *ParseError {
	return &ParseError{Field: field, Value: w.text, Pos: w.at + f.at, Reason: f.reason}
}

// read parses the field as a list.
func (w word) read(f *field) (set, *ParseError) {
	s, err := f.parse(w.upper())
	if err != nil {
		return s, w.fail(f.name, err)
	}
	return s, nil
}

func readClock(s *Schedule, fields []word) *ParseError {
	seconds, err := fields[0].read(&secondField)
	if err != nil {
		return err
	}
	minutes, err := fields[1].read(&minuteField)
	if err != nil {
		return err
	}
	hours, err := fields[2].read(&hourField)
	if err != nil {
		return err
	}
	s.seconds, s.minutes, s.hours = seconds[0], minutes[0], hours[0]
	return nil
}

// readDays reads day-of-month and day-of-week, of which exactly one is `?`.
func readDays(s *Schedule, fields []word) *ParseError {
	dom, dow := fields[3], fields[5]
	var fault *fault
	switch {
	case dom.text == "?" && dow.text == "?":
		return dow.fail(dowField.name, faultf(0, "day-of-month is ? as well; one of the two must name days (* for all)"))
	case dow.text == "?":
		if s.days, fault = parseDom(dom.upper()); fault != nil {
			return dom.fail(domField.name, fault)
		}
	case dom.text == "?":
		if s.days, fault = parseDow(dow.upper()); fault != nil {
			return dow.fail(dowField.name, fault)
		}
	default:
		return dow.fail(dowField.name, faultf(0,
			"day-of-month is %q, so day-of-week must be ? (or the other way round)%s", dom.text, try(withOneDay(fields))))
	}
	return nil
}

// readMonths reads month and year and works out in which of them the schedule has any day at all.
func readMonths(s *Schedule, fields []word) *ParseError {
	months, err := fields[4].read(&monthField)
	if err != nil {
		return err
	}
	years := word{text: "*"}
	if len(fields) == 7 {
		years = fields[6]
	}
	named, err := years.read(&yearField)
	if err != nil {
		return err
	}
	s.days.january = months.has(1)
	s.findDays(months[0], named)
	return nil
}

// splitFields cuts an expression at blanks and tabs. A line break is allowed at its end only.
func splitFields(expr string) []word {
	expr = strings.TrimRight(expr, " \t\r\n")
	var fields []word
	start := -1
	for i := range len(expr) + 1 {
		switch blank := i == len(expr) || expr[i] == ' ' || expr[i] == '\t'; {
		case blank && start >= 0:
			fields = append(fields, word{text: expr[start:i], at: start})
			start = -1
		case !blank && start < 0:
			start = i
		}
	}
	return fields
}

func joinFields(fields []word) string {
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i] = f.text
	}
	return strings.Join(texts, " ")
}

// upper is strings.ToUpper for ASCII alone: ı and ſ do not become I and S, and offsets stay.
func upper(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// countError is the answer to an expression that has not six or seven fields.
func countError(expr string, fields []word) *ParseError {
	err := &ParseError{Field: "expression", Value: strings.TrimSpace(expr), Pos: 1}
	const want = "want 6 or 7: seconds minutes hours day-of-month month day-of-week [year]"
	switch n := len(fields); {
	case n == 0:
		err.Reason = "no fields; " + want
	case n > 7:
		err.Pos = utf8.RuneCountInString(expr[:fields[7].at]) + 1
		err.Reason = fmt.Sprintf("%d fields, but nothing may follow the year; %s", n, want)
	default:
		last := fields[n-1]
		err.Pos = utf8.RuneCountInString(expr[:last.at+len(last.text)]) + 1
		err.Reason = fmt.Sprintf("too few fields (%d); %s%s", n, want, try(sixFields(fields)))
	}
	return err
}
