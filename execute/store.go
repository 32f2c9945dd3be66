// Package execute holds jobs, their executes and their runs: when an execute fires, how a fire is
// claimed, and what becomes of it. It owns QRTZ_JOB, QRTZ_EXECUTE and QRTZ_RUN.
package execute

import (
	"context"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// Store reads and writes the executes, jobs and runs of one app.
type Store struct {
	db        *sqlx.DB
	prefix    schema.Prefix
	app       string
	schedules Schedules
	cleanedTo int64 // the id up to which history has been cleaned; only CleanHistory uses it
}

// NewStore returns the store of app's rows. The prefix must be valid.
func NewStore(db *sqlx.DB, prefix schema.Prefix, app string) *Store {
	return &Store{db: db, prefix: prefix, app: app}
}

// Instance is who writes: a node, in the life it leads since it joined the cluster.
type Instance struct {
	HostIP, HostName string
	ID               int64
}

// selectRows runs a query that may hold IN (?) with slices.
func (s *Store) selectRows(ctx context.Context, q sqlx.QueryerContext, into any, query string, args ...any) error {
	query, args, err := sqlx.In(s.prefix.SQL(query), args...)
	if err != nil {
		return err
	}
	return sqlx.SelectContext(ctx, q, into, query, args...)
}

// execIn runs a statement that may hold IN (?) with slices.
func (s *Store) execIn(ctx context.Context, e sqlx.ExecerContext, query string, args ...any) error {
	query, args, err := sqlx.In(s.prefix.SQL(query), args...)
	if err != nil {
		return err
	}
	_, err = e.ExecContext(ctx, query, args...)
	return err
}

// execAlone is execIn outside a transaction, tried again after a deadlock.
func (s *Store) execAlone(ctx context.Context, query string, args ...any) error {
	return schema.Again(ctx, func() error { return s.execIn(ctx, s.db, query, args...) })
}

// values is a derived table of n rows, its columns named by the first: SELECT ? AS A, ? AS B UNION ALL SELECT ?, ? …
// Joined on a primary key it always plans as key lookups, where CASE … WHERE ID IN (…) drifts to a scan.
func values(n int, columns ...string) string {
	first := "SELECT ? AS " + strings.Join(columns, ", ? AS ")
	other := " UNION ALL SELECT ?" + strings.Repeat(", ?", len(columns)-1)
	return "(" + first + strings.Repeat(other, n-1) + ")"
}
