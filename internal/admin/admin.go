// Package admin is what an operator's tools need of the tables beside the engine: lists of everything, the switches
// of apps and nodes, and the cleaning of history. Unlike the stores it works on all apps.
package admin

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// Store reads the tables of all apps.
type Store struct {
	db     *sqlx.DB
	prefix schema.Prefix
}

// New returns a store. The prefix must be valid.
func New(db *sql.DB, prefix schema.Prefix) *Store {
	return &Store{db: sqlx.NewDb(db, "mysql"), prefix: prefix}
}

// NotFoundError says that something named by a user is not there.
type NotFoundError struct{ What string }

func (e NotFoundError) Error() string { return "there is no " + e.What }

// Time is a point in time as the tables have it: milliseconds since the epoch, where NULL and what is below 1 are none.
type Time struct{ time.Time }

// Scan reads a column.
func (t *Time) Scan(value any) error {
	var ms sql.NullInt64
	if err := ms.Scan(value); err != nil {
		return fmt.Errorf("read a time: %w", err)
	}
	*t = Time{}
	if ms.Valid && ms.Int64 > 0 {
		t.Time = time.UnixMilli(ms.Int64)
	}
	return nil
}

// Value is not for writing: nothing here writes times.
func (t Time) Value() (driver.Value, error) { return nil, fmt.Errorf("admin.Time is only read") }

// MarshalJSON is RFC 3339 in UTC, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// where collects conditions, each a constant with its parameters.
type where struct {
	conditions []string
	args       []any
}

// and adds a condition unless its parameter says nothing.
func (w *where) and(condition string, arg any) {
	if arg == "" || arg == int64(0) {
		return
	}
	w.conditions = append(w.conditions, condition)
	w.args = append(w.args, arg)
}

// sql is the WHERE clause.
func (w *where) sql() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// list runs a query made of what comes before its WHERE clause, the clause, and what comes after.
func list[T any](ctx context.Context, s *Store, what, before string, w where, after string, limit int) ([]T, error) {
	rows := []T{} // which is [] in JSON
	query := s.prefix.SQL(before + w.sql() + after + " LIMIT ?")
	if err := s.db.SelectContext(ctx, &rows, query, append(w.args, limit)...); err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return rows, nil
}
