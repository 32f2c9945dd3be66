package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// No list may cost more than what it shows, whatever the size of the tables. So each walks an index in its order, from a
// key on (Cursor), in pages. Where the index begins with the app and the state, there is a branch for each of them, and the
// branches are merged. What is counted is counted up to a limit.

// page is how many rows one statement returns at most.
const page = 1000

// branches is how many walks one statement merges at most.
const branches = 64

// Cursor is the key of the last row of a part of a list, after which the next part begins. The zero Cursor is the beginning.
// A list goes by id, or by a time and then by id.
type Cursor struct {
	byTime bool
	at, id int64
}

// noTime is the time of a row that has none; such rows are the last.
const noTime = math.MaxInt64

// ParseCursor reads what String wrote.
func ParseCursor(text string) (c Cursor, err error) {
	if text == "" {
		return Cursor{}, nil
	}
	at, id, byTime := strings.Cut(text, ".")
	if !byTime {
		at, id = "0", text
	}
	c.byTime = byTime
	if at == "none" {
		at = strconv.FormatInt(noTime, 10)
	}
	c.at, err = strconv.ParseInt(at, 10, 64)
	if err == nil {
		c.id, err = strconv.ParseInt(id, 10, 64)
	}
	if err != nil || c.id == 0 {
		return Cursor{}, errors.New("want what the list before it has ended with")
	}
	return c, nil
}

// String is the cursor as a word; empty for the zero Cursor.
func (c Cursor) String() string {
	switch {
	case c == Cursor{}:
		return ""
	case c.byTime && c.at == noTime:
		return fmt.Sprintf("none.%d", c.id)
	case c.byTime:
		return fmt.Sprintf("%d.%d", c.at, c.id)
	default:
		return strconv.FormatInt(c.id, 10)
	}
}

// ErrCursor says that a cursor is of a list in another order.
var ErrCursor = errors.New("it is the end of a list with other filters: begin without it, or give the same filters as before")

// check refuses a cursor of a list in another order.
func (c Cursor) check(byTime bool) error {
	if c != (Cursor{}) && c.byTime != byTime {
		return ErrCursor
	}
	return nil
}

// List is a part of a list.
type List[T any] struct {
	Rows []T
	Next Cursor // where the next part begins; the zero Cursor if this was the last
}

// readPages reads at most limit rows from a cursor on, page by page. A page that is not full is the last.
func readPages[T any](what string, limit int, after Cursor, read func(after Cursor, n int) ([]T, error), key func(*T) Cursor) (List[T], error) {
	all := List[T]{Rows: []T{}, Next: after} // which is [] in JSON
	for {
		n := min(page, limit-len(all.Rows))
		if n <= 0 {
			return all, nil
		}
		rows, err := read(all.Next, n)
		if err != nil {
			return List[T]{}, fmt.Errorf("list %s: %w", what, err)
		}
		all.Rows = append(all.Rows, rows...)
		if len(rows) < n {
			all.Next = Cursor{}
			return all, nil
		}
		all.Next = key(&rows[len(rows)-1])
	}
}

// query is a statement with its parameters.
type query struct {
	text string
	args []any
}

// merged are queries, each a branch of the same columns, put together in order, n rows of them.
func merged(all []query, order string, n int) query {
	var text strings.Builder
	var args []any
	for i, q := range all {
		if i > 0 {
			text.WriteString(" UNION ALL ")
		}
		text.WriteString("(" + q.text + ")")
		args = append(args, q.args...)
	}
	return query{"SELECT * FROM (" + text.String() + ") B ORDER BY " + order + " LIMIT ?", append(args, n)}
}

// rowsOf runs a query.
func rowsOf[T any](ctx context.Context, s *Store, q query) (rows []T, err error) {
	err = s.db.SelectContext(ctx, &rows, s.prefix.SQL(q.text), q.args...)
	return rows, err
}

// atMost tells whether a query of one column has no more rows than n. It reads n + 1 of them at most.
func (s *Store) atMost(ctx context.Context, n int, q query) (bool, error) {
	var found int
	err := s.db.GetContext(ctx, &found, s.prefix.SQL("SELECT COUNT(*) FROM ("+q.text+" LIMIT ?) C"), append(q.args, n+1)...)
	return found <= n, err
}

// appsIn lists the apps that rows of a table belong to, each found by one look into an index that begins with APPLICATION;
// rows of none come first, as NULL, if there are any.
func (s *Store) appsIn(ctx context.Context, table string) (apps []sql.NullString, err error) {
	var without []int
	if err := s.db.SelectContext(ctx, &without, s.prefix.SQL("SELECT 1 FROM "+table+" WHERE APPLICATION IS NULL LIMIT 1")); err != nil {
		return nil, err
	}
	if len(without) > 0 {
		apps = append(apps, sql.NullString{})
	}
	first := s.prefix.SQL("SELECT MIN(APPLICATION) FROM " + table)
	after := s.prefix.SQL("SELECT MIN(APPLICATION) FROM " + table + " WHERE APPLICATION > ?")
	for next := (sql.NullString{}); ; apps = append(apps, next) {
		if next.Valid {
			err = s.db.GetContext(ctx, &next, after, next.String)
		} else {
			err = s.db.GetContext(ctx, &next, first)
		}
		if err != nil || !next.Valid {
			return apps, err
		}
	}
}
