package schema_test

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

func TestUpOnAnEmptyDatabase(t *testing.T) {
	db := testdb.New(t)
	done := up(t, db, schema.DefaultPrefix)
	assert.Len(t, done, schema.Latest())
	require.NoError(t, schema.Check(t.Context(), db, schema.DefaultPrefix))
	names := rows(t, db, `SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1`)
	assert.Equal(t, []string{
		"'QRTZ_APP'", "'QRTZ_EXECUTE'", "'QRTZ_HEARTBEAT'", "'QRTZ_JOB'", "'QRTZ_NODE'", "'QRTZ_RUN'", "'QRTZ_SCHEMA'",
		"'QRTZ_V_APP'", "'QRTZ_V_EXECUTE'", "'QRTZ_V_JOB'", "'QRTZ_V_NODE'", "'QRTZ_V_RUN'",
	}, names)
	assert.Empty(t, rows(t, db, `SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND ENGINE <> 'InnoDB'`))
}

func TestUpTwiceDoesNothingTheSecondTime(t *testing.T) {
	db := testdb.New(t)
	up(t, db, schema.DefaultPrefix)
	before := layout(t, db)
	assert.Empty(t, up(t, db, schema.DefaultPrefix))
	assert.Equal(t, before, layout(t, db))
}

// Nodes of a new release start at the same moment, and all of them migrate.
func TestSeveralUpsAtOnce(t *testing.T) {
	expected := testdb.New(t)
	up(t, expected, schema.DefaultPrefix)
	for _, start := range []struct {
		name    string
		prepare func(*testing.T, *sql.DB)
	}{
		{"empty database", func(*testing.T, *sql.DB) {}},
		{"version 1.3", func(t *testing.T, db *sql.DB) {
			t.Helper()
			createV13(t, db)
			fillV13(t, db)
		}},
	} {
		t.Run(start.name, func(t *testing.T) {
			dsn := testdb.DSN(t)
			db := open(t, dsn)
			start.prepare(t, db)
			begin := make(chan struct{})
			var wg sync.WaitGroup
			for i := range 8 {
				own := open(t, dsn)
				wg.Go(func() {
					<-begin
					_, err := schema.Up(t.Context(), own, schema.DefaultPrefix)
					assert.NoError(t, err, "node %d", i)
					assert.NoError(t, schema.Check(t.Context(), own, schema.DefaultPrefix), "node %d", i)
				})
			}
			close(begin)
			wg.Wait()
			assert.Equal(t, layout(t, expected), layout(t, db))
		})
	}
}

// A migration that was killed after any of its statements is completed by the next Up.
func TestUpGoesOnWhereAnotherWasKilled(t *testing.T) {
	expected := testdb.New(t)
	up(t, expected, schema.DefaultPrefix)
	all, err := schema.Status(t.Context(), expected, schema.DefaultPrefix)
	require.NoError(t, err)
	var script []string
	for _, m := range all {
		script = append(script, split(m.SQL)...)
	}
	for killedAfter := 1; killedAfter < len(script); killedAfter += 3 {
		t.Run(fmt.Sprint(killedAfter), func(t *testing.T) {
			db := testdb.New(t)
			createV13(t, db)
			fillV13(t, db)
			first := conn(t, db, `SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',NO_AUTO_VALUE_ON_ZERO')`)
			for _, statement := range script[:killedAfter] {
				_, err := first.ExecContext(t.Context(), statement)
				require.NoError(t, err, statement)
			}
			up(t, db, schema.DefaultPrefix)
			assert.Equal(t, layout(t, expected), layout(t, db))
			checkFilledV13(t, db)
		})
	}
}

func TestUpRestoresTheSessionsMode(t *testing.T) {
	for _, mode := range []string{"", "STRICT_TRANS_TABLES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"} {
		t.Run(mode, func(t *testing.T) {
			db := testdb.New(t)
			db.SetMaxOpenConns(1) // the connection that Up used is the one the test gets
			exec(t, db, `SET SESSION sql_mode = ?`, mode)
			up(t, db, schema.DefaultPrefix)
			assert.Equal(t, "'"+mode+"'", one(t, db, `SELECT @@SESSION.sql_mode`))
		})
	}
}

func TestPrintIsAScript(t *testing.T) {
	for _, prefix := range []schema.Prefix{schema.DefaultPrefix, "my_"} {
		t.Run(string(prefix), func(t *testing.T) {
			expected := testdb.New(t)
			up(t, expected, prefix)
			script, err := schema.Print(prefix)
			require.NoError(t, err)
			cfg, err := mysql.ParseDSN(testdb.DSN(t))
			require.NoError(t, err)
			cfg.MultiStatements = true
			db := open(t, cfg.FormatDSN())
			exec(t, db, script)
			assert.Equal(t, layout(t, expected), layout(t, db))
			require.NoError(t, schema.Check(t.Context(), db, prefix))
			assert.Empty(t, up(t, db, prefix))
		})
	}
}

// People pipe the script into the mysql client: it must keep what Up keeps.
func TestPrintUpgradesVersion13(t *testing.T) {
	script, err := schema.Print(schema.DefaultPrefix)
	require.NoError(t, err)
	dsn := testdb.DSN(t)
	old := open(t, dsn)
	createV13(t, old)
	fillV13(t, old)
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	cfg.MultiStatements = true
	db := open(t, cfg.FormatDSN())
	db.SetMaxOpenConns(1)
	mode := one(t, db, `SELECT @@SESSION.sql_mode`)
	exec(t, db, script)
	checkFilledV13(t, db)
	assert.Equal(t, mode, one(t, db, `SELECT @@SESSION.sql_mode`))
}

func TestCheckSaysWhatToDo(t *testing.T) {
	db := testdb.New(t)
	err := schema.Check(t.Context(), db, "my_")
	require.Error(t, err)
	assert.Contains(t, err.Error(), "my_")
	assert.Contains(t, err.Error(), "qrtz migrate up")

	up(t, db, "my_")
	require.NoError(t, schema.Check(t.Context(), db, "my_"))
	exec(t, db, `DELETE FROM my_SCHEMA WHERE VERSION = ?`, schema.Latest())
	err = schema.Check(t.Context(), db, "my_")
	require.Error(t, err)
	assert.Contains(t, err.Error(), fmt.Sprintf("migration %d", schema.Latest()))

	up(t, db, "my_")
	exec(t, db, `INSERT INTO my_SCHEMA (VERSION, NAME) VALUES (?, 'later')`, schema.Latest()+1)
	assert.NoError(t, schema.Check(t.Context(), db, "my_"), "a newer schema is fine")
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
	assert.Equal(t, "'1' 'INIT'", one(t, db, `SELECT ID > 7, STATE FROM QRTZ_JOB WHERE JOB_CLASS = 'ours'`), "our ids continue after theirs")
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
