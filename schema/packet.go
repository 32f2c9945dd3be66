package schema

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
)

// Packet is a transaction that is known beforehand, statement by statement. On a connection of the engine's own (Link) that
// takes several statements at once it travels as one packet, from BEGIN to COMMIT: no lock is held while this process
// could stop talking to the server. On others it is sent step by step.
//
// A statement cannot depend on what this process reads from an earlier one, only on what the earlier one left in the tables
// or in the session's variables.
type Packet struct {
	within, after []step
	expand        func(query string, args []any) (string, []any, error) // of Tables; nil: statements are as the server gets them
	err           error                                                 // the first statement that could not be expanded
}

// step is a statement of a packet. Its rows, if it returns any, go to scan one by one.
type step struct {
	query string
	args  []any
	scan  func(*sqlx.Rows) error
}

// Exec adds a statement that returns no rows.
func (p *Packet) Exec(query string, args ...any) {
	p.within = append(p.within, p.step(query, args, nil))
}

// Select adds a query. The server holds the packet's locks while it sends the rows: ask for few and small ones.
func (p *Packet) Select(scan func(*sqlx.Rows) error, query string, args ...any) {
	p.within = append(p.within, p.step(query, args, scan))
}

// Then adds a query that is made after the COMMIT, whatever its size. The first must be one that cannot fail by itself: its answer tells that the
// COMMIT was carried out.
func (p *Packet) Then(scan func(*sqlx.Rows) error, query string, args ...any) {
	p.after = append(p.after, p.step(query, args, scan))
}

func (p *Packet) step(query string, args []any, scan func(*sqlx.Rows) error) step {
	if p.expand != nil {
		var err error
		if query, args, err = p.expand(query, args); err != nil && p.err == nil {
			p.err = err
		}
	}
	return step{query, args, scan}
}

// InPacket builds a packet and carries it out in a READ COMMITTED transaction. When the server picks it as the victim of a
// conflict, it is built and carried out again, as by InTx; a lock that cannot be had in time (Locked) is returned at
// once. When the answer to the COMMIT is lost, or that of the packet it is in, the error is ErrCommitUnknown. The packet
// may then still be on its way: the server may carry it out later.
func InPacket(ctx context.Context, db *sqlx.DB, build func(p *Packet) error) error {
	return inPacket(ctx, db, nil, build)
}

func inPacket(ctx context.Context, db *sqlx.DB, expand func(string, []any) (string, []any, error), build func(p *Packet) error) error {
	return Again(ctx, func() error {
		p := Packet{expand: expand}
		if err := errors.Join(build(&p), p.err); err != nil {
			return err
		}
		return p.run(ctx, db)
	})
}

func (p *Packet) run(ctx context.Context, db *sqlx.DB) error {
	conn, err := db.Connx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // back to the pool
	var link linked
	if err := conn.Raw(func(raw any) error {
		link, _ = raw.(linked)
		return nil
	}); err != nil {
		return err
	}
	if link != nil && link.TakesPackets() {
		return p.inOne(ctx, conn, link)
	}
	return p.inSteps(ctx, conn, link)
}

// linked is a connection of the engine's own.
type linked interface {
	TakesPackets() bool
	idleLimit() (begin, end string) // statements around a transaction that have the server end it when it is idle; empty if the session does
}

// answered is the query that tells that the statement before it has been carried out.
const answered = `SELECT 1`

// inOne sends everything at once. Which result sets have arrived tells how far the server came.
func (p *Packet) inOne(ctx context.Context, conn *sqlx.Conn, link linked) error {
	begin, end := link.idleLimit()
	texts := make([]string, 0, len(p.within)+len(p.after)+6)
	var args []any
	var sets []func(*sqlx.Rows) error
	add := func(s step) {
		texts, args = append(texts, s.query), append(args, s.args...)
		if s.scan != nil {
			sets = append(sets, s.scan)
		}
	}
	ignore := func(*sqlx.Rows) error { return nil }
	if begin != "" {
		texts = append(texts, begin)
	}
	texts = append(texts, `BEGIN`)
	for _, s := range p.within {
		add(s)
	}
	if len(p.within) == 0 || p.within[len(p.within)-1].scan == nil {
		add(step{answered, nil, ignore})
	}
	beforeCommit := len(sets)
	texts = append(texts, `COMMIT`)
	if end != "" {
		texts = append(texts, end)
	}
	committed := len(sets) + 1
	if len(p.after) == 0 {
		add(step{answered, nil, ignore})
	}
	for _, s := range p.after {
		add(s)
	}
	seen, err := readSets(ctx, conn, strings.Join(texts, ";\n"), args, sets)
	if err == nil || errors.Is(err, driver.ErrBadConn) { // ErrBadConn: nothing was sent
		return err
	}
	var refused *mysql.MySQLError
	switch {
	case seen >= committed:
		return fmt.Errorf("read after commit: %w: %w", ErrCommitUnknown, err)
	case errors.As(err, &refused) && (seen < beforeCommit || Retryable(err)):
		return errors.Join(err, rollback(ctx, conn, end))
	default:
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
}

// readSets reads the result sets of a packet, as many as there are functions for them, and returns how many arrived whole.
func readSets(ctx context.Context, conn *sqlx.Conn, text string, args []any, sets []func(*sqlx.Rows) error) (seen int, err error) {
	rows, err := conn.QueryxContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	var scanned error // a row that cannot be read does not keep the others from being so: COMMIT comes later
	for i, scan := range sets {
		if i > 0 && !rows.NextResultSet() {
			return seen, cmp.Or(rows.Err(), errShort)
		}
		set := &sqlx.Rows{Rows: rows.Rows, Mapper: rows.Mapper} // of its own: it remembers the columns
		for set.Next() {
			if err := scan(set); err != nil && scanned == nil {
				scanned = err
			}
		}
		if err := set.Err(); err != nil {
			return seen, err
		}
		seen++
	}
	for rows.NextResultSet() { // errors of what comes after the last query
	}
	if err := rows.Err(); err != nil {
		return seen, err
	}
	return seen, scanned
}

// errShort means that a result set is missing though the server reports no error.
var errShort = errors.New("the server's answer ended early")

func rollback(ctx context.Context, conn *sqlx.Conn, end string) error {
	if end != "" {
		end = "; " + end
	}
	ctx, cancel := rollingBack(ctx)
	defer cancel()
	if _, err := conn.ExecContext(ctx, `ROLLBACK`+end); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // a connection that is closed rolls back, too
	}
	return nil
}

// inSteps sends one statement after the other. Where the session can tell the server so, a transaction that this process
// leaves idle is ended within a second or two.
func (p *Packet) inSteps(ctx context.Context, conn *sqlx.Conn, link linked) error {
	if link != nil {
		if begin, end := link.idleLimit(); begin != "" {
			if _, err := conn.ExecContext(ctx, begin); err != nil {
				return err
			}
			defer func() {
				ctx, cancel := rollingBack(ctx)
				defer cancel()
				if _, err := conn.ExecContext(ctx, end); err != nil {
					_ = conn.Raw(func(any) error { return driver.ErrBadConn })
				}
			}()
		}
	}
	tx, err := conn.BeginTxx(ctx, readCommitted)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, s := range p.within {
		if err := s.carryOut(ctx, tx); err != nil {
			_ = tx.Rollback() // the first error says more; a broken connection rolls back by itself
			return err
		}
	}
	if err := commit(tx); err != nil {
		return err
	}
	for _, s := range p.after {
		if err := s.carryOut(ctx, conn); err != nil {
			return fmt.Errorf("read after commit: %w: %w", ErrCommitUnknown, err)
		}
	}
	return nil
}

// ExecQueryer is a connection, a pool or a transaction.
type ExecQueryer interface {
	sqlx.ExecerContext
	sqlx.QueryerContext
}

func (s step) carryOut(ctx context.Context, q ExecQueryer) error {
	if s.scan == nil {
		_, err := q.ExecContext(ctx, s.query, s.args...)
		return err
	}
	rows, err := q.QueryxContext(ctx, s.query, s.args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := s.scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
