package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz"
)

// qrtzPeer is qrtz in one database of its server.
type qrtzPeer struct {
	*mariadb
	db *sql.DB
}

func (q *qrtzPeer) about() string { return q.info }

func (q *qrtzPeer) fresh(ctx context.Context) (string, error) {
	q.closeDB()
	name, err := q.mariadb.fresh(ctx)
	if err != nil {
		return "", err
	}
	dsn := q.DSN(name)
	if q.db, err = sql.Open("mysql", dsn); err != nil {
		return "", err
	}
	log := zerolog.Nop() // that no process has a handler yet is no news
	s, err := qrtz.Open(q.db, qrtz.Config{App: app, Logger: &log})
	if err != nil {
		return "", err
	}
	return dsn, errors.Join(s.Migrate(ctx), s.Declare(ctx, qrtz.Job{Name: askedJob}))
}

func (q *qrtzPeer) left(ctx context.Context) (left bool, err error) {
	err = q.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM QRTZ_RUN WHERE APPLICATION = ? AND STATE IN ('PENDING', 'RUNNING'))`, app).Scan(&left)
	return left, err
}

func (q *qrtzPeer) finished(ctx context.Context) (n int64, err error) {
	err = q.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`).Scan(&n)
	return n, err
}

func (q *qrtzPeer) cpu() time.Duration { return family(q.PID()) }

func (q *qrtzPeer) closeDB() {
	if q.db != nil {
		_ = q.db.Close()
		q.db = nil
	}
}

func (q *qrtzPeer) close() { q.closeDB() }

const perJob = 100 // schedules of a job, of qrtz and of Quartz

// store puts schedules into the tables that fire once a second, as they would be after declaring them an hour ago.
func (q *qrtzPeer) store(ctx context.Context, f fireSetting, groups []group) error {
	history := qrtz.HistoryAll
	if f.noHistory {
		history = qrtz.HistoryNone
	}
	at := phases(groups)
	var jobs, schedules [][]any
	for i := range at {
		if i%perJob == 0 {
			jobs = append(jobs, []any{app, fmt.Sprintf("%s-%d", tickClass, i/perJob), "EXECUTING", tickClass, 0, history})
		}
	}
	if err := insert(ctx, q.db, "QRTZ_JOB (APPLICATION, NAME, STATE, JOB_CLASS, UPDATE_TIME, HISTORY)", jobs); err != nil {
		return err
	}
	var first int64
	if err := q.db.QueryRowContext(ctx, `SELECT MIN(ID) FROM QRTZ_JOB WHERE APPLICATION = ? AND JOB_CLASS = ?`, app, tickClass).Scan(&first); err != nil {
		return err
	}
	long := time.Now().Add(-2 * time.Hour)
	for i, t := range at {
		schedules = append(schedules, []any{first + int64(i/perJob), app, fmt.Sprint(i), "SIMPLE", "EXECUTING", -1, 1000, t, t, long})
	}
	return insert(ctx, q.db, "QRTZ_EXECUTE (PID, APPLICATION, NAME, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, NEXT_FIRE_TIME, CHANGED_AT)", schedules)
}

// insert inserts rows, a thousand in a statement.
func insert(ctx context.Context, db *sql.DB, into string, rows [][]any) error {
	const most = 1000
	for len(rows) > 0 {
		some := rows[:min(most, len(rows))]
		rows = rows[len(some):]
		one := "(?" + strings.Repeat(", ?", len(some[0])-1) + ")"
		var args []any
		for _, row := range some {
			args = append(args, row...)
		}
		if _, err := db.ExecContext(ctx, "INSERT INTO "+into+" VALUES "+one+strings.Repeat(", "+one, len(some)-1), args...); err != nil {
			return fmt.Errorf("store schedules: %w", err)
		}
	}
	return nil
}

func (q *qrtzPeer) lead(nodes int) time.Duration {
	if nodes == 1 {
		return 6 * time.Second // a poll, made by a node that knows what to claim
	}
	return 12 * time.Second // each has to know of all others
}

func (q *qrtzPeer) start(dsn, id string, f fireSetting, windows []span) (*process, error) {
	return startNode(spec{Library: libQrtz, DSN: dsn, ID: id, Works: true, Workers: f.workers, Connections: nodeConnections, Windows: windows})
}
