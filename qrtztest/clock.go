package qrtztest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"time"
)

// clock is the time the database tells the kit. qrtz goes by the database's clock alone, so that this is all it takes.
type clock struct{ micros atomic.Int64 }

func (c *clock) now() time.Time  { return time.UnixMicro(c.micros.Load()).UTC() }
func (c *clock) set(t time.Time) { c.micros.Store(t.UnixMicro()) }

// connector borrows connections from the user's pool, and sets the clock of their sessions.
type connector struct {
	db    *sql.DB
	clock *clock
}

func (c *connector) Driver() driver.Driver { return c.db.Driver() }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	lent, err := c.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	one := &conn{lent: lent, clock: c.clock}
	err = lent.Raw(func(raw any) error {
		var ok bool
		if one.mysqlConn, ok = raw.(mysqlConn); !ok {
			return fmt.Errorf("qrtztest works on connections of github.com/go-sql-driver/mysql, not on %T", raw)
		}
		return one.setTime(ctx)
	})
	if err != nil {
		_ = lent.Close()
		return nil, err
	}
	return one, nil
}

// mysqlConn is what github.com/go-sql-driver/mysql's connections can do, and database/sql makes use of.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
	driver.Pinger
}

// conn is a borrowed connection. It is ours alone until Close.
type conn struct {
	mysqlConn
	lent  *sql.Conn
	clock *clock
	told  time.Time // the session's time
}

// ResetSession is called before the connection is used again: time may have passed. Of its errors database/sql heeds
// only ErrBadConn; Connect then says what is wrong.
func (c *conn) ResetSession(ctx context.Context) error {
	if err := c.mysqlConn.ResetSession(ctx); err != nil {
		return err
	}
	if c.setTime(ctx) != nil {
		return driver.ErrBadConn
	}
	return nil
}

func (c *conn) setTime(ctx context.Context) error {
	now := c.clock.now()
	if now.Equal(c.told) {
		return nil
	}
	_, err := c.ExecContext(ctx, fmt.Sprintf("SET timestamp = %d.%06d", now.Unix(), now.Nanosecond()/1000), nil)
	if err != nil {
		return fmt.Errorf("set the session's clock to %s: %w", now, err)
	}
	c.told = now
	return nil
}

// Close has the user's pool throw the connection away, and with it the session's time.
func (c *conn) Close() error {
	_ = c.lent.Raw(func(any) error { return driver.ErrBadConn }) // which closes lent, too
	return nil
}
