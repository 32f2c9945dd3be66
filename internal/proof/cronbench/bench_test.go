package cronbench

import (
	"fmt"
	"testing"
	"time"

	"github.com/adhocore/gronx"
	netresearch "github.com/netresearch/go-cron"
	qrtz "github.com/qrtz-go/qrtz/cron"
	goquartz "github.com/reugn/go-quartz/quartz"
	robfig "github.com/robfig/cron/v3"
)

// next asks a parsed expression for its first fire after a time.
type next func(after time.Time) (time.Time, error)

// libraries parse an expression for a zone. gronx has no parsed form: it parses at every call.
var libraries = []struct {
	name  string
	parse func(expr string, loc *time.Location) (next, error)
}{
	{"qrtz", func(expr string, loc *time.Location) (next, error) {
		s, err := qrtz.Parse(expr, loc)
		return func(after time.Time) (time.Time, error) { return s.Next(after), nil }, err
	}},
	{"robfig", func(expr string, loc *time.Location) (next, error) {
		s, err := robfigParser.Parse(expr)
		return func(after time.Time) (time.Time, error) { return s.Next(after.In(loc)), nil }, err
	}},
	{"netresearch", func(expr string, loc *time.Location) (next, error) {
		s, err := netresearchParser.Parse(expr)
		return func(after time.Time) (time.Time, error) { return s.Next(after.In(loc)), nil }, err
	}},
	{"go-quartz", func(expr string, loc *time.Location) (next, error) {
		s, err := goquartz.NewCronTriggerWithLoc(expr, loc)
		return func(after time.Time) (time.Time, error) {
			at, err := s.NextFireTime(after.UnixNano())
			return time.Unix(0, at), err
		}, err
	}},
	{"gronx", func(expr string, loc *time.Location) (next, error) {
		if !gronx.IsValid(expr) {
			return nil, fmt.Errorf("invalid: %s", expr)
		}
		return func(after time.Time) (time.Time, error) { return gronx.NextTickAfter(expr, after.In(loc), false) }, nil
	}},
}

var (
	robfigParser      = robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)
	netresearchParser = netresearch.MustNewParser(netresearch.Second | netresearch.Minute | netresearch.Hour |
		netresearch.Dom | netresearch.Month | netresearch.Dow | netresearch.YearOptional | netresearch.Extended)
)

var expressions = []struct{ name, expr, zone, after string }{
	{"every-5-minutes", "0 0/5 * * * ?", "America/New_York", "2026-06-15T10:01:00Z"},
	{"every-5-minutes-UTC", "0 0/5 * * * ?", "UTC", "2026-06-15T10:01:00Z"},
	{"daily", "0 0 2 * * ?", "America/New_York", "2026-06-15T10:01:00Z"},
	{"workdays", "0 30 9 ? * MON-FRI", "Asia/Shanghai", "2026-06-12T10:01:00Z"},
	{"monthly", "0 0 12 1 * ?", "Europe/Berlin", "2026-06-15T10:01:00Z"},
	{"yearly", "0 0 0 1 1 ?", "Europe/Berlin", "2026-06-15T10:01:00Z"},
	{"last-day", "0 0 12 L * ?", "Europe/Berlin", "2026-06-15T10:01:00Z"},
	{"third-friday", "0 0 12 ? * FRI#3", "Europe/Berlin", "2026-06-20T10:01:00Z"},
	{"in-the-gap", "0 30 2 * * ?", "America/New_York", "2026-03-08T05:00:00Z"},
	{"far-future", "0 0 2 * * ?", "America/New_York", "2090-06-15T10:01:00Z"},
	{"leap-day", "0 0 0 29 2 ?", "Europe/Berlin", "2096-03-01T00:00:00Z"},
	{"leap-monday", "0 0 0 ? 2 2#5", "Europe/Berlin", "2072-03-01T00:00:00Z"},
	{"L-3W-2099", "0 0 0 L-3W * ? 2099", "Europe/Berlin", "2026-06-15T10:01:00Z"},
	{"30-february", "0 0 0 30 2 ?", "Europe/Berlin", "2026-06-15T10:01:00Z"},
}

func BenchmarkNext(b *testing.B) {
	for _, e := range expressions {
		loc, err := time.LoadLocation(e.zone)
		if err != nil {
			b.Fatal(err)
		}
		after, err := time.Parse(time.RFC3339, e.after)
		if err != nil {
			b.Fatal(err)
		}
		s, err := qrtz.Parse(e.expr, loc)
		if err != nil {
			b.Fatal(err)
		}
		want := s.Next(after)
		for _, library := range libraries {
			b.Run(e.name+"/"+library.name, func(b *testing.B) {
				next, err := library.parse(e.expr, loc)
				if err != nil {
					b.Skip("refused: ", err)
				}
				got, answered := within(time.Second, next, after)
				if !answered {
					b.Skip("no answer within a second")
				}
				b.ReportAllocs()
				for b.Loop() {
					_, _ = next(after)
				}
				if !got.Equal(want) {
					b.ReportMetric(1, "differs")
				}
			})
		}
	}
}

// within asks once, and gives up on those that search for ever. An error counts as "never".
func within(limit time.Duration, next next, after time.Time) (time.Time, bool) {
	answer := make(chan time.Time, 1)
	go func() {
		at, err := next(after)
		if err != nil {
			at = time.Time{}
		}
		answer <- at
	}()
	select {
	case at := <-answer:
		return at, true
	case <-time.After(limit):
		return time.Time{}, false
	}
}

func BenchmarkParse(b *testing.B) {
	for _, e := range expressions[2:5] {
		for _, library := range libraries[:4] {
			b.Run(e.name+"/"+library.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := library.parse(e.expr, time.UTC); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
