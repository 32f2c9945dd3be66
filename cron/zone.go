package cron

import (
	_ "embed"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones load on systems that have none
)

// zoneNames lists the IANA names, one a line, sorted. It serves suggestions only: a zone that is
// newer than this list loads all the same.
//
//go:embed zonenames.txt
var zoneNames string

// LoadLocation returns the time zone of the given name, from the system or, where it has none, from
// the data built into the binary. It accepts
//
//   - IANA names such as Asia/Shanghai, in exactly that case;
//   - the empty string, which is UTC;
//   - the fixed offsets of Java, which version 1.3 stored: Z, +08:00, GMT+8, UTC-5, UT+05:30, up to
//     18 hours. Like in Java, and unlike in Etc/GMT-8, plus is east of Greenwich.
//
// It refuses "Local", which means something else on each machine. The error for an unknown name
// suggests the ones that come near. Loading may read a file: keep the result.
func LoadLocation(name string) (*time.Location, error) {
	switch name {
	case "", "Z", "UT":
		return time.UTC, nil
	case "Local", "localtime", "posixrules":
		return nil, fmt.Errorf("time zone %q differs from machine to machine: name one, such as UTC or Asia/Shanghai", name)
	}
	if offset, ok := fixedOffset(name); ok {
		return time.FixedZone(name, offset), nil
	}
	if other, ok := inOtherCase(name); ok { // some file systems would find it, others not
		return nil, fmt.Errorf("unknown time zone %q: did you mean %s?", name, other)
	}
	if loc, err := time.LoadLocation(name); err == nil {
		return loc, nil
	}
	if near := nearestZones(name); len(near) > 0 {
		return nil, fmt.Errorf("unknown time zone %q: did you mean %s?", name, strings.Join(near, " or "))
	}
	return nil, fmt.Errorf("unknown time zone %q: use an IANA name such as Asia/Shanghai, or an offset such as GMT+8", name)
}

// fixedOffset reads [GMT|UTC|UT](+|-)h[h][:mm[:ss]] or …hhmm, in seconds east of Greenwich.
func fixedOffset(name string) (int, bool) {
	text := name
	for _, prefix := range []string{"GMT", "UTC", "UT"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			text = rest
			break
		}
	}
	if text == "" || (text[0] != '+' && text[0] != '-') {
		return 0, false
	}
	digits := text[1:]
	if len(digits) == 4 && !strings.Contains(digits, ":") {
		digits = digits[:2] + ":" + digits[2:]
	}
	offset := 0
	parts := strings.Split(digits, ":")
	for i, part := range parts {
		n, ok := number(part)
		if !ok || i > 2 || len(part) > 2 || (i > 0 && (len(part) != 2 || n > 59)) {
			return 0, false
		}
		offset += n * []int{hour, 60, 1}[i]
	}
	if offset > 18*hour {
		return 0, false
	}
	if text[0] == '-' {
		return -offset, true
	}
	return offset, true
}

// inOtherCase returns the known name that differs from the given one in case only.
func inOtherCase(name string) (string, bool) {
	for known := range strings.SplitSeq(zoneNames, "\n") {
		if len(known) == len(name) && strings.EqualFold(known, name) {
			return known, known != name
		}
	}
	return "", false
}

// nearestZones returns up to three known names that could be meant: those whose last part is what
// was written (Shanghai), else the ones fewest typing mistakes away.
func nearestZones(name string) []string {
	wanted := strings.ReplaceAll(strings.ToLower(name), " ", "_")
	if len(wanted) > 64 {
		return nil
	}
	var byCity, byMistakes []string
	fewest := min(3, len(wanted)/3)
	for known := range strings.FieldsSeq(zoneNames) {
		lower := strings.ToLower(known)
		if strings.HasSuffix(lower, "/"+wanted) {
			byCity = append(byCity, known)
		}
		switch n := mistakes(lower, wanted); {
		case n < fewest:
			fewest, byMistakes = n, []string{known}
		case n == fewest:
			byMistakes = append(byMistakes, known)
		}
	}
	if byCity != nil {
		return byCity[:min(3, len(byCity))]
	}
	return byMistakes[:min(3, len(byMistakes))]
}

// mistakes returns how many letters must be put in, taken out or replaced to turn a into b.
func mistakes(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
