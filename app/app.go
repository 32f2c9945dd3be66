// Package app holds applications: rows of QRTZ_APP, their switch, and the lock-time window, which keeps more than one
// node from doing the misfire handler's pass at once. Not part of qrtz's API.
package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// MaxName is how long the name of an app may be, in characters.
const MaxName = 50

// Store reads and writes the row of one app.
type Store struct {
	db  schema.Tables
	app string
}

// NewStore returns the store of app's row. The prefix must be valid.
func NewStore(db *sqlx.DB, prefix schema.Prefix, app string) *Store {
	return &Store{db: schema.Tables{DB: db, Prefix: prefix}, app: app}
}

const intervalSQL = `SELECT TIME_INTERVAL FROM QRTZ_APP WHERE APPLICATION = ?`

const registerSQL = `
INSERT INTO QRTZ_APP (APPLICATION, STATE, TIME_PRE, TIME_NEXT, TIME_INTERVAL) VALUES (?, 'Y', -1, 0, ?)
    ON DUPLICATE KEY UPDATE TIME_INTERVAL = VALUES(TIME_INTERVAL), SWITCHED_AT = SWITCHED_AT`

// Register adds the app, switched on, unless it is there: then its switch stays as it is.
// Interval is how often a pass of the misfire handler is due. It is written for people to read: if the row is there, but
// another transaction holds it locked, it is not brought up to date.
func (s *Store) Register(ctx context.Context, interval time.Duration) error {
	var now sql.NullInt64
	err := s.db.Get(ctx, &now, intervalSQL, s.app)
	isThere := err == nil
	if isThere && now.Valid && now.Int64 == interval.Milliseconds() {
		return nil
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("register app %q: %w", s.app, err)
	}
	if _, err := s.db.Exec(ctx, registerSQL, s.app, interval.Milliseconds()); err != nil && (!isThere || !schema.Locked(err)) {
		return fmt.Errorf("register app %q: %w", s.app, err)
	}
	return nil
}

const (
	readSwitchSQL = `SELECT STATE = 'Y' FROM QRTZ_APP WHERE APPLICATION = ? FOR UPDATE`
	switchSQL     = `UPDATE QRTZ_APP SET STATE = IF(?, 'Y', 'N') WHERE APPLICATION = ?`
)

// Switch switches the app on or off in the caller's transaction, and tells whether it was on before. It waits for the
// claims that are under way; the server stamps SWITCHED_AT.
func (s *Store) Switch(ctx context.Context, tx *sqlx.Tx, on bool) (was bool, err error) {
	if err := s.db.On(tx).Get(ctx, &was, readSwitchSQL, s.app); err != nil {
		return false, fmt.Errorf("switch app %q: %w", s.app, err)
	}
	if was == on {
		return was, nil
	}
	if _, err := s.db.On(tx).Exec(ctx, switchSQL, on, s.app); err != nil {
		return was, fmt.Errorf("switch app %q: %w", s.app, err)
	}
	return was, nil
}

const (
	readWindowSQL  = `SELECT TIME_PRE, TIME_NEXT, STATE FROM QRTZ_APP WHERE APPLICATION = ?`
	enterWindowSQL = `
UPDATE QRTZ_APP SET TIME_PRE = ?, TIME_NEXT = ?, SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND TIME_NEXT = ? AND TIME_PRE <=> ?`
)

// Window is the lock-time window as one node found it: the node that advanced it does the next pass of the misfire handler.
type Window struct {
	Mine     bool      // this node has advanced it
	Previous time.Time // when the last pass began; zero if there was none
	On       bool      // the switch of the app
}

// Enter tries to advance the lock-time window at now. If more than 30 % of interval are left until TIME_NEXT, another
// node has just advanced it: then nothing is written. Otherwise one of the nodes that try succeeds, by a guarded update
// of TIME_NEXT. A TIME_NEXT more than two intervals ahead was written by a wrong clock and counts as past. A little more
// than one interval is normal: a node that took its time a moment earlier may read the row a moment later.
// The window only saves work: nothing goes wrong if two nodes do the pass at once.
func (s *Store) Enter(ctx context.Context, now time.Time, interval time.Duration) (Window, error) {
	var row struct {
		Pre   *int64 `db:"TIME_PRE"`
		Next  int64  `db:"TIME_NEXT"`
		State string `db:"STATE"`
	}
	if err := s.db.Get(ctx, &row, readWindowSQL, s.app); err != nil {
		return Window{}, fmt.Errorf("read app %q: %w", s.app, err)
	}
	window := Window{On: row.State == "Y"}
	if row.Pre != nil && *row.Pre > 0 {
		window.Previous = time.UnixMilli(*row.Pre)
	}
	left := time.UnixMilli(row.Next).Sub(now)
	if left > interval*3/10 && left <= 2*interval {
		return window, nil
	}
	done, err := s.db.Exec(ctx, enterWindowSQL, now.UnixMilli(), now.Add(interval).UnixMilli(), s.app, row.Next, row.Pre)
	if err != nil {
		return Window{}, fmt.Errorf("advance app %q: %w", s.app, err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		return Window{}, fmt.Errorf("advance app %q: %w", s.app, err)
	}
	window.Mine = n == 1
	return window, nil
}
