package schema

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// Tables is a database, with the prefix of the tables in it. Its statements name the tables without their prefix
// (Prefix.SQL) and may hold IN (?), whose argument is then a slice that is not empty.
type Tables struct {
	DB     *sqlx.DB
	Prefix Prefix
}

// Execer is Tables, or On.
type Execer interface {
	Exec(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Select reads rows into a slice.
func (t Tables) Select(ctx context.Context, into any, query string, args ...any) error {
	return t.On(t.DB).Select(ctx, into, query, args...)
}

// Get reads one row, or returns sql.ErrNoRows.
func (t Tables) Get(ctx context.Context, into any, query string, args ...any) error {
	return t.On(t.DB).Get(ctx, into, query, args...)
}

// Query begins to read rows, which the caller closes.
func (t Tables) Query(ctx context.Context, query string, args ...any) (*sqlx.Rows, error) {
	query, args, err := t.expand(query, args)
	if err != nil {
		return nil, err
	}
	return t.DB.QueryxContext(ctx, query, args...)
}

// QueryDirty hands the rows of a query to f, as they arrive. The server sees also what is not committed yet, and need not find out, row by
// row, what was: an index that many write to is read as fast as one at rest.
func (t Tables) QueryDirty(ctx context.Context, f func(*sqlx.Rows) error, query string, args ...any) error {
	query, args, err := t.expand(query, args)
	if err != nil {
		return err
	}
	conn, err := t.DB.Connx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, `SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED`); err != nil { // of the next statement alone
		return err
	}
	rows, err := conn.QueryxContext(ctx, query, args...)
	if err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // it may not have been sent: the next statement must not be the dirty one
		return err
	}
	defer func() { _ = rows.Close() }() // Err says what there is to say
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Exec runs one statement outside a transaction, and starts over as InTx does.
func (t Tables) Exec(ctx context.Context, query string, args ...any) (result sql.Result, err error) {
	err = Again(ctx, func() error {
		result, err = t.On(t.DB).Exec(ctx, query, args...)
		return err
	})
	return result, err
}

// Write is Exec for a caller to whom an error says everything.
func (t Tables) Write(ctx context.Context, query string, args ...any) error {
	_, err := t.Exec(ctx, query, args...)
	return err
}

// InTx is the function InTx on these tables.
func (t Tables) InTx(ctx context.Context, fn func(tx *sqlx.Tx) error) error {
	return InTx(ctx, t.DB, fn)
}

// InPacket is the function InPacket on these tables; the packet's statements are written as those of Tables.
func (t Tables) InPacket(ctx context.Context, build func(p *Packet) error) error {
	return inPacket(ctx, t.DB, t.expand, build)
}

// On returns the same tables by way of a transaction, or a connection.
func (t Tables) On(e ExecQueryer) On { return On{e, t} }

// expand puts the prefix in, and a placeholder for each element of a slice.
func (t Tables) expand(query string, args []any) (string, []any, error) {
	return sqlx.In(t.Prefix.SQL(query), args...)
}

// On is Tables within a transaction.
type On struct {
	e ExecQueryer
	t Tables
}

// Select reads rows into a slice.
func (o On) Select(ctx context.Context, into any, query string, args ...any) error {
	query, args, err := o.t.expand(query, args)
	if err != nil {
		return err
	}
	return sqlx.SelectContext(ctx, o.e, into, query, args...)
}

// Get reads one row, or returns sql.ErrNoRows.
func (o On) Get(ctx context.Context, into any, query string, args ...any) error {
	query, args, err := o.t.expand(query, args)
	if err != nil {
		return err
	}
	return sqlx.GetContext(ctx, o.e, into, query, args...)
}

// ExecAlone runs one statement that is a transaction by itself. If the connection breaks before the answer is there, the
// error is ErrCommitUnknown.
func (o On) ExecAlone(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx) // nothing was sent
	}
	result, err := o.Exec(ctx, query, args...)
	if unanswered(err) {
		return nil, fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
	return result, err
}

// Exec runs one statement.
func (o On) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	query, args, err := o.t.expand(query, args)
	if err != nil {
		return nil, err
	}
	return o.e.ExecContext(ctx, query, args...)
}
