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
// nodes, a row does. Nothing but liveness depends on it, so that who waited in vain for turnLimit goes on: the holder was killed.
const (
	turnVersion = 0 // no migration has it
	turnLimit   = 30 * time.Second
	turnRetry   = 50 * time.Millisecond

	takeTurnSQL = `INSERT IGNORE INTO QRTZ_SCHEMA (VERSION, NAME) VALUES (?, ?)`
	turnSQL     = `SELECT NAME FROM QRTZ_SCHEMA WHERE VERSION = ?`
	endTurnSQL  = `DELETE FROM QRTZ_SCHEMA WHERE VERSION = ? AND NAME = ?`
)

// takeTurn waits, on a Galera cluster, until nobody else migrates. It needs QRTZ_SCHEMA.
func takeTurn(ctx context.Context, conn *sql.Conn, prefix Prefix) (end func(), err error) {
	galera, err := OnGalera(ctx, conn)
	if err != nil || !galera {
		return func() {}, err
	}
	me := fmt.Sprintf("migrating %d", rand.Int64())
	end = func() {
		_ = Again(ctx, func() error {
			_, err := conn.ExecContext(context.WithoutCancel(ctx), prefix.SQL(endTurnSQL), turnVersion, me)
			return err // others wait for turnLimit then
		})
	}
	var holder string
	for since := time.Now(); ; {
		before := holder
		if holder, err = tryTurn(ctx, conn, prefix, me); err != nil || holder == me {
			return end, err
		}
		if holder != before {
			since = time.Now()
		}
		if time.Since(since) > turnLimit {
			if _, err := conn.ExecContext(ctx, prefix.SQL(endTurnSQL), turnVersion, holder); err != nil && !Retryable(err) {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another migration: %w", context.Cause(ctx))
		case <-time.After(turnRetry):
		}
	}
}

// tryTurn returns who migrates, empty if that one has just finished.
func tryTurn(ctx context.Context, conn *sql.Conn, prefix Prefix, me string) (holder string, err error) {
	if _, err := conn.ExecContext(ctx, prefix.SQL(takeTurnSQL), turnVersion, me); err != nil && !Retryable(err) {
		return "", err
	}
	err = conn.QueryRowContext(ctx, prefix.SQL(turnSQL), turnVersion).Scan(&holder)
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
