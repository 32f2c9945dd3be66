package galera_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/galera"
)

// start skips the test where no cluster can run.
func start(t *testing.T, opts galera.Options) *galera.Cluster {
	t.Helper()
	began := time.Now()
	c, err := galera.Start(t.Context(), opts)
	if errors.Is(err, galera.ErrUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Logf("%d nodes started in %v", c.Nodes(), time.Since(began))
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
	return c
}

func open(t *testing.T, c *galera.Cluster, node int) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", c.DSN(node, ""))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		_, err := db.ExecContext(t.Context(), s)
		require.NoError(t, err, s)
	}
}

// count reads what is committed everywhere: it waits for what the other nodes have written.
func count(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = conn.ExecContext(t.Context(), "SET wsrep_sync_wait = 1")
	require.NoError(t, err)
	require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM D.T").Scan(&n))
	return n
}

func TestAClusterLosesANodeAndAllOfThem(t *testing.T) {
	c := start(t, galera.Options{Nodes: 2})
	a, b := open(t, c, 0), open(t, c, 1)
	exec(t, a, "CREATE DATABASE D", "CREATE TABLE D.T (ID INT PRIMARY KEY)", "INSERT INTO D.T VALUES (1)")
	require.Equal(t, 1, count(t, b), "what one node commits is on the other")

	for i := range c.Nodes() {
		c.Kill(i)
		require.Zero(t, c.PID(i))
	}
	began := time.Now()
	require.NoError(t, c.Recover(t.Context()))
	t.Logf("recovered in %v", time.Since(began))
	require.Equal(t, 1, count(t, b), "a committed row outlives all servers")
	exec(t, b, "INSERT INTO D.T VALUES (2)")
	require.Equal(t, 2, count(t, a))
}
