package schema_test

import (
	"database/sql"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/testdb"
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
