package mysqld_test

import (
	"context"
	"database/sql"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
)

func start(t *testing.T, opts mysqld.Options) *mysqld.Server {
	t.Helper()
	began := time.Now()
	s, err := mysqld.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Logf("started in %v", time.Since(began))
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	return s
}

// run executes statements on one new connection.
func run(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for _, s := range statements {
		_, err = db.ExecContext(t.Context(), s)
		require.NoError(t, err, s)
	}
}

func countRows(t *testing.T, dsn string) (n int) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM D.T").Scan(&n))
	return n
}

func TestDataSurvivesRestartAndKill(t *testing.T) {
	s := start(t, mysqld.Options{})
	run(t, s.DSN(""), "CREATE DATABASE D", "CREATE TABLE D.T (ID INT PRIMARY KEY)", "INSERT INTO D.T VALUES (1)")

	first := s.PID()
	require.NoError(t, s.Restart(t.Context()))
	assert.NotEqual(t, first, s.PID())
	assert.Equal(t, 1, countRows(t, s.DSN("D")))

	run(t, s.DSN("D"), "INSERT INTO T VALUES (2)")
	s.Kill()
	assert.Zero(t, s.PID())
	require.NoError(t, s.Restart(t.Context()))
	assert.Equal(t, 2, countRows(t, s.DSN("D")), "a committed row outlives a kill -9 of the server")
}

func TestStopRemovesATemporaryDirectory(t *testing.T) {
	s := start(t, mysqld.Options{})
	cfg, err := mysql.ParseDSN(s.DSN(""))
	require.NoError(t, err)
	pid := s.PID()
	require.NoError(t, s.Stop(t.Context()))
	assert.NoDirExists(t, filepath.Dir(cfg.Addr))
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	assert.NoError(t, s.Stop(t.Context()), "stopping twice is no error")
}

func TestAPortHasAPassword(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	s := start(t, mysqld.Options{Port: port})
	run(t, s.DSN(""), "DO 0")
	require.NoError(t, s.Restart(t.Context()))
	run(t, s.DSN(""), "DO 0")

	cfg, err := mysql.ParseDSN(s.DSN(""))
	require.NoError(t, err)
	require.Equal(t, "tcp", cfg.Net)
	require.NotEmpty(t, cfg.Passwd)
	for _, password := range []string{"", "root", cfg.Passwd + "x"} {
		cfg.Passwd = password
		db, err := sql.Open("mysql", cfg.FormatDSN())
		require.NoError(t, err)
		var refused *mysql.MySQLError
		require.ErrorAs(t, db.PingContext(t.Context()), &refused, password)
		assert.Equal(t, uint16(1045), refused.Number)
		require.NoError(t, db.Close())
	}
}

// A user who can enter the directory reaches the socket, where root needs no password.
func TestNobodyElseReadsWhatAServerKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.Mkdir(dir, 0o755)) // made by a user who did not think of it
	start(t, mysqld.Options{Dir: dir})
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "data"): 0o700, filepath.Join(dir, "tmp"): 0o700, filepath.Join(dir, "error.log"): 0o600} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode().Perm(), path)
	}
}

func TestDSNCarriesAnyName(t *testing.T) {
	// The '@' and the length make the path useless as a socket's.
	dir := filepath.Join(t.TempDir(), "a b@c(d)/"+strings.Repeat("long", 30))
	s := start(t, mysqld.Options{Dir: dir})
	const name = "a/b?c@d%20(é) x"
	run(t, s.DSN(""), "CREATE DATABASE `"+name+"`")
	db, err := sql.Open("mysql", s.DSN(name))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var got string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&got))
	assert.Equal(t, name, got)
}

func TestServersDoNotShareTemporaryFiles(t *testing.T) {
	s := start(t, mysqld.Options{})
	cfg, err := mysql.ParseDSN(s.DSN(""))
	require.NoError(t, err)
	db, err := sql.Open("mysql", s.DSN(""))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var tmp string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT @@tmpdir").Scan(&tmp))
	assert.Equal(t, filepath.Join(filepath.Dir(cfg.Addr), "tmp"), tmp)
}

func TestASecondServerInADirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	start(t, mysqld.Options{Dir: dir})
	_, err := mysqld.Start(t.Context(), mysqld.Options{Dir: dir})
	require.ErrorIs(t, err, mysqld.ErrInUse)
}

func TestAFailedStartShowsTheLog(t *testing.T) {
	_, err := mysqld.Start(t.Context(), mysqld.Options{Args: []string{"--no-such-option"}})
	require.ErrorContains(t, err, "no-such-option")
}

func TestFindSaysWhatToInstall(t *testing.T) {
	t.Setenv(mysqld.PathEnv, "")
	if _, err := os.Stat("/usr/sbin/mariadbd"); err == nil {
		path, err := mysqld.Find()
		require.NoError(t, err)
		assert.Contains(t, path, "mariadbd")
		return
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := mysqld.Find(); err != nil {
		assert.ErrorContains(t, err, "apt-get install mariadb-server")
	}
}
