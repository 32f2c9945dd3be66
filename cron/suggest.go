package cron

import "strings"

// What someone who writes the five fields of Unix cron, or one of its shorthands, probably means.

var shorthands = map[string]string{
	"@YEARLY":   "0 0 0 1 1 ?",
	"@ANNUALLY": "0 0 0 1 1 ?",
	"@MONTHLY":  "0 0 0 1 * ?",
	"@WEEKLY":   "0 0 0 ? * SUN",
	"@DAILY":    "0 0 0 * * ?",
	"@MIDNIGHT": "0 0 0 * * ?",
	"@HOURLY":   "0 0 * * * ?",
}

// try returns `; try "…"`, or nothing if what it would suggest is no better.
func try(expr string) string {
	if _, err := Parse(expr, nil); err != nil {
		return ""
	}
	return `; try "` + expr + `"`
}

// sixFields translates an expression with too few fields, or returns nothing.
func sixFields(fields []word) string {
	switch len(fields) {
	case 1:
		return shorthands[fields[0].upper()]
	case 5:
		if weekdays, ok := unixWeekdays(fields[4].text); ok {
			return withOneDay([]word{{text: "0"}, fields[0], fields[1], fields[2], fields[3], {text: weekdays}})
		}
	}
	return ""
}

// withOneDay puts `?` into one of the two day fields: into the one that is `*`, else into day-of-month.
func withOneDay(fields []word) string {
	fields = append([]word(nil), fields...)
	switch {
	case fields[3].text == "?" || fields[5].text == "?":
	case fields[5].text == "*":
		fields[5].text = "?"
	default:
		fields[3].text = "?"
	}
	return joinFields(fields)
}

// unixWeekdays writes the days of a Unix cron field, where 0 and 7 are Sunday, as names. It gives up
// on a step between two days, for which there is no simple way to say it in names.
func unixWeekdays(text string) (string, bool) {
	if strings.HasPrefix(text, "*/") {
		return text, true // the same days: both count from Sunday
	}
	if strings.ContainsAny(text, "/#") {
		return "", false
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= '0' && c <= '7' {
			b.WriteString(dowField.names[(c-'0')%7])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String(), true
}
