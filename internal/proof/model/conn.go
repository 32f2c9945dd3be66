package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// clock is the time that the server tells in all sessions of a world.
type clock struct{ now ms }

// tap is between a process and the server: at the given statement of a step something goes wrong.
type tap struct {
	at   int    // counted from 1; 0: nothing goes wrong
	how  string // as that of a fault
	then func() // what others do in a freeze
	n    int    // statements so far
	hit  bool
	log  []string
}

var errBroken = errors.New("the line is broken")

// pass lets a statement through, or not. It tells whether it is sent, and whether its answer arrives.
func (t *tap) pass(query string) (sent, answered bool) {
	if t == nil {
		return true, true
	}
	if t.n++; t.log != nil {
		t.log = append(t.log, query)
	}
	if t.n != t.at {
		return true, true
	}
	t.hit = true
	switch t.how {
	case "freeze":
		t.then()
	case "lost":
		return true, false
	case "never":
		return false, false
	}
	return true, true
}

// connector opens connections whose sessions tell the clock's time.
type connector struct {
	driver.Connector
	clock *clock
	tap   *tap
}

// mysqlConn is what a connection of the driver can do.
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

// Connect opens a connection.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	one := &conn{mysqlConn: raw.(mysqlConn), clock: c.clock, tap: c.tap}
	return one, one.setTime(ctx)
}

type conn struct {
	mysqlConn
	clock  *clock
	tap    *tap
	told   ms
	broken bool
}

// ResetSession is called before the connection is used again: time may have passed.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.broken {
		return driver.ErrBadConn
	}
	if err := c.mysqlConn.ResetSession(ctx); err != nil {
		return err
	}
	return c.setTime(ctx)
}

// IsValid tells whether the connection may be used again.
func (c *conn) IsValid() bool { return !c.broken && c.mysqlConn.IsValid() }

func (c *conn) setTime(ctx context.Context) error {
	if c.told == c.clock.now {
		return nil
	}
	_, err := c.mysqlConn.ExecContext(ctx, fmt.Sprintf("SET timestamp = %d.%03d000", c.clock.now/1000, c.clock.now%1000), nil)
	c.told = c.clock.now
	return err
}

// ExecContext carries out a statement.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	sent, answered := c.tap.pass(query)
	if sent {
		result, err := c.mysqlConn.ExecContext(ctx, query, args)
		if answered {
			return result, err
		}
	}
	c.broken = true
	return nil, errBroken
}

// QueryContext asks a query, or sends a packet.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	sent, answered := c.tap.pass(query)
	if sent {
		rows, err := c.mysqlConn.QueryContext(ctx, query, args)
		if answered {
			return rows, err
		}
		if err == nil {
			drain(rows)
		}
	}
	c.broken = true
	return nil, errBroken
}

// drain reads all answers, so that the server has come to the end.
func drain(rows driver.Rows) {
	values := make([]driver.Value, 64)
	for {
		for {
			if err := rows.Next(values[:len(rows.Columns())]); err != nil {
				break
			}
		}
		more, ok := rows.(driver.RowsNextResultSet)
		if !ok || !more.HasNextResultSet() || more.NextResultSet() != nil {
			break
		}
	}
	_ = rows.Close()
}

func newConnector(cfg *mysql.Config, clock *clock, tap *tap) (*connector, error) {
	cfg = cfg.Clone()
	cfg.MultiStatements, cfg.InterpolateParams = true, true
	cfg.ReadTimeout = 30 * time.Second
	dial, err := mysql.NewConnector(cfg)
	return &connector{dial, clock, tap}, err
}
