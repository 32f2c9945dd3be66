package schema_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

func settings(t *testing.T, db *sql.DB) []string {
	t.Helper()
	warnings, err := schema.Settings(t.Context(), sqlx.NewDb(db, "mysql"))
	require.NoError(t, err)
	var all []string
	for _, w := range warnings {
		all = append(all, fmt.Sprintf("%s = %s, want %s", w.Setting, w.Value, w.Want))
		assert.NotEmpty(t, w.Why)
	}
	return all
}

func TestSettingsWithWhichAPromiseDoesNotHoldAreNamed(t *testing.T) {
	server := testdb.Server(t, "--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1")
	db := open(t, server.DSN(""))
	assert.Empty(t, settings(t, db))
	for _, c := range []struct{ change, back, want string }{
		{`SET GLOBAL innodb_flush_log_at_trx_commit = 0`, `SET GLOBAL innodb_flush_log_at_trx_commit = 1`, "innodb_flush_log_at_trx_commit = 0, want 1"},
		{`SET GLOBAL innodb_flush_log_at_trx_commit = 2`, `SET GLOBAL innodb_flush_log_at_trx_commit = 1`, "innodb_flush_log_at_trx_commit = 2, want 1"},
		{`SET GLOBAL read_only = ON`, `SET GLOBAL read_only = OFF`, "read_only = ON, want OFF"},
	} {
		exec(t, db, c.change)
		assert.Equal(t, []string{c.want}, settings(t, db), c.change)
		exec(t, db, c.back)
	}
	one := open(t, server.DSN(""))
	one.SetMaxOpenConns(1)
	exec(t, one, `SET SESSION unique_checks = 0`)
	assert.Equal(t, []string{"unique_checks = OFF, want ON"}, settings(t, one))

	logged := testdb.Server(t, "--log-bin=log", "--server-id=1", "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=1")
	assert.Equal(t, []string{"sync_binlog = 0, want 1"}, settings(t, open(t, logged.DSN(""))))
}
