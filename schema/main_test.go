package schema_test

import (
	"database/sql"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// up brings a database to the latest version.
func up(t *testing.T, db *sql.DB, prefix schema.Prefix) []schema.Migration {
	t.Helper()
	done, err := schema.Up(t.Context(), db, prefix)
	require.NoError(t, err)
	return done
}

func exec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err, query)
}

// rows reads a result as text, one line per row, NULL shown as such and everything else in quotes.
func rows(t *testing.T, db *sql.DB, query string, args ...any) []string {
	t.Helper()
	r, err := db.QueryContext(t.Context(), query, args...)
	require.NoError(t, err, query)
	defer func() { require.NoError(t, r.Close()) }()
	columns, err := r.Columns()
	require.NoError(t, err)
	values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	var all []string
	for r.Next() {
		require.NoError(t, r.Scan(into...))
		var fields []string
		for _, v := range values {
			if v.Valid {
				fields = append(fields, "'"+v.String+"'")
			} else {
				fields = append(fields, "NULL")
			}
		}
		all = append(all, strings.Join(fields, " "))
	}
	require.NoError(t, r.Err())
	return all
}

func one(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	all := rows(t, db, query, args...)
	require.Len(t, all, 1, query)
	return all[0]
}

// layout is every column, key, constraint and view of a database, to compare two of them.
func layout(t *testing.T, db *sql.DB) []string {
	t.Helper()
	return slices.Concat(
		rows(t, db, `SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA FROM information_schema.COLUMNS
			WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1, ORDINAL_POSITION`),
		rows(t, db, `SELECT TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME FROM information_schema.STATISTICS
			WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1, 2, 3`),
		// MySQL writes literals with the character set of the connection that made the constraint.
		rows(t, db, `SELECT CONSTRAINT_NAME, REPLACE(CHECK_CLAUSE, '_utf8mb4', '_binary') FROM information_schema.CHECK_CONSTRAINTS
			WHERE CONSTRAINT_SCHEMA = DATABASE() ORDER BY 1`),
		rows(t, db, `SELECT TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1`),
	)
}

func number(err error) uint16 {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return 0
	}
	return e.Number
}

// filled is a database with one row in each table.
func filled(t *testing.T) *sql.DB {
	t.Helper()
	db := testdb.New(t)
	up(t, db, schema.DefaultPrefix)
	for _, row := range []string{
		insertAppV13 + `('a', 'Y', 0, 0, 0)`, insertNodeV13 + `('a', 'n', 'h', 'Y', 0)`,
		`INSERT INTO QRTZ_HEARTBEAT (INSTANCE, APPLICATION, HOST_IP) VALUES (1, 'a', 'n')`,
		`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS) VALUES (1, 'a', 'c')`,
		`INSERT INTO QRTZ_EXECUTE (ID, PID, JOB_TYPE, STATE) VALUES (1, 1, 'CRON', 'INIT')`,
		`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID) VALUES (1, 'a', 1)`,
	} {
		exec(t, db, row)
	}
	return db
}

const (
	aTime   = "1700000000000"
	seconds = "1700000000"
)

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// conn is one connection on which prepare has been run.
func conn(t *testing.T, db *sql.DB, prepare string) *sql.Conn {
	t.Helper()
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.ExecContext(t.Context(), prepare)
	require.NoError(t, err)
	return c
}

// split cuts a migration into its statements.
func split(text string) []string {
	return slices.DeleteFunc(strings.SplitAfter(text, ";\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
}

const (
	insertAppV13     = `INSERT INTO QRTZ_APP (APPLICATION, STATE, TIME_PRE, TIME_NEXT, TIME_INTERVAL) VALUES `
	insertNodeV13    = `INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK) VALUES `
	insertJobV13     = `INSERT INTO QRTZ_JOB (ID, APPLICATION, STATE, JOB_CLASS, JOB_DATA, JOB_DESCRIPTION, UPDATE_TIME) VALUES `
	insertExecuteV13 = `INSERT INTO QRTZ_EXECUTE (ID, PID, JOB_TYPE, STATE, CRON, ZONE_ID, REPEAT_COUNT, REPEAT_INTERVAL, TIME_TRIGGERED,
		PREV_FIRE_TIME, NEXT_FIRE_TIME, HOST_IP, HOST_NAME, START_TIME, END_TIME) VALUES `
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
