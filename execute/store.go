// Package execute holds jobs and their executes: when an execute fires, and how a fire is claimed. It owns QRTZ_JOB and
// QRTZ_EXECUTE; the runs that a claim leaves are package run's. Not part of qrtz's API.
package execute

import (
	"sync/atomic"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// Store reads and writes the jobs and executes of one app. Three of its methods also write or read QRTZ_RUN, each in the one
// statement or packet that makes it true: HandBackFires, Glance and NextDue.
type Store struct {
	db        schema.Tables
	app       string
	runs      *run.Store
	schedules Schedules
	manyDue   atomic.Bool  // the last poll found many executes due, most of them others'
	lockMet   atomic.Int64 // when a claim last met a lock, in ns since the epoch
	deriving  *derivation  // a walk that was cut off; only DeriveJobStates uses it
	stuckTo   *Cursor      // how far StuckExecutes has come; nil: it begins again
}

// NewStore returns the store of app's jobs and executes. What a claim leaves in QRTZ_RUN goes through runs. The prefix must
// be valid.
func NewStore(db *sqlx.DB, prefix schema.Prefix, app string, runs *run.Store) *Store {
	return &Store{db: schema.Tables{DB: db, Prefix: prefix}, app: app, runs: runs}
}
