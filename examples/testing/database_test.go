package main

import (
	"database/sql"
	"os"
	"testing"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// testDatabase is an empty database of the test's own, here on the test server of this repository. In your project, open
// the test database that you have; if tests share it, give each test an App of its own.
func testDatabase(t *testing.T) *sql.DB {
	t.Helper()
	return testdb.New(t)
}
