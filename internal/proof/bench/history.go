package bench

import (
	"context"
	"fmt"
	"time"
)

// Finished runs are numbered in the order of their fire times, one round of all executes after the other.
const historySQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, AVAILABLE_AT, HOST_IP, INSTANCE, FENCE, CLAIM_TOKEN,
       CLAIMED_AT, STARTED_AT, FINISHED_AT)
SELECT ?, 1 + (N MOD ?) DIV ?, 1 + N MOD ?, ? + 1000 * (N DIV ?), 'SUCCEEDED', ? + 1000 * (N DIV ?), 'node-1', 1, 1 + N DIV ?, N,
       ? + 1000 * (N DIV ?), ? + 1000 * (N DIV ?), ? + 1000 * (N DIV ?)
  FROM %s X WHERE N < ?`

const (
	dirtyPages = 2000 // at most, when little of the filling is left to be written
	flushLimit = 3 * time.Minute
)

// fillHistory stores finished runs of the executes with ids from 1 on, one a second of each, the last an hour ago. A million takes
// some ten seconds: into an empty table MariaDB inserts in bulk, if it need not check.
func (s *site) fillHistory(ctx context.Context, d *database, runs, executes int) error {
	if runs == 0 {
		return nil
	}
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for _, set := range []string{`SET SESSION unique_checks = 0`, `SET SESSION foreign_key_checks = 0`} {
		if _, err := conn.ExecContext(ctx, set); err != nil {
			return err
		}
	}
	first := time.Now().Add(-time.Hour - time.Duration(runs/executes)*time.Second).UnixMilli()
	_, err = conn.ExecContext(ctx, fmt.Sprintf(historySQL, numbers(runs)), benchApp, executes, perJob, executes, first, executes, first, executes, executes,
		first, executes, first, executes, first, executes, runs)
	if err != nil {
		return fmt.Errorf("store finished runs: %w", err)
	}
	return s.flushed(ctx)
}

// flushed waits until the server has written most of what was changed: its writing would disturb the next measurement.
func (s *site) flushed(ctx context.Context) error {
	if _, err := s.admin.ExecContext(ctx, `SET GLOBAL innodb_max_dirty_pages_pct = 0`); err != nil {
		return err
	}
	defer func() {
		_, _ = s.admin.ExecContext(context.WithoutCancel(ctx), `SET GLOBAL innodb_max_dirty_pages_pct = 90`)
	}()
	return until(ctx, flushLimit, func() (bool, error) {
		status := map[string]int64{}
		err := readPairs(ctx, s.admin, `SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'`, status)
		return status["Innodb_buffer_pool_pages_dirty"] < dirtyPages, err
	})
}
