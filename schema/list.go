package schema

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// No list may cost more than what it shows, whatever the size of the tables. So each walks an index in its order, from a
// key on (Cursor), in pages. Where the index begins with the app and the state, there is a branch for each of them, and the
// branches are merged. What is counted is counted up to a limit.

const (
	// ListPage is how many rows of a list one statement returns at most.
	ListPage = 1000

	// ListBranches is how many walks one statement merges at most.
	ListBranches = 64

	// FewRows is how many rows of a state are looked at to find those of a job among them.
	FewRows = 10_000
)

// Cursor is the key of the last row of a part of a list, after which the next part begins. The zero Cursor is the beginning.
// A list goes by id, or by a time and then by id.
type Cursor struct {
	ByTime bool
	At, ID int64
}

// NoTime is the time of a row that has none; such rows are the last.
const NoTime = math.MaxInt64

// ParseCursor reads what String wrote.
func ParseCursor(text string) (c Cursor, err error) {
	if text == "" {
		return Cursor{}, nil
	}
	at, id, byTime := strings.Cut(text, ".")
	if !byTime {
		at, id = "0", text
	}
	c.ByTime = byTime
	if at == "none" {
		at = strconv.FormatInt(NoTime, 10)
	}
	c.At, err = strconv.ParseInt(at, 10, 64)
	if err == nil {
		c.ID, err = strconv.ParseInt(id, 10, 64)
	}
	if err != nil || c.ID == 0 {
		return Cursor{}, errors.New("want what the list before it has ended with")
	}
	return c, nil
}

// String is the cursor as a word; empty for the zero Cursor.
func (c Cursor) String() string {
	switch {
	case c == Cursor{}:
		return ""
	case c.ByTime && c.At == NoTime:
		return fmt.Sprintf("none.%d", c.ID)
	case c.ByTime:
		return fmt.Sprintf("%d.%d", c.At, c.ID)
	default:
		return strconv.FormatInt(c.ID, 10)
	}
}

// ErrCursor says that a cursor is of a list in another order.
var ErrCursor = errors.New("it is the end of a list with other filters: begin without it, or give the same filters as before")

// Check refuses a cursor of a list in another order.
func (c Cursor) Check(byTime bool) error {
	if c != (Cursor{}) && c.ByTime != byTime {
		return ErrCursor
	}
	return nil
}

// Part is a part of a list.
type Part[T any] struct {
	Rows []T
	Next Cursor // where the next part begins; the zero Cursor if this was the last
}

// ReadPart reads at most limit rows from a cursor on, page by page. A page that is not full is the last.
func ReadPart[T any](what string, limit int, after Cursor, read func(after Cursor, n int) ([]T, error), key func(*T) Cursor) (Part[T], error) {
	all := Part[T]{Rows: []T{}, Next: after} // which is [] in JSON
	for {
		n := min(ListPage, limit-len(all.Rows))
		if n <= 0 {
			return all, nil
		}
		rows, err := read(all.Next, n)
		if err != nil {
			return Part[T]{}, fmt.Errorf("list %s: %w", what, err)
		}
		all.Rows = append(all.Rows, rows...)
		if len(rows) < n {
			all.Next = Cursor{}
			return all, nil
		}
		all.Next = key(&rows[len(rows)-1])
	}
}

// Query is a statement with its parameters.
type Query struct {
	Text string
	Args []any
}

// And is the query with a further condition.
func (q Query) And(condition string, args ...any) Query {
	return Query{q.Text + " AND " + condition, append(q.Args[:len(q.Args):len(q.Args)], args...)}
}

// Merged are queries, each a branch of the same columns, put together in order, n rows of them.
func Merged(all []Query, order string, n int) Query {
	var text strings.Builder
	var args []any
	for i, q := range all {
		if i > 0 {
			text.WriteString(" UNION ALL ")
		}
		text.WriteString("(" + q.Text + ")")
		args = append(args, q.Args...)
	}
	return Query{"SELECT * FROM (" + text.String() + ") B ORDER BY " + order + " LIMIT ?", append(args, n)}
}

// RowsOf runs a query.
func RowsOf[T any](ctx context.Context, on On, q Query) (rows []T, err error) {
	err = on.Select(ctx, &rows, q.Text, q.Args...)
	return rows, err
}

// AtMost tells whether a query of one column has no more rows than n. It reads n + 1 of them at most.
func AtMost(ctx context.Context, on On, n int, q Query) (bool, error) {
	found, err := CountUpTo(ctx, on, n+1, q)
	return found <= n, err
}

// CountUpTo counts the rows of a query of one column, n of them at most.
func CountUpTo(ctx context.Context, on On, n int, q Query) (found int, err error) {
	err = on.Get(ctx, &found, "SELECT COUNT(*) FROM ("+q.Text+" LIMIT ?) C", append(q.Args[:len(q.Args):len(q.Args)], n)...)
	return found, err
}

// AppsIn lists the apps that rows of a table belong to, each found by one look into an index that begins with APPLICATION;
// rows of none come first, as NULL, if there are any.
func AppsIn(ctx context.Context, on On, table string) (apps []sql.NullString, err error) {
	var without []int
	if err := on.Select(ctx, &without, "SELECT 1 FROM "+table+" WHERE APPLICATION IS NULL LIMIT 1"); err != nil {
		return nil, err
	}
	if len(without) > 0 {
		apps = append(apps, sql.NullString{})
	}
	for next := (sql.NullString{}); ; apps = append(apps, next) {
		if next.Valid {
			err = on.Get(ctx, &next, "SELECT MIN(APPLICATION) FROM "+table+" WHERE APPLICATION > ?", next.String)
		} else {
			err = on.Get(ctx, &next, "SELECT MIN(APPLICATION) FROM "+table)
		}
		if err != nil || !next.Valid {
			return apps, err
		}
	}
}

// Time is a point in time as the tables have it: milliseconds since the epoch, where NULL and what is below 1 are none. It is
// only read.
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

// Value is not for writing: nothing writes such times.
func (t Time) Value() (driver.Value, error) { return nil, errors.New("schema.Time is only read") }

// MarshalJSON is RFC 3339 in UTC, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// In is the time in a zone; zero stays zero.
func (t Time) In(zone *time.Location) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Time.In(zone)
}

// NotFoundError says that something named by a person or a program is not there.
type NotFoundError struct{ What string }

func (e NotFoundError) Error() string { return "there is no " + e.What }

// IsNotFound tells whether an error is a NotFoundError.
func IsNotFound(err error) bool {
	var gone NotFoundError
	return errors.As(err, &gone)
}
