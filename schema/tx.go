package schema

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
)

// maxTries bounds how often InTx starts over; with its backoff that is about half a second.
const maxTries = 8

// ErrCommitUnknown says that the connection broke during COMMIT: what the transaction wrote may be
// there or not. Only reading it back can tell.
var ErrCommitUnknown = fmt.Errorf("the outcome of COMMIT is unknown")

// InTx runs fn in a READ COMMITTED transaction and commits it. When the server picks the transaction
// as the victim of a conflict (Retryable) it starts over, at most eight times, with growing, jittered
// pauses; fn must therefore set its results again each time. A lock that cannot be had in time (Locked) is returned at once:
// what to do without the row is for the caller to say. A COMMIT that fails otherwise is returned
// as ErrCommitUnknown.
func InTx(ctx context.Context, db *sqlx.DB, fn func(tx *sqlx.Tx) error) error {
	return Again(ctx, func() error { return inTxOnce(ctx, db, fn) })
}

// Again runs fn, one statement or one transaction, and starts over as InTx does.
func Again(ctx context.Context, fn func() error) error {
	pause := 2 * time.Millisecond
	for try := 1; ; try++ {
		err := fn()
		if err == nil || !Retryable(err) || Locked(err) || try == maxTries {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (giving up: %w)", err, context.Cause(ctx))
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause *= 2
	}
}

func inTxOnce(ctx context.Context, db *sqlx.DB, fn func(tx *sqlx.Tx) error) error {
	tx, err := db.BeginTxx(ctx, readCommitted)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback() // the first error says more; a broken connection rolls back by itself
		return err
	}
	return commit(tx)
}

// maxConns is how many connections OnConn tries that turn out to be broken.
const maxConns = 3

// OnConn has fn use one connection, outside a transaction, and starts over as InTx does: fn must set its results again each
// time. A connection of the pool that turns out to be broken before anything was sent on it is replaced.
func OnConn(ctx context.Context, db *sqlx.DB, fn func(conn *sqlx.Conn) error) error {
	return Again(ctx, func() (err error) {
		for range maxConns {
			if err = onConnOnce(ctx, db, fn); !errors.Is(err, driver.ErrBadConn) {
				break
			}
		}
		return err
	})
}

func onConnOnce(ctx context.Context, db *sqlx.DB, fn func(conn *sqlx.Conn) error) error {
	conn, err := db.Connx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // back to the pool
	return fn(conn)
}

// unanswered tells whether a statement may have been carried out although the server's answer is not there.
func unanswered(err error) bool {
	var refused *mysql.MySQLError
	return err != nil && !errors.As(err, &refused) && !errors.Is(err, driver.ErrBadConn) && !errors.Is(err, mysql.ErrPktTooLarge)
}

var readCommitted = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

func commit(tx *sqlx.Tx) error {
	err := tx.Commit()
	switch {
	case err == nil:
		return nil
	case Retryable(err):
		return fmt.Errorf("commit: %w", err)
	default:
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
}

// Exec runs one statement outside a transaction, and starts over as InTx does.
func Exec(ctx context.Context, db *sqlx.DB, query string, args ...any) (result sql.Result, err error) {
	err = Again(ctx, func() error {
		result, err = db.ExecContext(ctx, query, args...)
		return err
	})
	return result, err
}

// NowSQL is the server's clock in microseconds since the epoch, as an expression. It is computed from
// UTC: UNIX_TIMESTAMP(NOW()) is an hour off while the session's time zone repeats an hour in autumn.
const NowSQL = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`

// NowMillisSQL is NowSQL in milliseconds, rounded down.
const NowMillisSQL = `(` + NowSQL + ` DIV 1000)`

// InSavepoint runs fn within a transaction so that it leaves nothing behind when it fails, whatever becomes of the
// transaction. It does not start over after a conflict: that is for the transaction's owner.
func InSavepoint(ctx context.Context, tx *sqlx.Tx, fn func(tx *sqlx.Tx) error) error {
	if _, err := tx.ExecContext(ctx, `SAVEPOINT QRTZ_CALL`); err != nil {
		return fmt.Errorf("savepoint: %w", err)
	}
	if err := fn(tx); err != nil {
		_, _ = tx.ExecContext(context.WithoutCancel(ctx), `ROLLBACK TO SAVEPOINT QRTZ_CALL`) // after a deadlock it is gone, with the transaction
		return err
	}
	if _, err := tx.ExecContext(ctx, `RELEASE SAVEPOINT QRTZ_CALL`); err != nil {
		return fmt.Errorf("release savepoint: %w", err)
	}
	return nil
}

// Now reads the server's clock.
func Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error) {
	var micros int64
	if err := sqlx.GetContext(ctx, q, &micros, `SELECT `+NowSQL); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return time.UnixMicro(micros), nil
}
