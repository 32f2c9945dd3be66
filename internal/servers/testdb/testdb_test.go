package testdb_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

func TestEveryTestHasADatabaseOfItsOwn(t *testing.T) {
	a, b := testdb.New(t), testdb.New(t)
	_, err := a.ExecContext(t.Context(), "CREATE TABLE T (ID INT PRIMARY KEY)")
	require.NoError(t, err)
	_, err = b.ExecContext(t.Context(), "CREATE TABLE T (ID INT PRIMARY KEY)")
	require.NoError(t, err, "the second database is empty")
}

func TestADatabaseIsDroppedWithItsTest(t *testing.T) {
	var name string
	t.Run("inner", func(t *testing.T) {
		require.NoError(t, testdb.New(t).QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name))
	})
	var left int
	require.NoError(t, testdb.New(t).QueryRowContext(t.Context(),
		"SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?", name).Scan(&left))
	assert.NotEmpty(t, name)
	assert.Zero(t, left)
}

func TestAServerOfItsOwnCanBeKilled(t *testing.T) {
	s, shared := testdb.Server(t), testdb.New(t)
	s.Kill()
	assert.NoError(t, shared.PingContext(t.Context()), "other tests' server runs on")
}
