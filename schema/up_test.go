package schema_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/testdb"
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
