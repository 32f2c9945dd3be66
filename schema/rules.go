package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// rule is what a migration asks of rows that are there already, and cannot mend: only a person knows what was meant.
type rule struct {
	migration   int
	table       string
	key, column string
	refused     string // a condition that is true for the rows
	want        string // what would be right
}

const (
	jobStates  = `'INIT', 'EXECUTING', 'PAUSED', 'COMPLETE', 'ERROR'`
	aTime      = "milliseconds since 1970, of a year from 1974 to 9999, or 0 for none"
	aFireTime  = "milliseconds since 1970, of a year from 1974 to 9999"
	refusedIDs = 10 // rows that are named, of each rule
)

// States are compared as bytes, as the CHECK constraints do: to a collation, 'Ý' is a 'Y'. What is only in lower case, or
// has blanks around it, is mended.
func unknown(column, allowed string) string {
	return fmt.Sprintf(`CAST(UPPER(TRIM(%s)) AS BINARY) NOT IN (%s)`, column, allowed)
}

func tooLate(column string) string { return column + ` > 253402300799999` }

func noTime(column string) string {
	return fmt.Sprintf(`%[1]s < -1 OR %[1]s BETWEEN 1 AND 99999999999 OR %[1]s > 253402300799999`, column)
}

// rules may only name tables and columns that were there before their migration. Where these are missing, earlier
// migrations have yet to add them, with values that break no rule.
var rules = []rule{
	{2, "QRTZ_APP", "APPLICATION", "STATE", unknown("STATE", `'Y', 'N'`), `'Y' or 'N'`},
	{2, "QRTZ_NODE", "HOST_IP", "STATE", unknown("STATE", `'Y', 'N'`), `'Y' or 'N'`},
	{2, "QRTZ_JOB", "ID", "STATE", unknown("STATE", jobStates), "one of " + jobStates},
	{2, "QRTZ_EXECUTE", "ID", "STATE", unknown("STATE", jobStates), "one of " + jobStates},
	{2, "QRTZ_EXECUTE", "ID", "JOB_TYPE", unknown("JOB_TYPE", `'CRON', 'SIMPLE'`), `'CRON' or 'SIMPLE'`},

	// A fixed rate counts from its start. One that has fired keeps its fires, wherever in the past it started.
	{
		7, "QRTZ_EXECUTE", "ID", "START_TIME",
		`UPPER(TRIM(JOB_TYPE)) = 'SIMPLE' AND START_TIME BETWEEN 1 AND 99999999999 AND NOT (COALESCE(REPEAT_INTERVAL, 0) BETWEEN 1 AND 3153600000000
		   AND (COALESCE(PREV_FIRE_TIME, -1) >= 100000000000 OR COALESCE(NEXT_FIRE_TIME, -1) >= 100000000000))`,
		aTime,
	},
	{7, "QRTZ_EXECUTE", "ID", "START_TIME", tooLate("START_TIME"), aTime},
	{7, "QRTZ_EXECUTE", "ID", "PREV_FIRE_TIME", tooLate("PREV_FIRE_TIME"), aTime},
	{7, "QRTZ_EXECUTE", "ID", "NEXT_FIRE_TIME", tooLate("NEXT_FIRE_TIME"), aFireTime + ", or NULL to have it computed"},
	{7, "QRTZ_EXECUTE", "ID", "PAUSED_AT", tooLate("PAUSED_AT"), aTime},
	{7, "QRTZ_EXECUTE", "ID", "REPEAT_INTERVAL", `UPPER(TRIM(JOB_TYPE)) = 'SIMPLE' AND REPEAT_INTERVAL > 3153600000000`, "milliseconds, at most 100 years"},
	{7, "QRTZ_EXECUTE", "ID", "TIME_TRIGGERED", `TIME_TRIGGERED > 9000000000000000000`, "how often it has fired"},
	{7, "QRTZ_EXECUTE", "ID", "FENCE", `FENCE > 9000000000000000000`, "a number that others have not seen a greater one of, far below 9 * 10^18"},
	{7, "QRTZ_RUN", "ID", "FIRE_TIME", noTime("FIRE_TIME"), aFireTime},
	{7, "QRTZ_RUN", "ID", "LAST_FIRE_TIME", noTime("LAST_FIRE_TIME"), aFireTime},
	{7, "QRTZ_RUN", "ID", "AVAILABLE_AT", tooLate("AVAILABLE_AT"), aTime},
	{7, "QRTZ_RUN", "ID", "ATTEMPT", `ATTEMPT > 2000000000`, "1 for the first attempt, and one more for each further one"},
	{7, "QRTZ_RUN", "ID", "FENCE", `FENCE > 9000000000000000000`, "the FENCE of its execute"},
}

// refuse names the rows that the missing migrations cannot be run on, before anything is changed.
func refuse(ctx context.Context, conn *sql.Conn, prefix Prefix, all []Migration) error {
	var problems []error
	for _, r := range rules {
		if all[r.migration-1].Applied {
			continue
		}
		problem, err := r.find(ctx, conn, prefix)
		if err != nil {
			return fmt.Errorf("look for rows that cannot stay as they are: %w", err)
		}
		problems = append(problems, problem)
	}
	return errors.Join(problems...)
}

// find returns what is wrong with the rows that break the rule, if there are any.
func (r rule) find(ctx context.Context, conn *sql.Conn, prefix Prefix) (problem, err error) {
	rows, err := conn.QueryContext(ctx, prefix.SQL(fmt.Sprintf( // all from the rules above
		`SELECT %s, %s FROM %s WHERE %s ORDER BY %s LIMIT %d`, r.key, r.column, r.table, r.refused, r.key, refusedIDs+1)))
	if NoSuchTable(err) || noSuchColumn(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err says what there is to say
	var named []string
	for rows.Next() {
		var key, value string
		if err := rows.Scan(&key, &value); err != nil {
			return nil, err
		}
		named = append(named, fmt.Sprintf("%s (%q)", key, value))
	}
	if err := rows.Err(); err != nil || len(named) == 0 {
		return nil, err
	}
	if len(named) > refusedIDs {
		named[refusedIDs] = "and more"
	}
	return fmt.Errorf("%s.%s is wrong where %s is %s; correct it first: %s",
		prefix.SQL(r.table), r.column, r.key, strings.Join(named, ", "), r.want), nil
}

const erNoSuchColumn = 1054

func noSuchColumn(err error) bool { return isNumber(err, erNoSuchColumn) }
