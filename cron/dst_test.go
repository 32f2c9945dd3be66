package cron

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/proof/firetimes"
)

// change is a zone and a day near which its clock jumps.
type change struct{ zone, day string }

var changes = []change{
	{"America/New_York", "2021-03-14"},
	{"America/New_York", "2021-11-07"},
	{"America/New_York", "2099-03-08"},
	{"Europe/Berlin", "2024-03-31"},
	{"Europe/Berlin", "2024-10-27"},
	{"Europe/Berlin", "2125-10-28"},
	{"Europe/London", "1971-10-31"},
	{"Europe/Dublin", "2030-03-31"},
	{"Australia/Lord_Howe", "2018-10-07"},
	{"Australia/Lord_Howe", "2021-04-04"}, // half an hour
	{"America/Sao_Paulo", "2018-11-04"},
	{"America/Sao_Paulo", "2018-02-17"}, // at midnight
	{"America/Havana", "2019-03-10"},
	{"America/Havana", "2019-11-03"},
	{"Asia/Beirut", "2022-03-27"},
	{"Atlantic/Azores", "2020-03-29"},
	{"Atlantic/Azores", "2020-10-25"},
	{"America/Nuuk", "2030-03-30"},
	{"America/Asuncion", "2022-10-02"},
	{"America/Santiago", "2023-04-02"},
	{"Asia/Amman", "2021-10-29"},
	{"Pacific/Apia", "2011-12-30"},
	{"Pacific/Kwajalein", "1993-08-21"},
	{"Pacific/Kiritimati", "1994-12-31"}, // no such day
	{"Africa/Casablanca", "2025-02-23"},
	{"Africa/Casablanca", "2025-04-06"},
	{"Africa/Cairo", "2010-08-11"},
	{"Antarctica/Troll", "2023-03-26"},
	{"Antarctica/Troll", "2023-10-29"}, // two hours
	{"Antarctica/Casey", "2020-10-04"},
	{"Antarctica/Vostok", "2023-12-18"},
	{"Antarctica/Davis", "2009-10-18"},
	{"Africa/Monrovia", "1972-01-07"},
	{"America/Caracas", "2007-12-09"},
	{"Asia/Kathmandu", "1986-01-01"}, // not daylight saving
	{"Asia/Pyongyang", "2018-05-05"},
	{"Europe/Moscow", "2014-10-26"},
	{"Asia/Tehran", "2022-03-22"},
	{"Europe/Istanbul", "2016-03-27"},
	{"Asia/Dhaka", "2009-12-31"},
	{"America/St_Johns", "1988-04-03"},
	{"Asia/Gaza", "2030-10-26"},
	{"Africa/Juba", "2021-02-01"},
	{"Asia/Shanghai", "1988-04-17"},
}

// everyHourExprs is how many of changeExprs allow every hour; they come first.
const everyHourExprs = 7

var changeExprs = []string{
	"* * * * * ?", "0 0/5 * * * ?", "0 30 * * * ?", "0 0 0-23 * * ?", "30 10/25 0/1 ? * SUN", "0 * * 30 12 ?", "59 59 23-22 L * ?",
	"0 30 2 * * ?", "0 0 2 * * ?", "0 0 3 * * ?", "0 0 0 * * ?", "59 59 23 * * ?", "0 15 1 * * ?", "0 0 12 * * ?",
	"0 0/10 1-3 * * ?", "0 5/10 1-3 * * ?", "*/7 * 0-4 * * ?", "0 0 */2 * * ?", "0 30 0-22 * * ?", "0 45 23-1 ? * SAT-MON",
	"0 10,20,50 0,2 ? * 1", "0 0 12 30 12 ?", "0 0 5 ? * FRIL", "0 30 2 LW * ?", "0 20 0 15W * ?", "0 45 1 ? * SUN#1", "0 0 0 1 1 ? 2010-2030/2",
}

// TestAroundChanges compares all fires around clock changes with the oracle's.
func TestAroundChanges(t *testing.T) {
	for _, c := range append(changes, randomChanges(t, 12)...) {
		t.Run(c.zone+" "+c.day, func(t *testing.T) {
			t.Parallel()
			loc, err := LoadLocation(c.zone)
			require.NoError(t, err)
			changed := changeNear(t, c, loc)
			// What the clock showed before from counts too: it must not fire again.
			from, to := changed.Add(-5*time.Hour), changed.Add(6*time.Hour)
			walked := firetimes.Walk(loc, from.Add(-4*time.Hour), to)
			for i, expr := range changeExprs {
				s, err := Parse(expr, loc)
				require.NoError(t, err)
				want := walked.Once
				if i < everyHourExprs {
					want = walked.RealTime
				}
				requireFires(t, s, want(oracleOf(t, expr)), from, to)
			}
		})
	}
}

// changeNear returns the instant at which the clock jumps, near noon of the given day in UTC.
func changeNear(t *testing.T, c change, loc *time.Location) time.Time {
	t.Helper()
	noon, err := time.Parse("2006-01-02 15", c.day+" 12")
	require.NoError(t, err)
	for at := noon.Add(-36 * time.Hour); at.Before(noon.Add(36 * time.Hour)); at = at.Add(time.Second) {
		_, before := at.Add(-time.Second).In(loc).Zone()
		if _, now := at.In(loc).Zone(); now != before {
			return at
		}
	}
	require.Fail(t, "no change")
	return time.Time{}
}

// requireFires checks the fires after from and before to, one after the other and from random points.
func requireFires(t *testing.T, s *Schedule, want []int64, from, to time.Time) {
	t.Helper()
	want = slices.DeleteFunc(want, func(at int64) bool { return at <= from.Unix() })
	i := 0
	for at := s.Next(from); !at.IsZero() && at.Before(to); at = s.Next(at) {
		require.Less(t, i, len(want), "%s: extra fire at %s", s, at)
		if at.Unix() != want[i] {
			require.Equal(t, time.Unix(want[i], 0).In(s.loc), at, "%s", s)
		}
		i++
	}
	require.Len(t, want, i, "%s: missing fires", s)

	random := rand.New(rand.NewPCG(1, uint64(from.Unix())))
	for range 200 {
		after := from.Add(time.Duration(random.Int64N(int64(to.Sub(from)))))
		i, _ := slices.BinarySearch(want, after.Unix()+1)
		got := s.Next(after)
		if i < len(want) {
			require.Equal(t, time.Unix(want[i], 0).In(s.loc), got, "%s after %s", s, after)
		} else if !got.IsZero() {
			require.False(t, got.Before(to), "%s after %s", s, after)
		}
	}
}

// randomChanges picks changes of any zone in any year.
func randomChanges(t *testing.T, n int) []change {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	names := strings.Fields(zoneNames)
	var found []change
	for len(found) < n {
		name := names[random.IntN(len(names))]
		loc, err := LoadLocation(name)
		require.NoError(t, err)
		at := time.Unix(random.Int64N(lastInstant), 0).In(loc)
		_, end := at.ZoneBounds()
		if end.IsZero() || end.Unix() >= lastInstant {
			continue
		}
		_, before := end.Add(-time.Second).Zone()
		if _, now := end.Zone(); now != before {
			found = append(found, change{name, end.UTC().Format(time.DateOnly)})
		}
	}
	return found
}

// Package time takes a year to end after 365 days, which must not cut 31 December into seconds.
func TestSpanOnTheLastDayOfALeapYear(t *testing.T) {
	s := mustParse(t, "* * * * * ?", "America/New_York")
	for year := 2024; year <= LastYear; year += 4 {
		newYearsEve := dayNumber(year, 12, 31) * day
		for t0 := newYearsEve; t0 < newYearsEve+day; t0 += hour {
			here := s.spanAt(t0)
			require.Equal(t, int64(-5*hour), here.offset)
			require.GreaterOrEqual(t, here.end, newYearsEve+day, year)
		}
	}
}

func ExampleSchedule_Next() {
	newYork, _ := LoadLocation("America/New_York")
	daily, _ := Parse("0 30 2 * * ?", newYork)
	at := time.Date(2021, 3, 13, 12, 0, 0, 0, newYork)
	for range 2 {
		at = daily.Next(at)
		fmt.Println(at)
	}
	// Output:
	// 2021-03-14 03:00:00 -0400 EDT
	// 2021-03-15 02:30:00 -0400 EDT
}
