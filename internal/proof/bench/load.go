package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/qrtz-go/qrtz"
)

const (
	benchApp = "bench"

	tick = "tick" // the class of what only notes how late it is
	hold = "hold" // the class of what runs until it is stopped

	perJob = 100 // executes of a job
)

// load is a number of schedules, stored as they would be after declaring them an hour ago.
type load struct {
	Class    string
	Executes int
	Every    time.Duration
	Once     bool
	First    time.Time // the first fire
	Spread   bool      // over Every, in no order of id; else all at the same instant
	History  qrtz.History
	Recovery bool
}

const (
	jobsSQL = `
INSERT INTO QRTZ_JOB (APPLICATION, NAME, STATE, JOB_CLASS, UPDATE_TIME, HISTORY, RECOVERY)
SELECT ?, CONCAT(?, '-', N), 'EXECUTING', ?, 0, ?, ? FROM %s X WHERE N < ?`

	firstJobSQL = `SELECT MIN(ID) FROM QRTZ_JOB WHERE APPLICATION = ? AND JOB_CLASS = ?`

	executesSQL = `
INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, NAME, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, NEXT_FIRE_TIME, CHANGED_AT)
SELECT ? + N DIV ?, ?, N, 'SIMPLE', 'EXECUTING', ?, ?, T, T, CURRENT_TIMESTAMP(3) - INTERVAL 1 HOUR
  FROM (SELECT N, ? + IF(?, ((N * 7919) MOD ?) * ? DIV ?, 0) AS T FROM %s D WHERE N < ?) X`
)

// store puts a load into the tables: 100,000 executes take about 2 seconds.
func (d *database) store(ctx context.Context, l load) error {
	jobs := (l.Executes + perJob - 1) / perJob
	if _, err := d.ExecContext(ctx, fmt.Sprintf(jobsSQL, numbers(jobs)), benchApp, l.Class, l.Class, l.History, l.Recovery, jobs); err != nil {
		return fmt.Errorf("store jobs: %w", err)
	}
	var first int64
	if err := d.GetContext(ctx, &first, firstJobSQL, benchApp, l.Class); err != nil {
		return fmt.Errorf("store jobs: %w", err)
	}
	every, repeat := l.Every.Milliseconds(), -1
	if l.Once {
		repeat = 1
	}
	_, err := d.ExecContext(ctx, fmt.Sprintf(executesSQL, numbers(l.Executes)), first, perJob, benchApp, repeat, every,
		l.First.UnixMilli(), l.Spread, l.Executes, every, l.Executes, l.Executes)
	if err != nil {
		return fmt.Errorf("store executes: %w", err)
	}
	return nil
}

// numbers is a derived table of one column N with the numbers from 0 to at least n-1.
func numbers(n int) string {
	const digits = `(SELECT 0 AS D UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)`
	var terms, tables []string
	for power, i := 1, 0; i == 0 || power < n; power, i = 10*power, i+1 {
		terms = append(terms, fmt.Sprintf("%d * D%d.D", power, i))
		tables = append(tables, fmt.Sprintf("%s D%d", digits, i))
	}
	return "(SELECT " + strings.Join(terms, " + ") + " AS N FROM " + strings.Join(tables, " CROSS JOIN ") + ")"
}
