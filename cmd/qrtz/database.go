package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/cli/admin"
	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	dsnEnv     = "QRTZ_DSN"
	exampleDSN = "'user:password@tcp(127.0.0.1:3306)/mydb'"

	privateName = "qrtz"           // the database on the private server
	stopLimit   = 30 * time.Second // for stopping a private server
	dialLimit   = 10 * time.Second // for connecting, unless the DSN says otherwise
	idleConns   = 16
)

// database is what a command works on.
type database struct {
	cfg     *mysql.Config
	prefix  schema.Prefix
	private bool // the kept server of qrtz itself
	lease   *mysqld.Lease
	pools   []*sql.DB
}

// with runs a command on the database.
func (g *global) with(ctx context.Context, run func(*database) error) (err error) {
	d, err := g.database(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	return run(d)
}

// onTables runs a command on tables that are up to date. On the private server, where no operator would, it makes them so.
func (g *global) onTables(ctx context.Context, run func(d *database, s *admin.Store) error) error {
	return g.with(ctx, func(d *database) error {
		db, err := d.pool(2)
		if err != nil {
			return err
		}
		if d.private {
			_, err = schema.Up(ctx, db, d.prefix)
		} else {
			err = schema.Check(ctx, db, d.prefix)
		}
		if err != nil {
			return err
		}
		return run(d, admin.New(db, d.prefix))
	})
}

// database finds the database and makes sure that it answers. A private server is started, with a word on stderr.
func (g *global) database(ctx context.Context) (*database, error) {
	prefix := schema.Prefix(g.prefix)
	if err := prefix.Validate(); err != nil {
		return nil, fmt.Errorf("--prefix: %w", err)
	}
	cfg, err := g.config(true)
	if err != nil {
		return nil, err
	}
	d := &database{cfg: cfg, prefix: prefix}
	if cfg == nil {
		if err := d.usePrivate(ctx); err != nil {
			return nil, err
		}
	}
	if err := d.ping(ctx); err != nil {
		return nil, errors.Join(err, d.close(ctx))
	}
	return d, nil
}

// config is what the user's DSN says; nil without one.
func (g *global) config(needsName bool) (*mysql.Config, error) {
	dsn, source := g.dsn, "--dsn"
	if dsn == "" {
		dsn, source = os.Getenv(dsnEnv), dsnEnv
	}
	if dsn == "" {
		return nil, nil //nolint:nilnil // no DSN is no error: there is a private server
	}
	cfg, err := parseDSN(dsn)
	if err != nil { // the text of a DSN is not shown: it may hold a password
		return nil, fmt.Errorf("%s: %w; want for example %s", source, err, exampleDSN)
	}
	if needsName && cfg.DBName == "" {
		return nil, fmt.Errorf("%s names no database: it ends with %s/; want for example %s", source, cfg.Addr, exampleDSN)
	}
	return cfg, nil
}

func parseDSN(dsn string) (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.InterpolateParams = true // one round trip instead of three
	cfg.Logger = &mysql.NopLogger{}
	if cfg.Timeout == 0 {
		cfg.Timeout = dialLimit
	}
	_, err = mysql.NewConnector(cfg) // refuses what cannot be interpolated safely
	return cfg, err
}

// usePrivate takes the kept private server.
func (d *database) usePrivate(ctx context.Context) error {
	dir, err := privateDir()
	if err != nil {
		return err
	}
	if d.lease, err = mysqld.Shared(ctx, dir); err != nil {
		return fmt.Errorf("no --dsn, no %s, and no private server in %s: %w", dsnEnv, dir, err)
	}
	d.private = true
	if d.cfg, err = parseDSN(d.lease.DSN("")); err != nil {
		return errors.Join(err, d.close(ctx))
	}
	if err := createDatabase(ctx, d.cfg, privateName, "IF NOT EXISTS "); err != nil {
		return errors.Join(err, d.close(ctx))
	}
	d.cfg.DBName = privateName
	fmt.Fprintf(os.Stderr, "qrtz: no --dsn and no %s: using the private server in %s, database %s\n", dsnEnv, dir, privateName)
	return nil
}

// privateDir is where the private server lives.
func privateDir() (string, error) {
	base := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(base) { // the specification says to ignore relative ones
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for a private server: set --dsn, %s or XDG_DATA_HOME: %w", dsnEnv, err)
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "qrtz"), nil
}

// createDatabase runs CREATE DATABASE on the server of cfg. The name is ours.
func createDatabase(ctx context.Context, cfg *mysql.Config, name, ifNotExists string) error {
	db, err := openPool(cfg, "", 1)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := safe(ctx, db); err != nil {
		return fmt.Errorf("cannot use the server at %s(%s): %w", cfg.Net, cfg.Addr, err)
	}
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+ifNotExists+"`"+name+"` CHARACTER SET utf8mb4"); err != nil {
		return fmt.Errorf("create database %s at %s(%s): %w", name, cfg.Net, cfg.Addr, err)
	}
	return nil
}

func (d *database) ping(ctx context.Context) error {
	db, err := d.pool(1)
	if err != nil {
		return err
	}
	if err := db.PingContext(ctx); err != nil {
		return d.cannotUse(err)
	}
	if err := safe(ctx, db); err != nil {
		return d.cannotUse(err)
	}
	return nil
}

// safe refuses sessions in whose character set a quote can hide: values are put into statements here (InterpolateParams).
func safe(ctx context.Context, db *sql.DB) error {
	_, err := schema.SafeNow(ctx, sqlx.NewDb(db, "mysql"))
	return err
}

func (d *database) cannotUse(err error) error {
	return fmt.Errorf("cannot use database %s of %s(%s) as user %q: %w", d.cfg.DBName, d.cfg.Net, d.cfg.Addr, d.cfg.User, err)
}

// pool returns a new pool of at most n connections, which close closes.
func (d *database) pool(n int) (*sql.DB, error) {
	db, err := openPool(d.cfg, d.cfg.DBName, n)
	if err == nil {
		d.pools = append(d.pools, db)
	}
	return db, err
}

func openPool(cfg *mysql.Config, name string, n int) (*sql.DB, error) {
	cfg = cfg.Clone()
	cfg.DBName = name
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(min(n, idleConns))
	db.SetConnMaxIdleTime(time.Minute)
	return db, nil
}

// change makes a change in a transaction, at a time by the database's clock.
func (d *database) change(ctx context.Context, fn func(db *sqlx.DB, tx *sqlx.Tx, now time.Time) error) error {
	pool, err := d.pool(1)
	if err != nil {
		return err
	}
	db := sqlx.NewDb(pool, "mysql")
	return schema.InTx(ctx, db, func(tx *sqlx.Tx) error {
		now, err := schema.Now(ctx, tx)
		if err != nil {
			return err
		}
		return fn(db, tx, now)
	})
}

// stores are the jobs, executes and runs of an app.
type stores struct {
	executes *execute.Store
	runs     *run.Store
}

// changeIn is change with the jobs, executes and runs of an app.
func (d *database) changeIn(ctx context.Context, app string, fn func(s stores, tx *sqlx.Tx, now time.Time) error) error {
	return d.change(ctx, func(db *sqlx.DB, tx *sqlx.Tx, now time.Time) error {
		runs := run.NewStore(db, d.prefix, app)
		return fn(stores{execute.NewStore(db, d.prefix, app, runs), runs}, tx, now)
	})
}

// close closes the pools and gives the private server back, also when ctx has ended; the last to do so stops it.
func (d *database) close(ctx context.Context) error {
	var errs []error
	for _, db := range d.pools {
		errs = append(errs, db.Close())
	}
	if d.lease != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		errs = append(errs, d.lease.Release(ctx))
	}
	return errors.Join(errs...)
}
