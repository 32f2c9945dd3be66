//go:build earlier

package claimtime

import (
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/schema"
)

// This file is for states of the repository that do not have this package. It builds only there.

var who = execute.Instance{HostIP: nodeID, HostName: hostName, ID: instance}

func newStore(db *sqlx.DB) *execute.Store { return execute.NewStore(db, schema.DefaultPrefix, app) }

// claimNext is the move that claims the next fire of an execute.
func claimNext(e *execute.Execute) execute.Move { return e.Claim([]time.Time{e.Next}) }

// open opens a pool like any other, as a node used it before the engine had connections of its own.
func open(dsn string) (*sqlx.DB, error) { return openPlain(dsn) }
