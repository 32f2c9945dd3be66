package qrtztest

import (
	"context"
	"database/sql"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"

	"github.com/qrtz-go/qrtz/internal/servers/throwaway"
)

// TB is what qrtztest needs of a test: a *testing.T or *testing.B, and what other frameworks have in their place.
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Database returns a pool on a database of the test's own, which has the qrtz tables and nothing else, and is dropped when the test
// ends. Tests may run in parallel. Params are added to the DSN of the pool, for example "parseTime=true".
//
// The database is made on the server that QRTZ_TEST_DSN names, as in root:secret@tcp(127.0.0.1:3306)/: its user must be allowed to
// create and drop databases called qrtz_test_…. Without QRTZ_TEST_DSN, the first call in a test binary starts a private server with the
// program mariadbd or mysqld of this machine (QRTZ_MYSQLD names another one), which takes a second. It has no port, touches no other
// server, and is gone when the binary ends. If there is no such program, the test fails and says what to install.
//
// Once the pool has been given to New, all its connections tell the kit's time.
func Database(tb TB, params ...string) *sql.DB {
	tb.Helper()
	cfg := database(tb, params)
	connector, err := mysql.NewConnector(cfg)
	check(tb, err)
	c := &clock{}
	db := sql.OpenDB(&opener{connector, c})
	clocks.Store(db, c)
	tb.Cleanup(func() {
		clocks.Delete(db)
		check(tb, db.Close())
	})
	return db
}

// clocks has the clock of each pool of Database.
var clocks sync.Map

// DSN returns the DSN of a database as Database makes them, for programs that a test starts and schedulers that Run. Their time is
// the real one.
func DSN(tb TB, params ...string) string {
	tb.Helper()
	return database(tb, params).FormatDSN()
}

func database(tb TB, params []string) *mysql.Config {
	tb.Helper()
	d, err := throwaway.Create(tb.Context())
	check(tb, err)
	tb.Cleanup(func() { check(tb, d.Drop()) })
	cfg := d.Config()
	check(tb, fill(tb.Context(), cfg))
	if len(params) == 0 {
		return cfg
	}
	dsn, sep := cfg.FormatDSN(), "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	cfg, err = mysql.ParseDSN(dsn + sep + strings.Join(params, "&"))
	check(tb, err)
	return cfg
}

// check ends the test after an error.
func check(tb TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal("qrtztest: " + strings.TrimPrefix(err.Error(), "qrtz: "))
	}
}
