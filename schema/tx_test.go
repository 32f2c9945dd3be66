package schema_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

// twoRows is a table with rows 1 and 2.
func twoRows(t *testing.T) *sql.DB {
	t.Helper()
	db := testdb.New(t)
	exec(t, db, `CREATE TABLE T (ID INT PRIMARY KEY, N INT NOT NULL DEFAULT 0) ENGINE=InnoDB`)
	exec(t, db, `INSERT INTO T (ID) VALUES (1), (2)`)
	return db
}

// execer is a pool, a connection or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func bump(ctx context.Context, on execer, id int) error {
	_, err := on.ExecContext(ctx, `UPDATE T SET N = N + 1 WHERE ID = ?`, id)
	return err
}

func TestRetryableOnARealDeadlock(t *testing.T) {
	db := twoRows(t)
	a, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	b, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, bump(t.Context(), a, 1))
	require.NoError(t, bump(t.Context(), b, 2))
	other := make(chan error)
	go func() { other <- bump(t.Context(), a, 2) }()
	mine, theirs := bump(t.Context(), b, 1), error(nil)
	if mine != nil {
		require.NoError(t, b.Rollback()) // lets the other one through
	}
	theirs = <-other
	victim := mine
	if victim == nil {
		victim = theirs
	}
	assert.Equal(t, uint16(1213), number(victim))
	assert.True(t, schema.Retryable(victim))
	_ = a.Rollback()
	_ = b.Rollback()
}

func TestRetryableOnARealLockWaitTimeout(t *testing.T) {
	db := twoRows(t)
	holder, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = holder.Rollback() }()
	require.NoError(t, bump(t.Context(), holder, 1))
	waiter := conn(t, db, `SET SESSION innodb_lock_wait_timeout = 1`)
	err = bump(t.Context(), waiter, 1)
	assert.Equal(t, uint16(1205), number(err))
	assert.True(t, schema.Retryable(err))
}

func TestNotRetryable(t *testing.T) {
	db := twoRows(t)
	_, err := db.ExecContext(t.Context(), `INSERT INTO T (ID) VALUES (1)`)
	assert.True(t, schema.Duplicate(err))
	assert.False(t, schema.Retryable(err))
	assert.False(t, schema.Retryable(nil))
	assert.False(t, schema.Retryable(context.DeadlineExceeded))
	assert.False(t, schema.Duplicate(errors.New("Duplicate entry")), "text is not matched")
}

var victim = &mysql.MySQLError{Number: 1213, Message: "Deadlock found"}

func TestInTxStartsOverUntilItWorks(t *testing.T) {
	db := twoRows(t)
	tries := 0
	err := schema.InTx(t.Context(), sqlx.NewDb(db, "mysql"), func(tx *sqlx.Tx) error {
		tries++
		if err := bump(t.Context(), tx, 1); err != nil {
			return err
		}
		if tries < 3 {
			return victim
		}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, 3, tries)
	assert.Equal(t, "'1'", one(t, db, `SELECT N FROM T WHERE ID = 1`), "what failed was rolled back, what worked committed")
}

func TestInTxGivesUp(t *testing.T) {
	db := twoRows(t)
	tries := 0
	err := schema.InTx(t.Context(), sqlx.NewDb(db, "mysql"), func(*sqlx.Tx) error {
		tries++
		return victim
	})
	require.ErrorIs(t, err, victim)
	assert.Equal(t, 8, tries)

	tries = 0
	other := errors.New("not the server's")
	err = schema.InTx(t.Context(), sqlx.NewDb(db, "mysql"), func(tx *sqlx.Tx) error {
		tries++
		_ = bump(t.Context(), tx, 2)
		return other
	})
	require.ErrorIs(t, err, other)
	assert.Equal(t, 1, tries)
	assert.Equal(t, "'0'", one(t, db, `SELECT N FROM T WHERE ID = 2`))
}

func TestInTxGivesUpWhenItsContextEnds(t *testing.T) {
	db := twoRows(t)
	gone := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	tries := 0
	err := schema.InTx(ctx, sqlx.NewDb(db, "mysql"), func(*sqlx.Tx) error {
		tries++
		cancel(gone)
		return victim
	})
	require.ErrorIs(t, err, gone)
	require.ErrorIs(t, err, victim, "says what it was trying to get past")
	assert.Equal(t, 1, tries)
}

func TestInTxSaysWhenTheOutcomeIsUnknown(t *testing.T) {
	db := twoRows(t)
	err := schema.InTx(t.Context(), sqlx.NewDb(db, "mysql"), func(tx *sqlx.Tx) error {
		var id int64
		if err := tx.GetContext(t.Context(), &id, `SELECT CONNECTION_ID()`); err != nil {
			return err
		}
		_, err := db.ExecContext(t.Context(), `KILL CONNECTION ?`, id)
		return err
	})
	assert.ErrorIs(t, err, schema.ErrCommitUnknown)
}

func TestInTxReadsCommitted(t *testing.T) {
	db := twoRows(t)
	err := schema.InTx(t.Context(), sqlx.NewDb(db, "mysql"), func(tx *sqlx.Tx) error {
		var before, after int
		require.NoError(t, tx.GetContext(t.Context(), &before, `SELECT N FROM T WHERE ID = 1`))
		require.NoError(t, bump(t.Context(), db, 1))
		require.NoError(t, tx.GetContext(t.Context(), &after, `SELECT N FROM T WHERE ID = 1`))
		assert.Equal(t, before+1, after)
		return nil
	})
	require.NoError(t, err)
}

// The server and the test run on one machine, so that its clock is the judge.
func TestNowSQLInOddTimeZones(t *testing.T) {
	db := testdb.New(t)
	for _, zone := range []string{"SYSTEM", "+00:00", "+05:45", "-09:30", "+13:00", "-12:59"} {
		c := conn(t, db, `SET SESSION time_zone = '`+zone+`'`)
		var micros, millis int64
		require.NoError(t, c.QueryRowContext(t.Context(), `SELECT `+schema.NowSQL+`, `+schema.NowMillisSQL).Scan(&micros, &millis))
		assert.WithinDuration(t, time.Now(), time.UnixMicro(micros), time.Second, zone)
		assert.Equal(t, micros/1000, millis, "one statement has one time, rounded down")
	}
}

// While a zone repeats an hour in autumn, the local time says nothing about the hour.
func TestNowSQLInTheHourThatComesTwice(t *testing.T) {
	db := open(t, testdb.Server(t).DSN(""))
	const change = 1698541200 // 29 Oct 2023 01:00 UTC: from +2 to +1
	exec(t, db, `INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (1, 'N')`)
	exec(t, db, `INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('Test/Autumn', 1)`)
	exec(t, db, `INSERT INTO mysql.time_zone_transition_type (Time_zone_id, Transition_type_id, `+"`Offset`"+`, Is_DST, Abbreviation)
		VALUES (1, 0, 7200, 1, 'S'), (1, 1, 3600, 0, 'W')`)
	exec(t, db, `INSERT INTO mysql.time_zone_transition (Time_zone_id, Transition_time, Transition_type_id) VALUES (1, 0, 0), (1, ?, 1)`, change)
	c := conn(t, db, `SET SESSION time_zone = 'Test/Autumn'`)
	for _, moment := range []int64{change - 1800, change + 1800} {
		_, err := c.ExecContext(t.Context(), `SET SESSION timestamp = ?`, moment)
		require.NoError(t, err)
		var local string
		var micros int64
		require.NoError(t, c.QueryRowContext(t.Context(), `SELECT CAST(NOW() AS CHAR), `+schema.NowSQL).Scan(&local, &micros))
		assert.Equal(t, "2023-10-29 02:30:00", local, "both passes look alike")
		assert.Equal(t, moment*1_000_000, micros)
	}
}
