package schema

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
)

// Link is where the engine's own connections come from. Their sessions are set so that nothing the engine does can hold up
// others for long: a lock is waited for, and a transaction may be idle, for one second, a statement may take ten.
type Link struct {
	source source
	packet bool // every connection takes several statements at once
}

// source is where a Link's connections come from, and how they are given up.
type source interface {
	connect(ctx context.Context) (raw driver.Conn, giveUp func() error, err error)
	Driver() driver.Driver
}

// Dial makes a Link that opens connections with a DSN, independent of any pool.
func Dial(dsn string) (*Link, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("DSN: %w", err)
	}
	cfg.MultiStatements, cfg.InterpolateParams = true, true
	if err := cfg.Apply(mysql.Charset("utf8mb4", "")); err != nil {
		return nil, fmt.Errorf("DSN: %w", err)
	}
	dial, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("DSN: %w", err)
	}
	return &Link{source: dialer{dial}, packet: true}, nil
}

// Borrow makes a Link that takes connections out of a pool of the caller's, which gets none of them back: they are closed
// after use. A pool whose connections do not allow multiStatements and interpolateParams serves as well, but slower.
func Borrow(db *sql.DB) *Link { return &Link{source: lender{db}} }

// Pool opens a pool of at most n connections, which stay open. Close it after use.
func (l *Link) Pool(n int) *sqlx.DB {
	db := sql.OpenDB(connector{l})
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return sqlx.NewDb(db, "mysql")
}

// connector makes connections whose sessions are set.
type connector struct{ link *Link }

// Driver is asked for by database/sql.
func (c connector) Driver() driver.Driver { return c.link.source.Driver() }

// Connect opens a connection and sets its session.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, giveUp, err := c.link.source.connect(ctx)
	if err != nil {
		return nil, err
	}
	conn := &link{Conn: raw, giveUp: giveUp, packet: c.link.packet}
	if err := conn.prepare(ctx); err != nil {
		_ = giveUp()
		return nil, fmt.Errorf("set up a connection of qrtz's own: %w", err)
	}
	return conn, nil
}

// link is a connection of the engine's own. On Galera it takes no packets: a transaction that is aborted there between two
// statements of a packet, because another server's was first, is rolled back, and the COMMIT that follows reports success.
// (Seen on MariaDB 10.11: two nodes started the same fire.) Sent step by step, the next statement says so.
type link struct {
	driver.Conn
	giveUp  func() error
	packet  bool
	mariaDB bool
}

// Close gives the connection up.
func (c *link) Close() error { return c.giveUp() }

// TakesPackets tells whether a transaction travels as one packet.
func (c *link) TakesPackets() bool { return c.packet }

// MySQL can end an idle transaction only together with the connection, whether or not it is in a transaction.
func (c *link) idleLimit() (begin, end string) {
	if c.mariaDB {
		return "", ""
	}
	return `SET SESSION wait_timeout = 1`, `SET SESSION wait_timeout = 28800`
}

const (
	lockWait       = 1  // seconds that a statement waits for a row
	tableWait      = 5  // seconds that it waits for a table that is being altered
	statementLimit = 10 // seconds that it may take
)

// prepare sets the session. Whatever the DSN or the server's defaults say, the engine's statements mean the same.
func (c *link) prepare(ctx context.Context) error {
	before, err := c.ask(ctx, `SELECT VERSION(), @@character_set_client`)
	if err != nil {
		return err
	}
	c.mariaDB = strings.Contains(before[0], "MariaDB")
	if err := SafeCharset(before[1]); err != nil {
		return err
	}
	for _, set := range c.settings() {
		if err := c.exec(ctx, set); err != nil {
			return fmt.Errorf("%s: %w", set, err)
		}
	}
	now, err := c.ask(ctx, `SELECT @@character_set_client, @@innodb_lock_wait_timeout`)
	if err != nil {
		return err
	}
	if want := []string{"utf8mb4", fmt.Sprint(lockWait)}; !slices.Equal(now, want) {
		return fmt.Errorf("character_set_client and innodb_lock_wait_timeout are %q after having been set to %q: is there a proxy that drops SET?", now, want)
	}
	galera, err := c.ask(ctx, `SHOW SESSION VARIABLES LIKE 'wsrep\_on'`)
	if err != nil {
		return err
	}
	if galera[1] == "ON" {
		c.packet = false
		return nil
	}
	if !c.packet {
		c.packet = c.exec(ctx, `DO ?; DO ?`, driver.NamedValue{Ordinal: 1, Value: int64(1)}, driver.NamedValue{Ordinal: 2, Value: int64(1)}) == nil
	}
	return nil
}

func (c *link) settings() []string {
	sets := []string{
		`SET NAMES utf8mb4`,
		`SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED`,
		fmt.Sprintf(`SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, sql_safe_updates = 0,
			sql_select_limit = DEFAULT, unique_checks = 1, group_concat_max_len = 1000000, net_write_timeout = 5,
			innodb_lock_wait_timeout = %d, lock_wait_timeout = %d`, lockWait, tableWait),
	}
	if c.mariaDB {
		return append(sets, fmt.Sprintf(`SET SESSION idle_transaction_timeout = %d, max_statement_time = %d`, lockWait, statementLimit))
	}
	return append(sets, fmt.Sprintf(`SET SESSION max_execution_time = %d`, statementLimit*1000))
}

func (c *link) exec(ctx context.Context, query string, args ...driver.NamedValue) error {
	_, err := c.ExecContext(ctx, query, args)
	return err
}

// ask returns the one row of a query as text.
func (c *link) ask(ctx context.Context, query string) ([]string, error) {
	rows, err := c.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	values := make([]driver.Value, len(rows.Columns())) // nil if there is no row
	if err := rows.Next(values); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	texts := make([]string, len(values))
	for i, v := range values {
		if b, ok := v.([]byte); ok {
			v = string(b)
		}
		texts[i] = fmt.Sprint(v)
	}
	return texts, nil
}

// What database/sql asks of a connection beyond driver.Conn is passed on to the one beneath.

func (c *link) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := c.Conn.(driver.ExecerContext); ok {
		return e.ExecContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

func (c *link) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := c.Conn.(driver.QueryerContext); ok {
		return q.QueryContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

func (c *link) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	return c.Prepare(query)
}

func (c *link) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	b, ok := c.Conn.(driver.ConnBeginTx)
	if !ok {
		return nil, errors.New("the driver does not let a transaction choose its isolation level")
	}
	tx, err := b.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &boundTx{Tx: tx, conn: c, ctx: ctx}, nil
}

// boundTx is a transaction whose end does not take longer than its context allows. The driver's own would wait for an answer on a
// dead line until the operating system gives up, which takes a quarter of an hour.
type boundTx struct {
	driver.Tx
	conn *link
	ctx  context.Context
}

func (tx *boundTx) Commit() error { return tx.end(tx.ctx, `COMMIT`, tx.Tx.Commit) }

func (tx *boundTx) Rollback() error {
	ctx, cancel := rollingBack(tx.ctx)
	defer cancel()
	return tx.end(ctx, `ROLLBACK`, tx.Tx.Rollback)
}

func (tx *boundTx) end(ctx context.Context, statement string, otherwise func() error) error {
	_, err := tx.conn.ExecContext(ctx, statement, nil)
	if errors.Is(err, driver.ErrSkip) {
		return otherwise()
	}
	return err
}

// rollingBack is the context for taking back a transaction whose own may have ended. If that is not answered in time, the
// connection is closed, which does the same.
func rollingBack(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
}

func (c *link) Ping(ctx context.Context) error {
	if p, ok := c.Conn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

func (c *link) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *link) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

func (c *link) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// dialer opens connections.
type dialer struct{ driver.Connector }

func (d dialer) connect(ctx context.Context) (driver.Conn, func() error, error) {
	raw, err := d.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	return raw, raw.Close, nil
}

// lender takes connections out of a pool.
type lender struct{ db *sql.DB }

func (l lender) Driver() driver.Driver { return l.db.Driver() }

// connect takes a connection out of the pool until it is given up. A driver's connection may be used only within
// sql.Conn.Raw; so that is where the loan lasts.
func (l lender) connect(ctx context.Context) (driver.Conn, func() error, error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	taken, over, returned := make(chan driver.Conn, 1), make(chan struct{}), make(chan struct{})
	var failed error
	go func() {
		defer close(returned)
		failed = conn.Raw(func(raw any) error {
			taken <- raw.(driver.Conn)
			<-over
			return driver.ErrBadConn // its session is not what the pool's owner expects: the pool closes it
		})
		_ = conn.Close()
	}()
	select {
	case raw := <-taken:
		return raw, func() error {
			close(over)
			<-returned
			return nil
		}, nil
	case <-returned:
		return nil, nil, failed
	}
}
