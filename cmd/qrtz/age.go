package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// age is a duration as people keep things: 30d, 2w, 1d12h, and all that time.ParseDuration takes. It is a pflag.Value.
type age time.Duration

const day = 24 * time.Hour

var dayParts = regexp.MustCompile(`^(?:(\d{1,5})w)?(?:(\d{1,6})d)?(.*)$`)

// Set reads the text of a flag.
func (a *age) Set(text string) error {
	parts := dayParts.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil || text == "" {
		return fmt.Errorf("want for example 30d, 2w or 12h")
	}
	var sum time.Duration
	for i, unit := range []time.Duration{7 * day, day} {
		n, _ := strconv.Atoi(parts[i+1]) // digits, or nothing
		sum += time.Duration(n) * unit
	}
	if rest := parts[3]; rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return fmt.Errorf("want for example 30d, 2w or 12h")
		}
		sum += d
	}
	if sum < 0 || sum > 100*365*day {
		return fmt.Errorf("want at most a hundred years")
	}
	*a = age(sum)
	return nil
}

// String is the text that Set reads.
func (a *age) String() string {
	d := time.Duration(*a)
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// Type names the flag's argument.
func (a *age) Type() string { return "duration" }
