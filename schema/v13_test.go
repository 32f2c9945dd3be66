package schema_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

// createV13 makes the tables as version 1.3 made them. They are written out here, and not taken from the
// first migration, because they are what is found in the field.
func createV13(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, table := range []string{
		`CREATE TABLE QRTZ_APP (APPLICATION VARCHAR(50) NOT NULL, STATE VARCHAR(10) NOT NULL, TIME_PRE BIGINT DEFAULT -1,
		 TIME_NEXT BIGINT NOT NULL, TIME_INTERVAL BIGINT, PRIMARY KEY (APPLICATION))`,
		`CREATE TABLE QRTZ_NODE (APPLICATION VARCHAR(50) NOT NULL, HOST_IP VARCHAR(50) NOT NULL, HOST_NAME VARCHAR(80) NOT NULL,
		 STATE CHAR(1) NOT NULL, TIME_CHECK BIGINT NOT NULL, PRIMARY KEY (APPLICATION, HOST_IP))`,
		`CREATE TABLE QRTZ_JOB (ID BIGINT NOT NULL, APPLICATION VARCHAR(50) NOT NULL, STATE VARCHAR(10) NOT NULL,
		 JOB_CLASS VARCHAR(127) NOT NULL, JOB_DATA VARCHAR(255), JOB_DESCRIPTION VARCHAR(100), UPDATE_TIME BIGINT NOT NULL,
		 PRIMARY KEY (ID))`,
		`CREATE TABLE QRTZ_EXECUTE (ID BIGINT NOT NULL, PID BIGINT NOT NULL, JOB_TYPE VARCHAR(8) NOT NULL, STATE VARCHAR(10) NOT NULL,
		 CRON VARCHAR(50), ZONE_ID VARCHAR(50), REPEAT_COUNT INT, REPEAT_INTERVAL INT, TIME_TRIGGERED BIGINT DEFAULT -1,
		 PREV_FIRE_TIME BIGINT DEFAULT -1, NEXT_FIRE_TIME BIGINT NULL, HOST_IP VARCHAR(50) NOT NULL, HOST_NAME VARCHAR(80) NOT NULL,
		 START_TIME BIGINT NOT NULL, END_TIME BIGINT DEFAULT -1, PRIMARY KEY (ID), KEY QRTZ_EXECUTE_PID_IDX (PID))`,
	} {
		exec(t, db, table+` ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`)
	}
}

const (
	insertAppV13     = `INSERT INTO QRTZ_APP (APPLICATION, STATE, TIME_PRE, TIME_NEXT, TIME_INTERVAL) VALUES `
	insertNodeV13    = `INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK) VALUES `
	insertJobV13     = `INSERT INTO QRTZ_JOB (ID, APPLICATION, STATE, JOB_CLASS, JOB_DATA, JOB_DESCRIPTION, UPDATE_TIME) VALUES `
	insertExecuteV13 = `INSERT INTO QRTZ_EXECUTE (ID, PID, JOB_TYPE, STATE, CRON, ZONE_ID, REPEAT_COUNT, REPEAT_INTERVAL, TIME_TRIGGERED,
		PREV_FIRE_TIME, NEXT_FIRE_TIME, HOST_IP, HOST_NAME, START_TIME, END_TIME) VALUES `
)

// fillV13 adds the rows that an upgrade could get wrong.
func fillV13(t *testing.T, db *sql.DB) {
	t.Helper()
	longest := strings.Repeat("ü", 255)
	for _, statement := range []string{
		insertAppV13 + `('a', 'Y', -1, 0, 15000), ('b', 'n ', NULL, 1700000000000, NULL)`,
		insertNodeV13 + `('a', '10.0.0.1', 'h1', 'y', 1700000000000), ('a', '10.0.0.2', 'h2', 'N', 0)`,
		insertJobV13 + `(0, 'a', 'executing', 'c.Zero', '` + longest + `', NULL, 1), (1, 'b', 'PAUSED', 'c.One', NULL, ' d ', 2),
			(9000000000000000000, 'a', ' Error', 'c.Big', '', '', 3)`,
		insertExecuteV13 + `(0, 0, 'cron', 'EXECUTING ', '0 0/5 * * * ?', 'Asia/Shanghai', NULL, NULL, -1, -1, 1700000000000, 'h', 'n', 5, -1),
			(1, 1, 'SIMPLE', 'init', NULL, NULL, -1, 2147483647, NULL, NULL, NULL, '', '', 0, NULL),
			(3, 9000000000000000000, 'SIMPLE', 'COMPLETE', NULL, NULL, 3, 1000, 3, 1, 2, '', '', 0, 7),
			(4, 77, 'CRON', 'PAUSED', 'bad', '', 0, 0, 0, 0, 0, '', '', -5, 0)`,
	} {
		exec(t, db, statement)
	}
}

// contentV13 is what a program of version 1.3 sees, states normalised when asked for.
func contentV13(t *testing.T, db *sql.DB, normalised bool) []string {
	t.Helper()
	var all []string
	for _, query := range []string{
		`SELECT APPLICATION, STATE, TIME_PRE, TIME_NEXT, TIME_INTERVAL FROM QRTZ_APP ORDER BY 1`,
		`SELECT APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK FROM QRTZ_NODE ORDER BY 1, 2`,
		`SELECT ID, APPLICATION, STATE, JOB_CLASS, JOB_DATA, JOB_DESCRIPTION, UPDATE_TIME FROM QRTZ_JOB ORDER BY 1`,
		`SELECT ID, PID, JOB_TYPE, STATE, CRON, ZONE_ID, REPEAT_COUNT, REPEAT_INTERVAL, TIME_TRIGGERED, PREV_FIRE_TIME, NEXT_FIRE_TIME,
			HOST_IP, HOST_NAME, START_TIME, END_TIME FROM QRTZ_EXECUTE ORDER BY 1`,
	} {
		if normalised {
			query = strings.Replace(query, " STATE,", " UPPER(TRIM(STATE)),", 1)
			query = strings.Replace(query, " JOB_TYPE,", " UPPER(TRIM(JOB_TYPE)),", 1)
		}
		all = append(all, rows(t, db, query)...)
	}
	return all
}

// checkFilledV13 compares an upgraded installation with a fresh one of version 1.3.
func checkFilledV13(t *testing.T, db *sql.DB) {
	t.Helper()
	old := testdb.New(t)
	createV13(t, old)
	fillV13(t, old)
	for _, mended := range []string{
		`START_TIME = 0 WHERE ID IN (0, 4)`, // of a cron schedule, long past; and below -1
		`END_TIME = 100000000000, PREV_FIRE_TIME = -1, NEXT_FIRE_TIME = NULL WHERE ID = 3`,
	} {
		exec(t, old, `UPDATE QRTZ_EXECUTE SET `+mended)
	}
	assert.Equal(t, contentV13(t, old, true), contentV13(t, db, false))
	assert.Equal(t, []string{"'0' 'a'", "'1' 'b'", "'3' 'a'", "'4' NULL"}, rows(t, db, `SELECT ID, APPLICATION FROM QRTZ_EXECUTE ORDER BY 1`),
		"executes know their app; one without a job has none")
}

func TestUpgradeKeepsEveryRowAndValue(t *testing.T) {
	db := testdb.New(t)
	createV13(t, db)
	fillV13(t, db)
	up(t, db, schema.DefaultPrefix)
	checkFilledV13(t, db)

	fresh := testdb.New(t)
	up(t, fresh, schema.DefaultPrefix)
	assert.Equal(t, layout(t, fresh), layout(t, db))
	for _, view := range []string{"APP", "NODE", "JOB", "EXECUTE", "RUN"} {
		rows(t, db, `SELECT * FROM QRTZ_V_`+view)
	}
}

func TestVersion13InsertsBesideOurs(t *testing.T) {
	db := testdb.New(t)
	up(t, db, schema.DefaultPrefix)
	exec(t, db, insertAppV13+`('x', 'Y', -1, 0, 15000)`)
	exec(t, db, insertNodeV13+`('x', '10.0.0.1', 'h', 'Y', 1)`)
	exec(t, db, insertJobV13+`(7, 'x', 'INIT', 'c', NULL, NULL, 1)`)
	exec(t, db, insertExecuteV13+`(8, 7, 'SIMPLE', 'INIT', NULL, NULL, -1, 1000, -1, -1, NULL, '', '', 0, -1)`)
	assert.Equal(t, "'8' '7' 'FIRE_ONCE'", one(t, db, `SELECT ID, PID, MISFIRE FROM QRTZ_EXECUTE`))

	exec(t, db, `INSERT INTO QRTZ_JOB (APPLICATION, JOB_CLASS) VALUES ('x', 'ours')`)
	assert.Equal(t, "'1' 'INIT'", one(t, db, `SELECT ID > 7, STATE FROM QRTZ_JOB WHERE JOB_CLASS = 'ours'`), "our ids go on after theirs")
}

func TestUpRefusesUnknownStatesAndChangesNothing(t *testing.T) {
	const job, execute = `(5, 'a', '%s', 'c', NULL, NULL, 1)`, `(6, 0, '%s', '%s', NULL, NULL, 0, 0, 0, 0, 0, '', '', 0, 0)`
	for _, c := range []struct{ name, statement, table, key, value string }{
		{"app", insertAppV13 + `('odd', 'X', 0, 0, 0)`, "QRTZ_APP", "odd", "X"},
		{"accent", insertAppV13 + `('odd', 'Ý', 0, 0, 0)`, "QRTZ_APP", "odd", "Ý"},
		{"empty", insertAppV13 + `('odd', '', 0, 0, 0)`, "QRTZ_APP", "odd", ""},
		{"node", insertNodeV13 + `('a', 'odd', 'h', 'Q', 0)`, "QRTZ_NODE", "odd", "Q"},
		{"job", insertJobV13 + fmt.Sprintf(job, "RUNNING"), "QRTZ_JOB", "5", "RUNNING"},
		{"execute", insertExecuteV13 + fmt.Sprintf(execute, "CRON", "Y"), "QRTZ_EXECUTE", "6", "Y"},
		{"type", insertExecuteV13 + fmt.Sprintf(execute, "DAILY", "INIT"), "QRTZ_EXECUTE", "6", "DAILY"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := testdb.New(t)
			createV13(t, db)
			fillV13(t, db)
			exec(t, db, c.statement)
			before, tables := contentV13(t, db, false), v13Layout(t, db)
			_, err := schema.Up(t.Context(), db, schema.DefaultPrefix)
			require.Error(t, err)
			for _, part := range []string{c.table, c.key, `"` + c.value + `"`} {
				assert.Contains(t, err.Error(), part)
			}
			assert.Equal(t, before, contentV13(t, db, false))
			assert.Equal(t, tables, v13Layout(t, db))
			assert.Error(t, schema.Check(t.Context(), db, schema.DefaultPrefix))
		})
	}
}

// v13Layout is the layout without what the record of migrations adds.
func v13Layout(t *testing.T, db *sql.DB) []string {
	t.Helper()
	var all []string
	for _, line := range layout(t, db) {
		if !strings.HasPrefix(line, "'QRTZ_SCHEMA'") {
			all = append(all, line)
		}
	}
	return all
}
