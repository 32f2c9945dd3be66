package cron

import "fmt"

// ParseError says which part of an expression cannot be used, and what would be allowed there.
type ParseError struct {
	// Field is the name of the field: "seconds", "minutes", "hours", "day-of-month", "month",
	// "day-of-week", "year", or "expression" when the number of fields is wrong.
	Field string
	// Value is the text of that field as it was written.
	Value string
	// Pos is the column, counted in characters from 1, at which the trouble starts in the
	// whole expression.
	Pos int
	// Reason tells what was found and what is allowed.
	Reason string
}

// Error returns field, value and reason: `hours: "25": 25 is out of range; use 0 to 23`.
func (e *ParseError) Error() string {
	return fmt.Sprintf("%s: %q: %s", e.Field, e.Value, e.Reason)
}

// fault is a ParseError in the making: where in the field's text, and why.
type fault struct {
	at     int // byte offset in the text of the field
	reason string
}

func faultf(at int, format string, args ...any) *fault {
	return &fault{at: at, reason: fmt.Sprintf(format, args...)}
}
