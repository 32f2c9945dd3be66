//go:build plain

package claimtime

import "github.com/jmoiron/sqlx"

// open opens a pool like any other, as a node used it before the engine had connections of its own.
func open(dsn string) (*sqlx.DB, error) { return openPlain(dsn) }
