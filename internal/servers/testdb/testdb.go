// Package testdb gives tests databases of their own on a real server: the one of
// QRTZ_TEST_DSN when that is set (make test does, so that one server serves all
// packages), else a private throwaway server per test binary. Import it from tests only.
//
//	func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }
package testdb

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
	"github.com/qrtz-go/qrtz/internal/servers/throwaway"
)

// Env names the environment variable with the DSN of the server to test on. Its
// user must be allowed to create and drop databases called qrtz_test_….
const Env = throwaway.Env

// stopLimit bounds what clean-up may take.
const stopLimit = 30 * time.Second

// Main runs the tests and stops the private server if one of them needed it. It
// returns the exit code for os.Exit, 1 if the server could not be stopped.
func Main(m *testing.M) int {
	code := m.Run()
	if err := throwaway.Stop(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "testdb:", err)
		return max(code, 1)
	}
	return code
}

// New returns a pool on a fresh, empty database, which is dropped when tb ends.
func New(tb testing.TB) *sql.DB {
	tb.Helper()
	return open(tb, DSN(tb))
}

// DSN returns the DSN of a fresh, empty database, which is dropped when tb ends,
// for code and child processes that open their own connections.
func DSN(tb testing.TB) string {
	tb.Helper()
	d, err := throwaway.Create(tb.Context())
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, d.Drop()) })
	return d.Config().FormatDSN()
}

// Server starts a throwaway server of the test's own, which it may kill, restart
// and configure. It is gone when tb ends. args are appended to its command line.
func Server(tb testing.TB, args ...string) *mysqld.Server {
	tb.Helper()
	s, err := mysqld.Start(tb.Context(), mysqld.Options{Args: args})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		require.NoError(tb, s.Stop(ctx))
	})
	return s
}

// open returns a pool that is closed when tb ends.
func open(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return db
}
