package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	executeAsItIsSQL = `SELECT E.*, J.NAME AS JOB, J.JOB_CLASS, J.OVERLAP, J.RECOVERY, J.ATTEMPTS, J.HISTORY FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID WHERE E.ID = ?`

	runsAroundSQL = `SELECT * FROM QRTZ_RUN WHERE EXECUTE_ID = ? AND FIRE_TIME BETWEEN ? AND ? ORDER BY FIRE_TIME, ATTEMPT LIMIT 30`

	nodesSQL = `SELECT APPLICATION, HOST_IP, STATE, INSTANCE, HEARTBEAT_AT, JOINED_AT, OFF_SINCE, OFF_SEEN_AT, APP_OFF_SINCE, APP_OFF_SEEN_AT, SWITCHED_AT, PROCESS_ID FROM QRTZ_NODE`
)

// explain is everything that is known around a finding: rows, accounts, and what was done to the cluster.
func (j *judge) explain(ctx context.Context, f finding) string {
	const before, after = 45 * time.Second, 15 * time.Second
	var b strings.Builder
	if f.execute != 0 {
		b.WriteString(j.dump(ctx, executeAsItIsSQL, f.execute))
		b.WriteString(j.dump(ctx, runsAroundSQL, f.execute, f.at.Add(-10*time.Second).UnixMilli(), f.at.Add(10*time.Second).UnixMilli()))
	}
	b.WriteString(j.dump(ctx, nodesSQL))
	accounts, err := j.t.records.update()
	if err != nil {
		fmt.Fprintln(&b, "   ", err)
	}
	for _, a := range accounts {
		if a.Execute == f.execute && a.fire().After(f.at.Add(-10*time.Second)) && a.fire().Before(f.at.Add(10*time.Second)) {
			fmt.Fprintln(&b, "   ", a)
		}
	}
	b.WriteString(j.t.around(f.at, before, after))
	return b.String()
}

// dump is the rows of a query, a line each, without what is NULL.
func (j *judge) dump(ctx context.Context, query string, args ...any) string {
	rows, err := j.db.QueryxContext(ctx, query, args...)
	if err != nil {
		return fmt.Sprintln("   ", err)
	}
	defer rows.Close()
	var b strings.Builder
	columns, _ := rows.Columns()
	for rows.Next() {
		values, err := rows.SliceScan()
		if err != nil {
			return fmt.Sprintln("   ", err)
		}
		b.WriteString("    row:")
		for i, v := range values {
			if text, ok := v.([]byte); ok {
				v = string(text)
			}
			if v != nil {
				fmt.Fprintf(&b, " %s=%v", columns[i], v)
			}
		}
		b.WriteString("\n")
	}
	if err := rows.Err(); err != nil {
		return fmt.Sprintln("   ", err)
	}
	return b.String()
}
