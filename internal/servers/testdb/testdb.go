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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
)

// Env names the environment variable with the DSN of the server to test on. Its
// user must be allowed to create and drop databases called qrtz_test_….
const Env = "QRTZ_TEST_DSN"

// stopLimit bounds what clean-up may take.
const stopLimit = 30 * time.Second

// server is the one of this test binary: a TestMain runs once per process, and
// its tests have nowhere else to find what it started.
var server struct {
	once sync.Once
	cfg  *mysql.Config
	own  *mysqld.Server
	err  error
}

// count numbers the databases of this process.
var count atomic.Int64

// Main runs the tests and stops the private server if one of them needed it. It
// returns the exit code for os.Exit, 1 if the server could not be stopped.
func Main(m *testing.M) int {
	code := m.Run()
	if server.own == nil {
		return code
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if err := server.own.Stop(ctx); err != nil {
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
	server.once.Do(start)
	require.NoError(tb, server.err, "test server")
	cfg := server.cfg.Clone()
	cfg.DBName = ""
	admin := open(tb, cfg.FormatDSN())
	// The time keeps apart the packages, and the interrupted runs, that share a server.
	cfg.DBName = fmt.Sprintf("qrtz_test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), count.Add(1))
	name := "`" + cfg.DBName + "`"
	_, err := admin.ExecContext(tb.Context(), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	require.NoError(tb, err)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		_, err := admin.ExecContext(ctx, "DROP DATABASE "+name)
		require.NoError(tb, err)
	})
	return cfg.FormatDSN()
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

// start finds or starts the server of this test binary.
func start() {
	dsn := os.Getenv(Env)
	if dsn == "" {
		server.own, server.err = mysqld.Start(context.Background(), mysqld.Options{})
		if server.err != nil {
			return
		}
		dsn = server.own.DSN("")
	}
	server.cfg, server.err = mysql.ParseDSN(dsn)
	if server.err != nil {
		server.err = fmt.Errorf("%s: %w", Env, server.err)
		return
	}
	server.cfg.InterpolateParams = true
}

// open returns a pool that is closed when tb ends.
func open(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return db
}
