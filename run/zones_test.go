package run

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pending run is due in the zone of its schedule on every machine, and knows the names of its job and schedule.
func TestAPendingRunKnowsItsNamesAndItsZone(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	f.Exec(`UPDATE QRTZ_JOB SET NAME = 'report' WHERE ID = ?`, f.Job)
	for zone, want := range map[string]string{
		"Asia/Tokyo":   "2030-06-01T21:00:00+09:00",
		"GMT+8":        "2030-06-01T20:00:00+08:00", // as version 1.3 stored it
		"Mars/Olympus": "2030-06-01T12:00:00Z",      // it must not hold up the claim
		"":             "2030-06-01T12:00:00Z",
	} {
		e := f.Add()
		f.Exec(`UPDATE QRTZ_EXECUTE SET NAME = ?, JOB_TYPE = 'CRON', CRON = '0 0 12 * * ?', ZONE_ID = ? WHERE ID = ?`, zone, zone, e)
		id := f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME) VALUES ('a', ?, ?, ?)`, f.Job, e, noon.UnixMilli())
		r := f.claimPending(who, id)[0]
		require.Equal(t, want, r.FireTime.Format(time.RFC3339), zone)
		require.Equal(t, []string{"report", zone}, []string{r.Job, r.Schedule})
	}
	rate := f.Add()
	f.Exec(`UPDATE QRTZ_EXECUTE SET ZONE_ID = 'Asia/Tokyo' WHERE ID = ?`, rate)
	id := f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME) VALUES ('a', ?, ?, ?)`, f.Job, rate, noon.UnixMilli())
	require.Equal(t, noon, f.claimPending(who, id)[0].FireTime, "the zone of a SIMPLE schedule means nothing")
	require.Equal(t, noon, f.claimPending(who, f.AddPending())[0].FireTime)
}

func TestZonesForgetWhatPeopleHaveTyped(t *testing.T) {
	var z zones
	for i := range 2*maxZones + 10 {
		require.Equal(t, time.UTC, z.named(fmt.Sprintf("Z%d", i%(maxZones+5))))
		require.LessOrEqual(t, len(z.byName), maxZones)
	}
	require.Equal(t, "Europe/Berlin", z.named("Europe/Berlin").String())
}
