package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// postgres is the server of River.
type postgres struct {
	program
	port     int
	password string
	count    int // of databases made
	info     string
	pool     *pgxpool.Pool // of the present database
}

var postgresBins = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"}

func startPostgres(ctx context.Context) (*postgres, error) {
	initdb, ok := find("initdb", postgresBins...)
	if !ok {
		return nil, absent("PostgreSQL", "postgresql")
	}
	initdb, err := filepath.EvalSymlinks(initdb) // beside it are the others
	if err != nil {
		return nil, err
	}
	as, err := account("postgres")
	if err != nil {
		return nil, err
	}
	p := &postgres{password: password()}
	if p.port, err = freePort(ctx); err != nil {
		return nil, err
	}
	if p.dir, err = directory("postgres", as); err != nil {
		return nil, err
	}
	if err := p.start(ctx, initdb, as); err != nil {
		p.close()
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return p, nil
}

func (p *postgres) start(ctx context.Context, initdb string, as *syscall.Credential) error {
	secret, data := filepath.Join(p.dir, "password"), filepath.Join(p.dir, "data")
	if err := os.WriteFile(secret, []byte(p.password), 0o600); err != nil {
		return err
	}
	if as != nil {
		if err := os.Chown(secret, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, initdb, "--pgdata", data, "--username=postgres", "--auth=scram-sha-256", "--pwfile="+secret, "--encoding=UTF8", "--locale=C")
	cmd.Dir, cmd.SysProcAttr = p.dir, attr(as)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	settings := []string{"-D", data}
	for _, s := range []string{
		"listen_addresses=127.0.0.1", fmt.Sprintf("port=%d", p.port), "unix_socket_directories=" + p.dir, "max_connections=200",
		"shared_buffers=1GB", "max_wal_size=2GB", "fsync=on", "synchronous_commit=on", "full_page_writes=on",
	} {
		settings = append(settings, "-c", s)
	}
	if err := p.begin(as, filepath.Join(filepath.Dir(initdb), "postgres"), settings...); err != nil {
		return err
	}
	return p.await(ctx, func() error {
		return p.admin(ctx, func(c *pgx.Conn) error {
			return c.QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version') || ', fsync=' || current_setting('fsync') ||
 ' synchronous_commit=' || current_setting('synchronous_commit') || ' shared_buffers=' || current_setting('shared_buffers')`).Scan(&p.info)
		})
	})
}

func (p *postgres) dsn(database string) string {
	return fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/%s?sslmode=disable", p.password, p.port, database)
}

func (p *postgres) admin(ctx context.Context, do func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, p.dsn("postgres"))
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close(ctx))
}

func (p *postgres) about() string { return p.info }

func (p *postgres) cpu() time.Duration { return family(p.PID()) }

// fresh makes a database with River's tables in place of the one before.
func (p *postgres) fresh(ctx context.Context) (string, error) {
	name := func() string { return fmt.Sprintf("peers_%d", p.count) }
	p.closePool()
	err := p.admin(ctx, func(c *pgx.Conn) error {
		if _, err := c.Exec(ctx, "DROP DATABASE IF EXISTS "+name()+" WITH (FORCE)"); err != nil {
			return err
		}
		p.count++
		_, err := c.Exec(ctx, "CREATE DATABASE "+name())
		return err
	})
	if err != nil {
		return "", err
	}
	if p.pool, err = pgxpool.New(ctx, p.dsn(name())); err != nil {
		return "", err
	}
	tables, err := rivermigrate.New(riverpgxv5.New(p.pool), nil)
	if err != nil {
		return "", err
	}
	_, err = tables.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return p.dsn(name()), err
}

func (p *postgres) left(ctx context.Context) (left bool, err error) {
	err = p.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM river_job WHERE state IN ('available', 'running'))`).Scan(&left)
	return left, err
}

func (p *postgres) finished(ctx context.Context) (n int64, err error) {
	err = p.pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&n)
	return n, err
}

func (p *postgres) closePool() {
	if p.pool != nil {
		p.pool.Close()
		p.pool = nil
	}
}

func (p *postgres) close() {
	p.closePool()
	p.end(syscall.SIGINT) // a fast stop
}
