package firetimes_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/proof/firetimes"
)

// fires are the fires of a schedule between two times, in its zone.
func fires(t *testing.T, s firetimes.Schedule, from, until string) (all []string) {
	t.Helper()
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.DateTime, text)
		require.NoError(t, err)
		return parsed
	}
	seq, err := s.Fires(at(from), at(until))
	require.NoError(t, err)
	loc, err := time.LoadLocation(s.Zone)
	require.NoError(t, err)
	for fire := range seq {
		all = append(all, fire.In(loc).Format("01-02 15:04:05 -0700"))
	}
	return all
}

func TestAFixedRateIsCountedFromItsStart(t *testing.T) {
	s := firetimes.Schedule{Every: 90 * time.Second, Start: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), End: time.Date(2026, 3, 1, 10, 6, 0, 0, time.UTC)}
	require.Equal(t, []string{"03-01 10:00:00 +0000", "03-01 10:01:30 +0000"}, fires(t, s, "2026-03-01 09:00:00", "2026-03-01 10:02:59"))
	require.Equal(t, []string{"03-01 10:03:00 +0000", "03-01 10:04:30 +0000", "03-01 10:06:00 +0000"}, fires(t, s, "2026-03-01 10:01:31", "2026-04-01 00:00:00"), "both ends are included")
	s.Every = 0
	require.Equal(t, []string{"03-01 10:00:00 +0000"}, fires(t, s, "2026-03-01 10:00:00", "2026-03-01 11:00:00"))
	require.Empty(t, fires(t, s, "2026-03-01 10:00:01", "2026-03-01 11:00:00"))
}

// The fires are those of docs/schedules.md.
func TestACronScheduleAcrossClockChanges(t *testing.T) {
	half := firetimes.Schedule{Cron: "0 0/30 * * * ?", Zone: "America/New_York"}
	require.Equal(t, []string{"11-07 01:00:00 -0400", "11-07 01:30:00 -0400", "11-07 01:00:00 -0500", "11-07 01:30:00 -0500", "11-07 02:00:00 -0500"},
		fires(t, half, "2021-11-07 05:00:00", "2021-11-07 07:00:00"))
	daily := firetimes.Schedule{Cron: "0 30 2 * * ?", Zone: "America/New_York", Start: time.Date(2021, 3, 13, 12, 0, 0, 0, time.UTC)}
	require.Equal(t, []string{"03-14 03:00:00 -0400", "03-15 02:30:00 -0400"}, fires(t, daily, "2021-03-13 00:00:00", "2021-03-16 00:00:00"))
	twice := firetimes.Schedule{Cron: "0 30 1 * * ?", Zone: "America/New_York"}
	require.Empty(t, fires(t, twice, "2021-11-07 06:00:00", "2021-11-08 06:00:00"), "the second 01:30 of a day")
	gone := firetimes.Schedule{Cron: "0 0 12 * * ?", Zone: "Pacific/Apia"}
	require.Equal(t, []string{"12-29 12:00:00 -1000", "12-31 00:00:00 +1400", "12-31 12:00:00 +1400"}, fires(t, gone, "2011-12-29 12:00:00", "2011-12-31 00:00:00"))
}

func TestAFireAtTheSeamOfTwoPiecesComesOnce(t *testing.T) {
	s := firetimes.Schedule{Cron: "0 0 0,12 * * ?"}
	require.Equal(t, []string{"01-01 00:00:00 +0000", "01-01 12:00:00 +0000", "01-02 00:00:00 +0000", "01-02 12:00:00 +0000", "01-03 00:00:00 +0000"},
		fires(t, s, "2026-01-01 00:00:00", "2026-01-03 00:00:00"))
}

func TestWhatIsNoSchedule(t *testing.T) {
	for _, s := range []firetimes.Schedule{
		{Cron: "0/0 banana"},
		{Cron: "0 2 * * 1-5"},
		{Cron: "*/0 * * * * ?"},
		{Cron: "0 60 * * * ?"},
		{Cron: "0 0 0 32W * x"},
		{Cron: "0 0 0 * * ?", Zone: "Nowhere/Town"},
		{Cron: "0 0 0 * * ?", Zone: "Local"},
		{Every: -time.Second},
	} {
		_, err := s.Fires(time.Now(), time.Now())
		require.Error(t, err, "%+v", s)
	}
	east := firetimes.Schedule{Cron: "0 0 0 * * ?", Zone: "GMT+08:00"}
	seq, err := east.Fires(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	for fire := range seq {
		require.Equal(t, 16, fire.UTC().Hour())
	}
}
