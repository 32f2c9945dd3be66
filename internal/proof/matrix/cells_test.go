package matrix

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// column is one of a table's.
type column struct {
	table, name, kind string
	nullable          bool
	length            int64 // of a text, in characters
	counter           bool  // AUTO_INCREMENT
}

func (m *matrix) columns(table string) (all []column) {
	rows, err := m.db.Query(`
SELECT C.TABLE_NAME, C.COLUMN_NAME, C.DATA_TYPE, C.IS_NULLABLE = 'YES', COALESCE(C.CHARACTER_MAXIMUM_LENGTH, 0), C.EXTRA LIKE '%auto_increment%'
  FROM information_schema.COLUMNS C WHERE C.TABLE_SCHEMA = DATABASE() AND C.TABLE_NAME = ? AND C.EXTRA NOT LIKE '%GENERATED%' ORDER BY C.ORDINAL_POSITION`, table)
	require.NoError(m, err)
	defer func() { require.NoError(m, rows.Close()) }()
	for rows.Next() {
		var c column
		require.NoError(m, rows.Scan(&c.table, &c.name, &c.kind, &c.nullable, &c.length, &c.counter))
		all = append(all, c)
	}
	require.NoError(m, rows.Err())
	return all
}

// values are what the column should never hold, and what lies at the limits of what it can.
func (c column) values() (all []any) {
	if c.nullable {
		all = append(all, nil)
	}
	switch c.kind {
	case "tinyint", "int", "bigint":
		bits := map[string]int{"tinyint": 8, "int": 32, "bigint": 64}[c.kind]
		highest := int64(math.MaxInt64 >> (64 - bits))
		all = append(all, 0, 1, 2, -1, -highest-1, time.Now().Unix(), int64(253402300799999))
		if !c.counter { // no server lets a CHECK keep it out, and nothing can be inserted behind it: see schema.ExplainNoID
			all = append(all, highest)
		}
	case "timestamp":
		all = append(all, "1970-01-02 00:00:01", "2038-01-18 03:14:07")
	default:
		all = append(all, "", strings.Repeat("x", int(min(c.length, 1<<20))), "\U0001F480", "executing", "y", "nonsense", "billing", `{"a":`, "\x1b[2J")
	}
	return all
}

// cell is one value in one column.
type cell struct {
	column
	value any
}

func (c cell) String() string {
	return fmt.Sprintf("%s.%s = %.30q", c.table, c.name, fmt.Sprint(c.value))
}

func (c column) cells() (all []cell) {
	for _, v := range c.values() {
		all = append(all, cell{c, v})
	}
	return all
}

// poison sets the column to the value in a new row of every kind. What the server refuses does not count.
func (m *matrix) poison(c cell) {
	for _, where := range m.rows(c.table) {
		m.tried++
		if _, err := m.db.Exec(`UPDATE `+c.table+` SET `+c.name+` = ? WHERE `+where, c.value); err != nil {
			m.refused++
		}
	}
}

func (m *matrix) exec(query string, args ...any) int64 {
	done, err := m.db.Exec(query, args...)
	require.NoError(m, err)
	id, err := done.LastInsertId()
	require.NoError(m, err)
	return id
}

// rows adds a row of each kind to a table and says how to find it.
func (m *matrix) rows(table string) (where []string) {
	now := time.Now().UnixMilli()
	byID := func(ids ...int64) {
		for _, id := range ids {
			where = append(where, fmt.Sprintf("ID = %d", id))
		}
	}
	unique := fmt.Sprintf("p%d", time.Now().UnixNano())
	switch table {
	case "QRTZ_APP":
		m.exec(`INSERT INTO QRTZ_APP (APPLICATION, STATE, TIME_PRE, TIME_NEXT, TIME_INTERVAL) VALUES (?, 'Y', ?, ?, 15000)`, unique, now, now)
		where = append(where, "APPLICATION = '"+unique+"'")
	case "QRTZ_NODE":
		m.exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK) VALUES ('test', ?, 'h', 'Y', ?)`, unique, now)
		m.exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE, HEARTBEAT_AT, JOINED_AT, PROCESS_ID, HANDLERS)
			VALUES ('test', ?, 'h', 'Y', ?, ?, ?, ?, 1, '["other"]')`, unique+"live", now, time.Now().UnixNano(), now, now)
		where = append(where, "HOST_IP = '"+unique+"'", "HOST_IP = '"+unique+"live'")
	case "QRTZ_HEARTBEAT":
		instance := time.Now().UnixNano()
		m.exec(`INSERT INTO QRTZ_HEARTBEAT (INSTANCE, APPLICATION, HOST_IP, BEATS, BEAT_AT) VALUES (?, 'test', ?, 5, ?)`, instance, unique, now)
		where = append(where, fmt.Sprintf("INSTANCE = %d", instance))
	case "QRTZ_JOB":
		job := m.job()
		m.simple(job, "EXECUTING", now)
		m.run(job, "PENDING", nil)
		byID(job)
	case "QRTZ_EXECUTE":
		job := m.job()
		cron := m.exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, CRON, ZONE_ID) VALUES (?, 'test', 'CRON', 'EXECUTING', '0/10 * * * * ?', 'UTC')`, job)
		byID(m.simple(job, "EXECUTING", now), m.simple(job, "EXECUTING", now-60_000), m.simple(job, "PAUSED", now-60_000), cron)
	case "QRTZ_RUN":
		job := m.job()
		byID(m.run(job, "PENDING", nil), m.run(job, "RUNNING", m.instance), m.run(job, "RUNNING", 4711), m.run(job, "SUCCEEDED", 4711))
	case "QRTZ_SCHEMA":
		version := 1000 + time.Now().UnixNano()%1_000_000_000
		m.exec(`INSERT INTO QRTZ_SCHEMA (VERSION, NAME) VALUES (?, 'later')`, version)
		where = append(where, fmt.Sprintf("VERSION = %d", version))
	}
	return where
}

func (m *matrix) job() int64 {
	return m.exec(`INSERT INTO QRTZ_JOB (APPLICATION, STATE, JOB_CLASS, JOB_DATA) VALUES ('test', 'EXECUTING', 'other', '{}')`)
}

// simple is a schedule with a fixed rate: slow, since there will be hundreds.
func (m *matrix) simple(job int64, state string, next int64) int64 {
	return m.exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, NEXT_FIRE_TIME)
		VALUES (?, 'test', 'SIMPLE', ?, -1, 20000, ?, ?)`, job, state, next-20_000, next)
}

func (m *matrix) run(job int64, state string, instance any) int64 {
	return m.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE, HOST_IP, INSTANCE, FINISHED_AT) VALUES ('test', ?, ?, ?, 'p', ?, ?)`,
		job, time.Now().UnixMilli(), state, instance, map[string]any{"SUCCEEDED": time.Now().UnixMilli()}[state])
}
