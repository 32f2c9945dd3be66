package run

import (
	"database/sql"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/cron"
)

// zoneColumn is the time zone of the schedule E. Only a cron schedule has one.
const zoneColumn = `IF(E.JOB_TYPE = 'CRON', E.ZONE_ID, NULL) AS ZONE_ID`

// maxZones is how many names of zones are remembered: there are some 600, and a person may have typed any text.
const maxZones = 2000

// zones remembers time zones, which are costly to load. The zero value is ready.
type zones struct {
	mu     sync.Mutex
	byName map[string]*time.Location
}

// named is the zone of a name; UTC if there is none of that name, which must not hold up a claim.
func (z *zones) named(name string) *time.Location {
	z.mu.Lock()
	defer z.mu.Unlock()
	if loc, ok := z.byName[name]; ok {
		return loc
	}
	loc, err := cron.LoadLocation(name)
	if err != nil {
		loc = time.UTC
	}
	if z.byName == nil || len(z.byName) >= maxZones {
		z.byName = map[string]*time.Location{}
	}
	z.byName[name] = loc
	return loc
}

// fireTime is when a run was due, in the zone of its schedule, or in UTC.
func (z *zones) fireTime(ms int64, zone sql.NullString) time.Time {
	at := time.UnixMilli(ms)
	if zone.String == "" {
		return at.UTC()
	}
	return at.In(z.named(zone.String))
}
