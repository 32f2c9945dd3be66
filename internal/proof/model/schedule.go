package main

import "time"

// Times are milliseconds since 1970; 0 is none.
type ms = int64

const never ms = 0

// spec says when an execute fires.
type spec struct {
	cron       string // empty: every so often from start on
	every      ms
	repeat     int64 // how many fires in all; below 0 for any number
	start, end ms    // 0: none
}

// crons are the expressions that the histories use, each with what it means: whether a second of UTC is one of its fires.
var crons = map[string]func(time.Time) bool{
	"0/7 * * * * ?":  func(t time.Time) bool { return t.Second()%7 == 0 },
	"0/20 * * * * ?": func(t time.Time) bool { return t.Second()%20 == 0 },
	"15 * * * * ?":   func(t time.Time) bool { return t.Second() == 15 },
	"0 0/5 * * * ?":  func(t time.Time) bool { return t.Second() == 0 && t.Minute()%5 == 0 },
	"30 10,40 0-1 * * ?": func(t time.Time) bool {
		return t.Second() == 30 && (t.Minute() == 10 || t.Minute() == 40) && t.Hour() < 2
	},
	"0 0 * ? * TUE": func(t time.Time) bool { return t.Second() == 0 && t.Minute() == 0 && t.Weekday() == time.Tuesday },
	"10,11 0 0 1 1 ? 2030": func(t time.Time) bool {
		return t.Year() == 2030 && t.YearDay() == 1 && t.Hour() == 0 && t.Minute() == 0 && (t.Second() == 10 || t.Second() == 11)
	},
}

// broken is an expression that means nothing.
const broken = "0 0 25 * * ?"

func (s spec) broken() bool { return s.cron != "" && crons[s.cron] == nil }

// farthest is how far the walk through the seconds goes: a week and a day.
const farthest = 8 * 24 * 3600

type cronAsk struct {
	cron  string
	after int64
}

// cronFound keeps what has been found, since many steps ask the same.
var cronFound = map[cronAsk]ms{}

func nextCron(expr string, after ms) ms {
	second := after/1000 + 1
	ask := cronAsk{expr, second}
	if found, ok := cronFound[ask]; ok {
		return found
	}
	fires := crons[expr]
	found := never
	for n := range int64(farthest) {
		if fires(time.Unix(second+n, 0).UTC()) {
			found = (second + n) * 1000
			break
		}
	}
	if len(cronFound) > 1_000_000 {
		clear(cronFound)
	}
	cronFound[ask] = found
	return found
}

// after is the first fire later than t when so many fires are behind; a fire at the start or at the end counts.
func (s spec) after(t ms, fired int64) ms {
	if s.repeat >= 0 && fired >= s.repeat {
		return never
	}
	if t < s.start {
		t = s.start - 1
	}
	next := s.start
	switch {
	case s.cron != "":
		next = nextCron(s.cron, t)
	case t < s.start:
	case s.every == 0:
		return never
	default:
		next = s.start + ((t-s.start)/s.every+1)*s.every
	}
	if s.end > 0 && next > s.end {
		return never
	}
	return next
}

// from is the first fire at t or later.
func (s spec) from(t ms, fired int64) ms { return s.after(t-1, fired) }

// first is the first fire of a schedule that has none behind it: a fixed rate owes its fires from its start on.
func (s spec) first(now ms) ms {
	if s.cron == "" && s.start > 0 {
		return s.from(s.start, 0)
	}
	return s.from(now, 0)
}

// allows tells whether a fire lies within start, end and count.
func (s spec) allows(fire ms, fired int64) bool {
	return (s.repeat < 0 || fired < s.repeat) && fire >= s.start && (s.end <= 0 || fire <= s.end)
}
