package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/qrtz-go/qrtz/internal/proof/bench"
	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
)

// mariadb is the server of qrtz and Quartz. Both reach it by a port, since JDBC knows no other way.
type mariadb struct {
	*mysqld.Server
	admin *sql.DB
	count int // of databases made
	looks int // at what it has done
	info  string
}

var mariadbArgs = []string{
	"--innodb-buffer-pool-size=1G", "--loose-innodb-log-file-size=512M", "--loose-innodb-redo-log-capacity=512M",
}

func startMariaDB(ctx context.Context) (*mariadb, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	m := &mariadb{}
	if m.Server, err = mysqld.Start(ctx, mysqld.Options{Durable: true, Port: port, Args: mariadbArgs}); err != nil {
		return nil, err
	}
	if m.admin, err = sql.Open("mysql", m.DSN("")); err != nil {
		return nil, errors.Join(err, m.stop(ctx))
	}
	if _, err := m.admin.ExecContext(ctx, `SET GLOBAL innodb_monitor_enable = 'trx_rw_commits'`); err != nil {
		return nil, errors.Join(err, m.stop(ctx))
	}
	err = m.admin.QueryRowContext(ctx, `SELECT CONCAT(VERSION(), ', innodb_flush_log_at_trx_commit=', @@innodb_flush_log_at_trx_commit,
 ' innodb_buffer_pool_size=', @@innodb_buffer_pool_size, ' log_bin=', @@log_bin)`).Scan(&m.info)
	if err != nil {
		return nil, errors.Join(err, m.stop(ctx))
	}
	return m, nil
}

func (m *mariadb) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	if m.admin != nil {
		_ = m.admin.Close()
	}
	return m.Stop(ctx)
}

// fresh makes an empty database in place of the one before, and tells its name.
func (m *mariadb) fresh(ctx context.Context) (string, error) {
	name := func() string { return fmt.Sprintf("peers_%d", m.count) }
	if _, err := m.admin.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name()); err != nil {
		return "", err
	}
	m.count++
	_, err := m.admin.ExecContext(ctx, "CREATE DATABASE "+name()+" CHARACTER SET utf8mb4")
	return name(), err
}

// did is what a server has done since it started.
type did struct {
	statements, commits int64
	cpu                 time.Duration
	at                  time.Time
}

func (d did) since(before did) did {
	return did{
		statements: max(0, d.statements-before.statements), commits: d.commits - before.commits, cpu: d.cpu - before.cpu, at: d.at,
	}
}

const (
	questionsSQL = `SHOW GLOBAL STATUS LIKE 'Questions'`
	commitsSQL   = `SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rw_commits'`

	ownStatements = 2 // of a reading
)

func (m *mariadb) did(ctx context.Context) (did, error) {
	d := did{cpu: bench.ProcessorTime(m.PID()), at: time.Now()}
	var name string
	if err := m.admin.QueryRowContext(ctx, questionsSQL).Scan(&name, &d.statements); err != nil {
		return d, err
	}
	m.looks++
	d.statements -= ownStatements * int64(m.looks)
	return d, m.admin.QueryRowContext(ctx, commitsSQL).Scan(&d.commits)
}
