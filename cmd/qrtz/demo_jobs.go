package main

import (
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz"
)

// recordTable is where the demo's handlers note what they started: without a unique key, so that what
// happens twice is there twice.
const (
	recordTable    = "demo_fire"
	recordTableSQL = `
CREATE TABLE demo_fire (
  ID         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  RUN_ID     BIGINT NOT NULL,
  EXECUTE_ID BIGINT NOT NULL,
  FIRE_TIME  BIGINT NOT NULL,
  ATTEMPT    INT NOT NULL,
  NODE       VARCHAR(50) NOT NULL,
  STARTED_AT BIGINT NOT NULL,
  KEY (FIRE_TIME)
) ENGINE=InnoDB`
	recordSQL = `INSERT INTO demo_fire (RUN_ID, EXECUTE_ID, FIRE_TIME, ATTEMPT, NODE, STARTED_AT) VALUES (:run_id, :execute_id, :fire_time, :attempt, :node, :now)`
)

// demoJobs are the jobs of the demo: all their schedules begin at start and end with the demo.
func demoJobs(start time.Time, length time.Duration) []qrtz.Job {
	end := start.Add(length)
	bounded := func(s qrtz.Schedule, name string) qrtz.Schedule {
		s.Name, s.Start, s.End = name, start, end
		return s
	}
	record := map[string]string{"statement": recordSQL}
	recorded := func(name string, schedules ...qrtz.Schedule) qrtz.Job {
		return qrtz.Job{Name: name, Class: "sql", Data: record, Schedules: schedules}
	}
	napping := func(name string, nap, every time.Duration) qrtz.Job {
		return qrtz.Job{
			Name: name, Class: "sleep", Data: map[string]int64{"ms": nap.Milliseconds()},
			Schedules: []qrtz.Schedule{bounded(qrtz.Every(every), "")},
			Options:   qrtz.Options{Recovery: true}, // what is lost with a node is run again elsewhere
		}
	}
	tenants := make([]qrtz.Schedule, 9)
	for i := range tenants {
		tenants[i] = bounded(qrtz.Every(time.Second), fmt.Sprint("tenant-", i+1))
		tenants[i].Start = start.Add(time.Duration(i) * 110 * time.Millisecond)
	}
	five := bounded(qrtz.Every((length / 10).Truncate(time.Millisecond)), "")
	five.Count = 5
	jobs := []qrtz.Job{
		recorded("even-seconds", bounded(qrtz.Cron("*/2 * * * * ?", ""), "")),
		recorded("shanghai", bounded(qrtz.Cron("0/5 * * * * ?", "Asia/Shanghai"), "")),
		recorded("every-1s", bounded(qrtz.Every(time.Second), "")),
		recorded("every-250ms", bounded(qrtz.Every(250*time.Millisecond), "")),
		recorded("two-rates", bounded(qrtz.Every(700*time.Millisecond), "fast"), bounded(qrtz.Every(3*time.Second), "slow")),
		recorded("five-times", five),
		recorded("sync", tenants...),
		napping("nap-short", 600*time.Millisecond, time.Second),
		napping("nap-long", 1500*time.Millisecond, 2*time.Second),
		{Name: "nothing", Class: "noop", Schedules: []qrtz.Schedule{bounded(qrtz.Every(1500*time.Millisecond), "")}},
	}
	const oneOffs = 4
	for i := range oneOffs {
		once := qrtz.At(start.Add(length * time.Duration(2*i+1) / (2 * oneOffs)).Truncate(time.Millisecond))
		jobs = append(jobs, recorded(fmt.Sprintf("one-off-%d", i+1), once))
	}
	return jobs
}
