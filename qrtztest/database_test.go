package qrtztest_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/qrtztest"
	"github.com/qrtz-go/qrtz/schema"
)

// tables is how a database says its tables were made.
func tables(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT CONCAT(TABLE_NAME, '.', COLUMN_NAME),
		CONCAT_WS(' ', ORDINAL_POSITION, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, COLLATION_NAME, COLUMN_KEY)
		FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() UNION ALL
		SELECT CONCAT(TABLE_NAME, '.', INDEX_NAME, ' ', SEQ_IN_INDEX), CONCAT(COLUMN_NAME, NON_UNIQUE) FROM information_schema.STATISTICS
		WHERE TABLE_SCHEMA = DATABASE() UNION ALL
		SELECT CONSTRAINT_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = DATABASE()`)
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	all := map[string]string{}
	for rows.Next() {
		var name, what string
		require.NoError(t, rows.Scan(&name, &what))
		all[name] = strings.ReplaceAll(what, "-(1)", "-1") // as MySQL says it once a table was made by what it says
	}
	require.NoError(t, rows.Err())
	return all
}

func TestADatabaseFromTheTemplateIsLikeAMigratedOne(t *testing.T) {
	migrated := testdb.New(t)
	_, err := schema.Up(t.Context(), migrated, schema.DefaultPrefix)
	require.NoError(t, err)
	want := tables(t, migrated)
	require.NotEmpty(t, want)
	for range 2 { // the first may have been the template
		db := qrtztest.Database(t)
		require.Equal(t, want, tables(t, db))
		require.NoError(t, schema.Check(t.Context(), db, schema.DefaultPrefix))
	}
}

func TestADatabaseIsDroppedWithItsTest(t *testing.T) {
	var name string
	t.Run("inner", func(t *testing.T) {
		require.NoError(t, qrtztest.Database(t).QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name))
	})
	var left int
	require.NoError(t, qrtztest.Database(t).QueryRowContext(t.Context(),
		"SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?", name).Scan(&left))
	require.NotEmpty(t, name)
	require.Zero(t, left)
}

func TestParamsOfTheDSN(t *testing.T) {
	db := qrtztest.Database(t, "parseTime=true", "loc=Europe%2FBerlin")
	var at time.Time
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT CAST('2030-01-01 01:00:00' AS DATETIME)`).Scan(&at))
	require.Equal(t, "2030-01-01 01:00:00 CET", at.Format("2006-01-02 15:04:05 MST"))
	require.Contains(t, qrtztest.DSN(t, "parseTime=true"), "parseTime=true")
}

// A pool of Database tells the real time until a kit takes it; then the program's own statements tell the kit's, too.
func TestTheProgramSharesTheKitsTime(t *testing.T) {
	db := qrtztest.Database(t)
	now := func() (unix int64) {
		t.Helper()
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT UNIX_TIMESTAMP()`).Scan(&unix))
		return unix
	}
	require.WithinDuration(t, time.Now(), time.Unix(now(), 0), time.Minute)
	kit := qrtztest.New(t, db, qrtz.Config{App: "test"}, nil)
	require.Same(t, db, kit.DB)
	kit.Advance(time.Hour)
	require.Equal(t, at(1, 0, 0).Unix(), now())
}

// A scheduler that runs, in real time, can use such a pool as any other.
func TestASchedulerRunsOnSuchAPool(t *testing.T) {
	s, err := qrtz.Open(qrtztest.Database(t), qrtz.Config{App: "test"})
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	qrtz.Handle(s, "tick", func(context.Context, *qrtz.Run, struct{}) error {
		stop()
		return nil
	})
	require.NoError(t, s.Declare(t.Context(), job("tick", "tick", qrtz.Every(time.Second))))
	require.NoError(t, s.Run(ctx))
	require.ErrorIs(t, ctx.Err(), context.Canceled)
}
