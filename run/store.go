// Package run holds runs: what becomes of a fire, or of a run that a program or a person asked for, from the row that waits
// to be claimed to the row that says how it ended. It owns QRTZ_RUN. Not part of qrtz's API.
package run

import (
	"sync/atomic"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// Store reads and writes the runs of one app.
type Store struct {
	db       schema.Tables
	app      string
	weighing atomic.Int64 // how many runs' data is measured by one statement; 0: as many as at first
	crowded  crowded      // what is pending that this node cannot run is in the way
	cleaned  cleanedTo    // how far CleanHistory has come, which alone uses it
	stuckTo  *cursor      // how far StuckRuns has come; nil: it begins again
	keysTo   *keyCursor   // how far FreeOverlapKeys has come, likewise
	zones    zones
}

// NewStore returns the store of app's runs. The prefix must be valid.
func NewStore(db *sqlx.DB, prefix schema.Prefix, app string) *Store {
	return &Store{db: schema.Tables{DB: db, Prefix: prefix}, app: app}
}
