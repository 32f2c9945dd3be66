package cron

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/proof/firetimes"
)

func mustParse(tb testing.TB, expr, zone string, opts ...Option) *Schedule {
	tb.Helper()
	loc, err := LoadLocation(zone)
	require.NoError(tb, err)
	s, err := Parse(expr, loc, opts...)
	require.NoError(tb, err, expr)
	return s
}

// Every day of sixty years, for every kind of day rule, against the oracle. 28 years in a row hold
// each kind of year, and 2100 has no leap day.
func TestDaysAgainstOracle(t *testing.T) {
	exprs := []string{"1", "31", "28-3", "*/7", "2/10,29", "L", "L-0", "L-1", "L-27", "L-28", "L-29", "L-30", "LW", "L-1W", "L-2W", "L-27W", "L-28W", "L-30W"}
	for n := 1; n <= 31; n++ {
		exprs = append(exprs, fmt.Sprintf("%dW", n))
	}
	for i := range exprs {
		exprs[i] = "0 0 0 " + exprs[i] + " * ?"
	}
	for _, dow := range []string{"*", "MON", "FRI-MON", "*/2", "2/2", "6-2/2", "L", "1L", "7L", "MONL", "1#1", "7#5", "WED#3", "2#5"} {
		exprs = append(exprs, "0 0 0 ? * "+dow)
	}
	exprs = append(exprs, "0 0 0 29 2 ?", "0 0 0 ? 2 2#5", "0 0 0 L-28 FEB ?", "0 0 0 31 NOV-FEB ? *", "0 0 0 ? * FRI#5 2000-2100/7",
		"0 0 0 * 5-3/4 ?", "0 0 0 31 4,6 ?", "0 0 0 29W 2 ?", "0 0 0 30W 2 ?", "0 0 0 31W 2 ?", "0 0 0 29W 2-12 ?", "0 0 0 29W 12-2 ?", "0 0 0 L * ? 2126")
	for _, expr := range exprs {
		s := mustParse(t, expr, "UTC")
		o := oracleOf(t, expr)
		at := s.Next(time.Unix(-1, 0))
		for d := time.Unix(0, 0).UTC(); d.Year() <= LastYear; d = d.AddDate(0, 0, 1) {
			if d.Year() == 2000 {
				d = time.Date(2095, 1, 1, 0, 0, 0, 0, time.UTC)
				at = s.Next(d.Add(-time.Second))
			}
			if o.NamesDay(d) {
				require.Equal(t, d, at, expr)
				at = s.Next(d)
			}
		}
		require.True(t, at.IsZero(), "%s: %s", expr, at)
	}
}

// The day that a month lacks is counted in by nW if only that one is lacking, and it would be a Saturday.
func TestTheWorkdayNearestToADayThatTheMonthLacks(t *testing.T) {
	for _, c := range []struct{ expr, after, want string }{
		{"0 0 12 29W 2 ?", "2025-01-01", "2025-02-28"},   // 1 March is a Saturday
		{"0 0 12 29W 2 ?", "2024-02-29", "2025-02-28"},   // from the fire before
		{"0 0 12 29W 2 ?", "2014-02-01", "2014-02-28"},   //
		{"0 0 12 29W 2,3 ?", "2025-02-01", "2025-02-28"}, //
		{"0 0 12 29W 2 ?", "2026-01-01", "2028-02-29"},   // a Sunday: it would leave the month
		{"0 0 12 29W 2 ?", "2022-01-01", "2024-02-29"},   // a Tuesday
		{"0 0 12 29W * ?", "2025-01-29", "2025-03-28"},   // from a fire in January, Quartz continues in March
		{"0 0 12 30W 2 ?", "2025-01-01", "2036-02-29"},   // two days are lacking in 2025, one in 2036
		{"0 0 12 31W 2 ?", "2025-01-01", ""},             // two at least
		{"0 0 12 31W 4 ?", "2020-05-01", "2021-04-30"},
		{"0 0 12 28W 2 ?", "2025-01-01", "2025-02-28"}, // lacks nothing
	} {
		after, err := time.Parse("2006-01-02", c.after)
		require.NoError(t, err)
		got := mustParse(t, c.expr, "UTC").Next(after.Add(12 * time.Hour))
		if c.want == "" {
			require.True(t, got.IsZero(), "%s after %s: %s", c.expr, c.after, got)
			continue
		}
		require.Equal(t, c.want, got.Format("2006-01-02"), "%s after %s", c.expr, c.after)
	}
}

// Random expressions at random times, against the oracle on the days around.
func TestRandomExpressionsAgainstOracle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		expr := randomExpr(random)
		s := mustParse(t, expr, "UTC")
		o := oracleOf(t, expr)
		after := time.Unix(random.Int64N(lastInstant), 0)
		want := time.Time{}
		for d := after.Unix() + 1; d < after.Unix()+day; d++ {
			if o.Matches(d) {
				want = time.Unix(d, 0).UTC()
				break
			}
		}
		got := s.Next(after)
		if want.IsZero() {
			require.False(t, !got.IsZero() && got.Unix() < after.Unix()+day, "%s after %s: %s", expr, after, got)
			continue
		}
		require.Equal(t, want, got, "%s after %s", expr, after)
	}
}

// randomExpr writes an expression of lists, ranges and steps.
func randomExpr(random *rand.Rand) string {
	item := func(low, high int) string {
		a, b, step := low+random.IntN(high-low+1), low+random.IntN(high-low+1), 1+random.IntN(high-low)
		switch random.IntN(6) {
		case 0:
			return fmt.Sprintf("%d-%d", a, b)
		case 1:
			return fmt.Sprintf("%d-%d/%d", a, b, step)
		case 2:
			return fmt.Sprintf("%d/%d", a, step)
		case 3:
			return fmt.Sprintf("*/%d", step)
		default:
			return fmt.Sprint(a)
		}
	}
	list := func(low, high int) string {
		if random.IntN(3) == 0 {
			return "*"
		}
		items := make([]string, 1+random.IntN(3))
		for i := range items {
			items[i] = item(low, high)
		}
		return strings.Join(items, ",")
	}
	dom, dow := list(1, 31), "?"
	if random.IntN(2) == 0 {
		dom, dow = "?", list(1, 7)
	}
	return strings.Join([]string{list(0, 59), list(0, 59), list(0, 23), dom, list(1, 12), dow}, " ")
}

// Later questions never get earlier answers.
func TestNextIsMonotone(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range changes {
		noon, err := time.Parse("2006-01-02 15", c.day+" 12")
		require.NoError(t, err)
		for _, expr := range changeExprs {
			s := mustParse(t, expr, c.zone)
			for range 20 {
				a := noon.Add(time.Duration(random.Int64N(int64(100*time.Hour))) - 50*time.Hour)
				b := a.Add(time.Duration(random.Int64N(int64(6 * time.Hour))))
				nextA, nextB := s.Next(a), s.Next(b)
				require.True(t, nextA.IsZero() || nextA.After(a), "%s %s", expr, a)
				require.False(t, nextB.Before(nextA) && !nextB.IsZero(), "%s in %s: %s -> %s, but %s -> %s", expr, c.zone, a, nextA, b, nextB)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	for _, zone := range []string{"UTC", "Asia/Shanghai", "America/New_York", "+18:00", "-18:00"} {
		for _, opts := range [][]Option{nil, {QuartzDST()}} {
			for _, expr := range []string{"0 0 0 1 1 ?", "0 0 * 1 1 ?"} {
				s := mustParse(t, expr, zone, opts...)
				want := time.Date(FirstYear, 1, 1, 0, 0, 0, 0, s.loc)
				for _, early := range []time.Time{
					{}, time.Unix(math.MinInt64, 0), want.Add(-time.Nanosecond), want.Add(-72 * time.Hour), want.AddDate(-100, 0, 0),
				} {
					require.Equal(t, want, s.Next(early), "%s %s after %s", zone, expr, early)
				}
				for _, late := range []time.Time{
					time.Date(LastYear, 12, 31, 23, 59, 59, 0, s.loc), time.Date(LastYear+1, 1, 3, 0, 0, 0, 0, s.loc),
					time.Date(9999, 1, 1, 0, 0, 0, 0, s.loc), time.Unix(math.MaxInt64, 0), time.Unix(1<<62, 0),
				} {
					require.True(t, s.Next(late).IsZero(), "%s %s after %s", zone, expr, late)
				}
			}
			s := mustParse(t, "59 59 23 31 12 ?", zone, opts...)
			last := time.Date(LastYear, 12, 31, 23, 59, 59, 0, s.loc)
			require.Equal(t, last, s.Next(last.Add(-time.Nanosecond)))
		}
	}
}

func TestNextIsExclusiveAndInTheLocation(t *testing.T) {
	s := mustParse(t, "0 0 12 * * ?", "Asia/Shanghai")
	noon := time.Date(2025, 6, 1, 12, 0, 0, 0, s.loc)
	require.Equal(t, noon, s.Next(noon.Add(-time.Nanosecond).UTC()))
	require.Equal(t, noon.AddDate(0, 0, 1), s.Next(noon))
	require.Equal(t, noon.AddDate(0, 0, 1), s.Next(noon.Add(time.Nanosecond)))
	require.Same(t, s.loc, s.Next(noon).Location())

	s, err := Parse("0 0 12 * * ?", nil)
	require.NoError(t, err)
	require.Equal(t, time.UTC, s.Next(noon).Location())
}

func TestImpossibleNeverFires(t *testing.T) {
	for _, expr := range []string{"0 0 0 30 2 ?", "0 0 0 31 4,6,9,11 ?", "* * * 29 2 ? 2100", "0 0 0 ? 2 2#5 2025", "0 0 0 L-30 4 ?", "0 0 0 * * ? 9999"} {
		for _, opts := range [][]Option{nil, {QuartzDST()}} {
			s := mustParse(t, expr, "America/New_York", opts...)
			require.True(t, s.Next(time.Time{}).IsZero(), expr)
			require.True(t, s.Next(time.Date(2025, 11, 2, 5, 30, 0, 0, time.UTC)).IsZero(), expr)
		}
	}
}

// A location of one's own may be further from Greenwich than any place on earth.
func TestOutlandishLocations(t *testing.T) {
	after := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	for _, days := range []int{-1000000, -30, -3, 3, 30, 1000000} {
		loc := time.FixedZone("far out", days*day+1)
		for _, opts := range [][]Option{nil, {QuartzDST()}} {
			for _, expr := range []string{"* * * * * ?", "0 30 2 * * ?"} {
				s, err := Parse(expr, loc, opts...)
				require.NoError(t, err)
				if next := s.Next(after); max(days, -days) < 1000 {
					require.True(t, next.After(after), next)
					require.Less(t, next.Sub(after), 25*time.Hour)
				}
			}
		}
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	for _, expr := range []string{"0 0/5 * * * ?", "0 30 2 * * ?", "0 0 0 29 2 ?", "0 0 0 L-3W * ? 2099", "0 0 0 30 2 ?"} {
		for _, opts := range [][]Option{nil, {QuartzDST()}} {
			s := mustParse(t, expr, "America/New_York", opts...)
			after := time.Date(2025, 3, 9, 5, 0, 0, 0, time.UTC)
			require.Zero(t, testing.AllocsPerRun(100, func() { s.Next(after) }), expr)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	s := mustParse(t, "0 30 2 * * ?", "America/New_York")
	after := time.Date(2025, 3, 9, 0, 0, 0, 0, s.loc)
	want := s.Next(after)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if got := s.Next(after); !got.Equal(want) || s.String() == "" || s.Describe() == "" {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	all.Wait()
}

// oracleOf answers for an expression what this package must answer, by other means.
func oracleOf(tb testing.TB, expr string) *firetimes.Cron {
	tb.Helper()
	o, err := firetimes.ParseCron(expr)
	require.NoError(tb, err)
	return o
}
