//go:build !earlier

package claimtime

import (
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

var who = node.Instance{NodeID: nodeID, HostName: hostName, ID: instance}

func newStore(db *sqlx.DB) *execute.Store {
	return execute.NewStore(db, schema.DefaultPrefix, app, run.NewStore(db, schema.DefaultPrefix, app))
}

// claimNext is the move that claims the next fire of an execute.
func claimNext(e *execute.Execute) execute.Move { return e.ClaimMove([]time.Time{e.Next}) }

// open opens connections of the engine's own, as a node uses them.
func open(dsn string) (*sqlx.DB, error) {
	link, err := schema.Dial(dsn)
	if err != nil {
		return nil, err
	}
	return link.Pool(4), nil
}
