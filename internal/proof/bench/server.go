package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
	"github.com/qrtz-go/qrtz/schema"
)

const stopLimit = 30 * time.Second // for the server

// serverArgs are what a database of some size has; a setting that only one of MariaDB and MySQL knows is loose.
var serverArgs = []string{
	"--innodb-buffer-pool-size=1G", "--loose-innodb-log-file-size=512M", "--loose-innodb-redo-log-capacity=512M",
}

// site is where things are measured: a private server that flushes at every commit.
type site struct {
	Options
	extent

	server *mysqld.Server
	admin  *sqlx.DB // of no database
	count  int      // of databases and lines made

	migrate func(context.Context, *database) error // makes the tables
}

func openSite(ctx context.Context, o Options, e extent) (*site, error) {
	server, err := mysqld.Start(ctx, mysqld.Options{Durable: true, Args: serverArgs})
	if err != nil {
		return nil, fmt.Errorf("start a private server: %w", err)
	}
	s := &site{Options: o, extent: e, server: server, migrate: up}
	if s.admin, err = openPool(server.DSN(""), 2); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	if _, err := s.admin.ExecContext(ctx, `SET GLOBAL innodb_monitor_enable = 'trx_rw_commits'`); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func (s *site) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	var err error
	if s.admin != nil {
		err = s.admin.Close()
	}
	return errors.Join(err, s.server.Stop(ctx))
}

func (s *site) say(format string, args ...any) { printf(s.Progress, format+"\n", args...) }

// printf writes for people. If they have stopped reading, that is no error.
func printf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// database is a fresh one with qrtz's tables, for one measurement.
type database struct {
	*sqlx.DB
	name, dsn string
}

func (s *site) database(ctx context.Context) (*database, error) {
	d, err := s.emptyDatabase(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.migrate(ctx, d); err != nil {
		s.drop(context.WithoutCancel(ctx), d)
		return nil, err
	}
	return d, nil
}

// up makes the tables as this program needs them.
func up(ctx context.Context, d *database) error {
	_, err := schema.Up(ctx, d.DB.DB, schema.DefaultPrefix)
	return err
}

func (s *site) emptyDatabase(ctx context.Context) (*database, error) {
	s.count++
	name := fmt.Sprintf("bench_%d", s.count)
	if _, err := s.admin.ExecContext(ctx, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		return nil, err
	}
	d := &database{name: name, dsn: s.server.DSN(name)}
	var err error
	if d.DB, err = openPool(d.dsn, 20); err != nil {
		return nil, err
	}
	return d, nil
}

// drop drops the database; what it leaves behind must not disturb the next measurement.
func (s *site) drop(ctx context.Context, d *database) {
	_ = d.Close()
	_, _ = s.admin.ExecContext(ctx, "DROP DATABASE "+d.name) // if not, the server is thrown away all the same
}

func openPool(dsn string, n int) (*sqlx.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return sqlx.NewDb(db, "mysql"), nil
}

// counters are what the server has done since it started.
type counters struct {
	Statements, Commits, Syncs, LockWaits, Deadlocks int64
	Server                                           time.Duration // processor time
	At                                               time.Time
}

const (
	statusSQL  = `SHOW GLOBAL STATUS WHERE VARIABLE_NAME IN ('Questions', 'Innodb_data_fsyncs', 'Innodb_row_lock_waits')`
	metricsSQL = `SELECT NAME, COUNT FROM information_schema.INNODB_METRICS WHERE NAME IN ('trx_rw_commits', 'lock_deadlocks')`

	ownStatements = 2 // of a reading
)

func (s *site) counters(ctx context.Context) (counters, error) {
	values := map[string]int64{}
	for _, query := range []string{statusSQL, metricsSQL} {
		if err := readPairs(ctx, s.admin, query, values); err != nil {
			return counters{}, fmt.Errorf("read the server's counters: %w", err)
		}
	}
	return counters{
		Statements: values["Questions"], Commits: values["trx_rw_commits"], Syncs: values["Innodb_data_fsyncs"],
		LockWaits: values["Innodb_row_lock_waits"], Deadlocks: values["lock_deadlocks"],
		Server: processorTime(s.server.PID()), At: time.Now(),
	}, nil
}

// readPairs reads rows of a name and a value.
func readPairs[T any](ctx context.Context, db *sqlx.DB, query string, into map[string]T) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var value T
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		into[name] = value
	}
	return rows.Err()
}

// since is what the server has done since an earlier reading.
func (c counters) since(before counters) counters {
	return counters{
		Statements: max(0, c.Statements-before.Statements-ownStatements), Commits: c.Commits - before.Commits, Syncs: c.Syncs - before.Syncs,
		LockWaits: c.LockWaits - before.LockWaits, Deadlocks: c.Deadlocks - before.Deadlocks,
		Server: c.Server - before.Server, At: c.At,
	}
}
