// Package throwaway makes databases for tests on a real server: the one of QRTZ_TEST_DSN when that is set, else a private server
// that this process starts when it first needs one.
package throwaway

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
)

// Env names the environment variable with the DSN of the server to test on. Its
// user must be allowed to create and drop databases called qrtz_test_….
const Env = "QRTZ_TEST_DSN"

// stopLimit bounds what clean-up may take.
const stopLimit = 30 * time.Second

// server is the one of this process: its tests have nowhere else to find what one of them started.
var server struct {
	once sync.Once
	cfg  *mysql.Config
	own  *mysqld.Server
	err  error
}

// count numbers the databases of this process.
var count atomic.Int64

// Database is an empty database that has been made.
type Database struct {
	cfg   *mysql.Config
	admin *sql.DB
}

// Create makes a database. It starts the private server if there is none yet and QRTZ_TEST_DSN is not set; the error then says what to
// install.
func Create(ctx context.Context) (*Database, error) {
	server.once.Do(start)
	if server.err != nil {
		return nil, server.err
	}
	d := &Database{cfg: server.cfg.Clone()}
	d.cfg.DBName = ""
	var err error
	if d.admin, err = sql.Open("mysql", d.cfg.FormatDSN()); err != nil {
		return nil, err
	}
	// The time keeps apart the packages, and the interrupted runs, that share a server.
	d.cfg.DBName = fmt.Sprintf("qrtz_test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), count.Add(1))
	if _, err := d.admin.ExecContext(ctx, "CREATE DATABASE "+d.name()+" CHARACTER SET utf8mb4"); err != nil {
		err = fmt.Errorf("create a database for a test: %w", err)
		if os.Getenv(Env) != "" {
			err = fmt.Errorf("%w (on the server of %s, whose user must be allowed to create and drop databases called qrtz_test_…)", err, Env)
		}
		return nil, errors.Join(err, d.admin.Close())
	}
	return d, nil
}

func (d *Database) name() string { return "`" + d.cfg.DBName + "`" }

// Config returns how the database is reached, to be changed at will.
func (d *Database) Config() *mysql.Config { return d.cfg.Clone() }

// Drop drops the database. Connections to it stay open, and are of no use.
func (d *Database) Drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	_, err := d.admin.ExecContext(ctx, "DROP DATABASE "+d.name())
	return errors.Join(err, d.admin.Close())
}

// Stop stops the private server, if this process has started one. A process that ends without it leaves nothing behind either,
// where there is a shell to see to it.
func Stop() error {
	if server.own == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	return server.own.Stop(ctx)
}

// start finds or starts the server of this process.
func start() {
	dsn := os.Getenv(Env)
	if dsn == "" {
		if server.own, server.err = mysqld.Start(context.Background(), mysqld.Options{}); server.err == nil {
			server.err = server.own.Guard()
		}
		if server.err != nil {
			server.err = fmt.Errorf("no database to test on: %s is not set, and no private server could be started: %w", Env, server.err)
			return
		}
		dsn = server.own.DSN("")
	}
	server.cfg, server.err = mysql.ParseDSN(dsn)
	if server.err != nil {
		server.err = fmt.Errorf("%s: %w; want for example root:secret@tcp(127.0.0.1:3306)/", Env, server.err)
		return
	}
	server.cfg.InterpolateParams = true
}
