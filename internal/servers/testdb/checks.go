package testdb

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
)

// DropChecks takes all CHECK constraints off the tables of a database, as where a server is too old for them, or was told not to
// check: what the server would refuse is then for the code to bear.
func DropChecks(tb testing.TB, db *sql.DB) {
	tb.Helper()
	rows, err := db.QueryContext(tb.Context(), `SELECT TABLE_NAME, CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS
		WHERE CONSTRAINT_SCHEMA = DATABASE() AND CONSTRAINT_TYPE = 'CHECK'`)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, rows.Close()) }()
	drops := map[string]string{} // by table: an ALTER copies it
	for rows.Next() {
		var table, name string
		require.NoError(tb, rows.Scan(&table, &name))
		if drops[table] != "" {
			drops[table] += ", "
		}
		drops[table] += "DROP CONSTRAINT `" + name + "`"
	}
	require.NoError(tb, rows.Err())
	require.NotEmpty(tb, drops)
	for table, drop := range drops {
		_, err := db.ExecContext(tb.Context(), "ALTER TABLE `"+table+"` "+drop)
		require.NoError(tb, err)
	}
}
