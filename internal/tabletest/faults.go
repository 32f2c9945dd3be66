package tabletest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

// Faults lie between a pool and the driver: they lose the answer of a COMMIT or of an INSERT, and count conflicts.
type Faults struct {
	driver.Connector
	LoseAnswer, Refuse atomic.Int64 // of which of the COMMITs to come; 0: of none
	Conflicts          atomic.Int64 // statements that the server refused because of other transactions
	LoseInsert         atomic.Int64 // the answer of which of the INSERTs to come is lost; 0: of none. They have to be sent as text (interpolateParams)
	AtCommit           atomic.Int64 // COMMITs that it refused for that reason
	Updates            atomic.Int64 // UPDATEs sent
	Committed          func()       // called after the next COMMIT; nil for nothing
}

var errNoAnswer = errors.New("no answer")

// OpenWithFaults opens connections whose faults the test chooses.
func (f *Tables) OpenWithFaults() (*sqlx.DB, *Faults) {
	f.T.Helper()
	return f.OpenFaults(f.DSN)
}

// OpenFaults does so on another server, or with other settings.
func (f *Tables) OpenFaults(dsn string) (*sqlx.DB, *Faults) {
	f.T.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(f.T, err)
	connector, err := mysql.NewConnector(cfg)
	require.NoError(f.T, err)
	faults := &Faults{Connector: connector}
	db := sqlx.NewDb(sql.OpenDB(faults), "mysql")
	f.T.Cleanup(func() { require.NoError(f.T, db.Close()) })
	return db, faults
}

// Connect opens one connection.
func (f *Faults) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyConn{c.(fullConn), f}, nil
}

type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

type faultyConn struct {
	fullConn
	faults *Faults
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.HasPrefix(strings.TrimSpace(query), "UPDATE") {
		c.faults.Updates.Add(1)
	}
	result, err := c.fullConn.ExecContext(ctx, query, args)
	if schema.Retryable(err) {
		c.faults.Conflicts.Add(1)
	}
	if err == nil && strings.HasPrefix(strings.TrimSpace(query), "INSERT") && c.faults.LoseInsert.Add(-1) == 0 {
		return nil, errNoAnswer
	}
	return result, err
}

func (c *faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &faultyTx{tx, c.faults}, nil
}

type faultyTx struct {
	driver.Tx
	faults *Faults
}

func (tx *faultyTx) Commit() error {
	if tx.faults.Refuse.Add(-1) == 0 {
		_ = tx.Rollback()
		return errNoAnswer
	}
	if err := tx.Tx.Commit(); err != nil {
		if schema.Retryable(err) {
			tx.faults.AtCommit.Add(1)
		}
		return err
	}
	if then := tx.faults.Committed; then != nil {
		tx.faults.Committed = nil
		then()
	}
	if tx.faults.LoseAnswer.Add(-1) == 0 {
		return errNoAnswer
	}
	return nil
}
