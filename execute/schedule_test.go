package execute

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func schedule(t *testing.T, spec Spec) Schedule {
	t.Helper()
	var s Schedules
	parsed, err := s.Parse(spec)
	require.NoError(t, err)
	return parsed
}

func TestStartAndEndAreIncluded(t *testing.T) {
	rate, cron := everySecond(Forever), Spec{Kind: Cron, Cron: "* * * * * ?", Repeat: Forever, Start: noon}
	rate.End, cron.End = at(2), at(2)
	for name, spec := range map[string]Spec{"rate": rate, "cron": cron} {
		s := schedule(t, spec)
		require.Equal(t, noon.UnixMilli(), s.After(noon.Add(-time.Hour), 0).UnixMilli(), name)
		require.Equal(t, at(1).UnixMilli(), s.After(noon, 1).UnixMilli(), name)
		require.Equal(t, at(2).UnixMilli(), s.After(at(2).Add(-time.Nanosecond), 2).UnixMilli(), name)
		require.Zero(t, s.After(at(2), 3), name)
	}
	rate.End = at(2).Add(-time.Millisecond)
	require.Zero(t, schedule(t, rate).After(at(1), 2))
}

func TestTheCountIsOfFires(t *testing.T) {
	s := schedule(t, everySecond(3))
	require.False(t, s.After(at(100), 2).IsZero(), "the third fire is still owed, however late")
	require.Zero(t, s.After(at(1), 3))
	require.Zero(t, schedule(t, everySecond(0)).First(noon), "0 is none")
	require.False(t, schedule(t, everySecond(Forever)).After(at(1), 1<<60).IsZero())
}

func TestAOneOffFiresAtItsStartAlone(t *testing.T) {
	s := schedule(t, Spec{Kind: Simple, Repeat: 1, Start: noon})
	require.Equal(t, noon, s.First(at(500)), "also when added late")
	require.Zero(t, s.After(noon, 0))
}

func TestAFixedRateDoesNotDriftInFiftyYears(t *testing.T) {
	const every = 7777 * time.Millisecond
	s := schedule(t, Spec{Kind: Simple, Every: every, Repeat: Forever, Start: noon})
	end := noon.AddDate(50, 0, 0)
	for late := noon; late.Before(end); late = late.Add(31 * time.Hour) {
		next := s.After(late, 1)
		require.Zero(t, (next.UnixMilli()-noon.UnixMilli())%every.Milliseconds())
		require.True(t, next.After(late) && !next.After(late.Add(every)))
		require.Equal(t, next.UnixMilli(), s.After(next.Add(-time.Nanosecond), 1).UnixMilli(), "a fire is after the moment before it")
		require.Equal(t, next.Add(every).UnixMilli(), s.After(next, 2).UnixMilli())
	}
}

func TestStartTimeZeroIsNoStart(t *testing.T) {
	for _, spec := range []Spec{
		{Kind: Simple, Every: time.Minute, Repeat: Forever, Start: time.UnixMilli(0)},
		{Kind: Cron, Cron: "0 * * * * ?", Repeat: Forever, Start: time.UnixMilli(0)},
	} {
		s := schedule(t, spec)
		require.Equal(t, noon.UnixMilli(), s.First(noon).UnixMilli(), "not what it would owe since 1970")
		require.Equal(t, at(60).UnixMilli(), s.First(at(1)).UnixMilli())
		require.Equal(t, at(60).UnixMilli(), s.After(noon, 1).UnixMilli())
	}
}

func TestFirst(t *testing.T) {
	cron := Spec{Kind: Cron, Cron: "0 0 * * * ?", Repeat: Forever, Start: noon}
	require.Equal(t, noon, schedule(t, cron).First(noon.Add(-time.Hour)).UTC(), "its start lies ahead")
	require.Equal(t, noon.Add(3*time.Hour), schedule(t, cron).First(noon.Add(3*time.Hour)).UTC(), "now is included")
	require.Equal(t, noon.Add(4*time.Hour), schedule(t, cron).First(noon.Add(3*time.Hour+1)).UTC())
	require.Equal(t, noon, schedule(t, everySecond(Forever)).First(noon.Add(time.Hour)), "a rate owes its fires from its start on")
}

func TestFiresAreInTheZoneOfTheirSchedule(t *testing.T) {
	kathmandu := schedule(t, Spec{Kind: Cron, Cron: "0 0 12 * * ?", Zone: "Asia/Kathmandu", Repeat: Forever})
	require.Equal(t, "2030-06-02T12:00:00+05:45", kathmandu.After(noon, 0).Format(time.RFC3339))
	require.Equal(t, "2030-06-02T12:00:00+05:45", kathmandu.First(noon).Format(time.RFC3339))
	for name, s := range map[string]Spec{
		"a rate":            {Kind: Simple, Every: time.Second, Repeat: Forever, Start: noon.Local()},
		"a rate, with zone": {Kind: Simple, Every: time.Second, Repeat: Forever, Start: noon, Zone: "Asia/Kathmandu"},
		"a single fire":     {Kind: Simple, Repeat: 1, Start: noon.Local()},
		"cron without zone": {Kind: Cron, Cron: "0 0 12 * * ?", Repeat: Forever},
	} {
		require.Equal(t, time.UTC, schedule(t, s).After(noon.Add(-time.Hour), 0).Location(), name)
		require.Equal(t, time.UTC, schedule(t, s).First(noon).Location(), name)
	}
}

func TestParseNamesTheColumn(t *testing.T) {
	for column, spec := range map[string]Spec{
		"CRON:":                {Kind: Cron, Cron: "0 0 25 * * ?", Repeat: Forever},
		"ZONE_ID:":             {Kind: Cron, Cron: "0 0 2 * * ?", Zone: "Mars/Olympus", Repeat: Forever},
		"JOB_TYPE":             {Kind: "HOURLY"},
		"REPEAT_INTERVAL 0 ms": {Kind: Simple, Repeat: Forever},
		"REPEAT_INTERVAL -5":   {Kind: Simple, Every: -5 * time.Millisecond, Repeat: 1},
		"whole milliseconds":   {Kind: Simple, Every: time.Millisecond + 1, Repeat: Forever},
		"END_TIME 2030-06-01T12:00:00Z is before START_TIME 2030-06-01T12:00:01Z": {
			Kind: Simple, Every: time.Second, Start: at(1), End: noon,
		},
	} {
		var s Schedules
		_, err := s.Parse(spec)
		require.ErrorContains(t, err, column)
	}
}

// A column takes no later time: a schedule whose next fire would be after the year 9999 has none.
func TestAScheduleEndsWithTheYear9999(t *testing.T) {
	var schedules Schedules
	start := time.UnixMilli(lastMilli - 1500).UTC()
	s, err := schedules.Parse(Spec{Kind: Simple, Repeat: Forever, Every: time.Second, Start: start})
	require.NoError(t, err)
	require.Equal(t, start, s.First(noon))
	require.Equal(t, start.Add(time.Second), s.After(start, 1))
	require.True(t, s.After(start.Add(time.Second), 2).IsZero())
}
