package qrtztest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"time"
)

// clock is the time the database tells: the real one until it is set. qrtz goes by the database's clock alone, so that this is all it
// takes.
type clock struct{ micros atomic.Int64 }

func (c *clock) now() time.Time  { return time.UnixMicro(c.micros.Load()).UTC() }
func (c *clock) set(t time.Time) { c.micros.Store(t.UnixMicro()) }
func (c *clock) isSet() bool     { return c.micros.Load() != 0 }

// borrower borrows connections from the user's pool, and sets the clock of their sessions.
type borrower struct {
	db    *sql.DB
	clock *clock
}

func (c *borrower) Driver() driver.Driver { return c.db.Driver() }

func (c *borrower) Connect(ctx context.Context) (driver.Conn, error) {
	lent, err := c.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	one := &conn{clock: c.clock}
	// The user's pool throws the connection away, and with it the session's time.
	one.end = func() error {
		_ = lent.Raw(func(any) error { return driver.ErrBadConn }) // which closes lent, too
		return nil
	}
	err = lent.Raw(func(raw any) error {
		if one.mysqlConn, err = known(raw); err != nil {
			return err
		}
		return one.setTime(ctx)
	})
	if err != nil {
		_ = lent.Close()
		return nil, err
	}
	return one, nil
}

// opener opens connections, and sets the clock of their sessions.
type opener struct {
	driver.Connector
	clock *clock
}

// Connect opens a connection.
func (o *opener) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := o.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	one := &conn{clock: o.clock, end: raw.Close}
	if one.mysqlConn, err = known(raw); err == nil {
		err = one.setTime(ctx)
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return one, nil
}

func known(raw any) (mysqlConn, error) {
	if c, ok := raw.(mysqlConn); ok {
		return c, nil
	}
	return nil, fmt.Errorf("qrtztest works on connections of github.com/go-sql-driver/mysql, not on %T", raw)
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

// conn is a connection whose session tells the clock's time.
type conn struct {
	mysqlConn
	end   func() error
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
	if !c.clock.isSet() || now.Equal(c.told) {
		return nil
	}
	_, err := c.ExecContext(ctx, fmt.Sprintf("SET timestamp = %d.%06d", now.Unix(), now.Nanosecond()/1000), nil)
	if err != nil {
		return fmt.Errorf("set the session's clock to %s: %w", now, err)
	}
	c.told = now
	return nil
}

// Close gives the connection up.
func (c *conn) Close() error { return c.end() }
