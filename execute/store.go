// Package execute holds jobs, their executes and their runs: when an execute fires, how a fire is
// claimed, and what becomes of it. It owns QRTZ_JOB, QRTZ_EXECUTE and QRTZ_RUN.
package execute

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/schema"
)

// Store reads and writes the executes, jobs and runs of one app.
type Store struct {
	db        schema.Tables
	app       string
	schedules Schedules
	lockMet   atomic.Int64 // when a claim last met a lock, in ns since the epoch
	weighing  atomic.Int64 // how many runs' data is measured by one statement; 0: as many as at first
	deriving  *derivation  // a walk that was cut off; only DeriveJobStates uses it
	cleaning  cleaning     // only CleanHistory uses it
	stranded  *runCursor   // how far StuckRuns has come; nil: it begins again
	overdue   *Cursor      // how far StuckExecutes has come, likewise
	keysTo    *int64       // how far freeKeys has come, likewise
}

// NewStore returns the store of app's rows. The prefix must be valid.
func NewStore(db *sqlx.DB, prefix schema.Prefix, app string) *Store {
	return &Store{db: schema.Tables{DB: db, Prefix: prefix}, app: app}
}

// Instance is who writes: a node, in the life it leads since it joined the cluster.
type Instance struct {
	HostIP, HostName string
	ID               int64
}

// values is a derived table of rows, given one after another, with the named columns:
//
//	(SELECT ? AS A, ? AS B UNION ALL SELECT ?, ? …)
//
// Joined on a primary key it always plans as key lookups, where CASE … WHERE ID IN (…) drifts to a scan. The server takes
// as long to parse the rows as to look them up: a column that says the same in all of them, or the same as another one, is
// put beside them once. It returns the arguments that go with the text. The first column is the key, and no value may be
// of a type that cannot be compared.
func values(rows []any, columns ...string) (table string, args []any) {
	n := len(columns)
	var outer, inner []string
	var own []int // the columns that rows differ in
	for c, name := range columns {
		same := slices.IndexFunc(own, func(o int) bool {
			return every(rows, n, func(row []any) bool { return row[o] == row[c] })
		})
		switch {
		case c > 0 && every(rows, n, func(row []any) bool { return row[c] == rows[c] }):
			outer, args = append(outer, "? AS "+name), append(args, rows[c])
		case same >= 0:
			outer = append(outer, "X."+columns[own[same]]+" AS "+name)
		default:
			outer, inner, own = append(outer, "X."+name), append(inner, "? AS "+name), append(own, c)
		}
	}
	for row := range slices.Chunk(rows, n) {
		for _, c := range own {
			args = append(args, row[c])
		}
	}
	others := strings.Repeat(" UNION ALL SELECT ?"+strings.Repeat(", ?", len(own)-1), len(rows)/n-1)
	return "(SELECT " + strings.Join(outer, ", ") + " FROM (SELECT " + strings.Join(inner, ", ") + others + ") X)", args
}

// every tells whether a test holds for all rows, of n columns each.
func every(rows []any, n int, test func(row []any) bool) bool {
	for row := range slices.Chunk(rows, n) {
		if !test(row) {
			return false
		}
	}
	return true
}

// clip shortens text to at most n bytes of whole, valid UTF-8, as a column takes it.
func clip(s string, n int) string { return text.Clip(s, n) }
