package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// On Galera only one migrates at a time. CREATE VIEW holds metadata locks of its tables while it waits for its place
// in the order of all DDL; an ALTER of one of them that is before it in that order waits for those locks, and the whole
// cluster stands still, for good, whichever nodes the two are on. (Seen on MariaDB 10.11.) GET_LOCK does not reach across
// nodes, but a row does: that row is the lock. Only liveness depends on it: a node that has waited lockLimit assumes that
// the holder was killed, and proceeds.
const (
	lockVersion = 0 // no migration has it
	lockLimit   = 30 * time.Second
	lockRetry   = 50 * time.Millisecond

	lockSQL     = `INSERT IGNORE INTO QRTZ_SCHEMA (VERSION, NAME) VALUES (?, ?)`
	lockedBySQL = `SELECT NAME FROM QRTZ_SCHEMA WHERE VERSION = ?`
	unlockSQL   = `DELETE FROM QRTZ_SCHEMA WHERE VERSION = ? AND NAME = ?`
)

// lockMigrations waits, on a Galera cluster, until no other session migrates, and then keeps others from it. It needs QRTZ_SCHEMA.
func lockMigrations(ctx context.Context, conn *sql.Conn, prefix Prefix) (end func(), err error) {
	galera, err := OnGalera(ctx, conn)
	if err != nil || !galera {
		return func() {}, err
	}
	me := fmt.Sprintf("migrating %d", rand.Int64())
	end = func() {
		_ = Again(ctx, func() error {
			_, err := conn.ExecContext(context.WithoutCancel(ctx), prefix.SQL(unlockSQL), lockVersion, me)
			return err // others wait for lockLimit then
		})
	}
	var holder string
	for since := time.Now(); ; {
		before := holder
		if holder, err = tryLock(ctx, conn, prefix, me); err != nil || holder == me {
			return end, err
		}
		if holder != before {
			since = time.Now()
		}
		if time.Since(since) > lockLimit {
			if _, err := conn.ExecContext(ctx, prefix.SQL(unlockSQL), lockVersion, holder); err != nil && !Retryable(err) {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another migration: %w", context.Cause(ctx))
		case <-time.After(lockRetry):
		}
	}
}

// tryLock returns the session that holds the lock; none if its holder has just finished.
func tryLock(ctx context.Context, conn *sql.Conn, prefix Prefix, me string) (holder string, err error) {
	if _, err := conn.ExecContext(ctx, prefix.SQL(lockSQL), lockVersion, me); err != nil && !Retryable(err) {
		return "", err
	}
	err = conn.QueryRowContext(ctx, prefix.SQL(lockedBySQL), lockVersion).Scan(&holder)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return holder, err
}

// querier is a connection, a transaction or a pool.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// OnGalera tells whether the server is a node of a Galera cluster, where rows conflict at COMMIT and locks do not reach
// the other nodes.
func OnGalera(ctx context.Context, q querier) (bool, error) {
	var name, value string
	err := q.QueryRowContext(ctx, `SHOW SESSION VARIABLES LIKE 'wsrep\_on'`).Scan(&name, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil // MySQL
	}
	if err != nil {
		return false, fmt.Errorf("ask whether this is a Galera cluster: %w", err)
	}
	return value == "ON", nil
}
