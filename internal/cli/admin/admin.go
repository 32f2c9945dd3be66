// Package admin is what a person who operates qrtz reads in its tables: lists of everything, of all apps. What is done to
// it, the packages that own the tables do. Not part of qrtz's API.
package admin

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
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

// byID finds a row by its id.
func byID[T any](ctx context.Context, s *Store, what, text string, id int64) (found T, err error) {
	rows, err := rowsOf[T](ctx, s, query{text, []any{id}})
	switch {
	case err != nil:
		return found, fmt.Errorf("read %s %d: %w", what, id, err)
	case len(rows) == 0:
		return found, NotFoundError{fmt.Sprintf("%s %d", what, id)}
	}
	return rows[0], nil
}

// title is the name of a job, or else its class.
func title(name, class *string) string {
	switch {
	case class == nil:
		return "(deleted)"
	case name != nil && *name != "":
		return *name
	default:
		return *class
	}
}
