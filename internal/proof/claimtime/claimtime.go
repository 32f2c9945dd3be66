// Package claimtime measures how long a claim takes. It uses little of qrtz, and no other package of internal, so that
// `make bench/compare` can build a copy of it in an earlier state of the repository: what differs there is in engine_earlier.go.
package claimtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	app    = "claimtime"
	warmUp = 5 // claims of each size that are not counted

	// The node that claims.
	nodeID   = "claimtime"
	hostName = "host"
	instance = 1
)

// Size is so many claims, of so many fires each.
type Size struct {
	Fires  int `json:"fires"`
	Claims int `json:"claims"`
}

// Time is how long the claims of one size took.
type Time struct {
	Size
	MedianMs float64 `json:"median_ms"`
	P99Ms    float64 `json:"p99_ms"`
}

// Measure makes qrtz's tables in the empty database of a DSN and claims fires there, one claim after another, each from
// executes of its own size's.
func Measure(ctx context.Context, dsn string, sizes []Size) ([]Time, error) {
	plain, err := openPlain(dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = plain.Close() }()
	if err := store(ctx, plain); err != nil {
		return nil, err
	}
	engine, err := open(dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = engine.Close() }()
	var times []Time
	for i, size := range sizes {
		job := int64(i + 1)
		first := time.Now().Add(-24 * time.Hour).Truncate(time.Second)
		if err := addExecutes(ctx, plain, job, size.Fires, first); err != nil {
			return nil, err
		}
		took, err := measure(ctx, engine, job, size, first)
		if err != nil {
			return nil, fmt.Errorf("claims of %d fires: %w", size.Fires, err)
		}
		times = append(times, Time{size, percentile(took, 50), percentile(took, 99)})
	}
	return times, nil
}

// openPlain opens a pool for all that is not measured.
func openPlain(dsn string) (*sqlx.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.InterpolateParams = true
	db, err := sqlx.Open("mysql", cfg.FormatDSN())
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(4)
	return db, nil
}

// store makes the tables, with an app and a node that are switched on.
func store(ctx context.Context, db *sqlx.DB) error {
	if _, err := schema.Up(ctx, db.DB, schema.DefaultPrefix); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `INSERT INTO QRTZ_APP (APPLICATION, STATE) VALUES (?, 'Y')`, app); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, `INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE) VALUES (?, ?, ?, 'Y', 0, ?)`,
		app, nodeID, hostName, instance)
	return err
}

// measure claims the fires of a job's executes, one of each at a time, again and again. All of them are long due.
func measure(ctx context.Context, db *sqlx.DB, job int64, size Size, first time.Time) ([]time.Duration, error) {
	s := newStore(db)
	class := fmt.Sprint("tick", job)
	due, err := s.Due(ctx, first, first.Add(time.Second/2), nil, func(_ int64, of string) bool { return of == class })
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for n := range warmUp + size.Claims {
		moves := make([]execute.Move, len(due))
		for i, e := range due {
			moves[i] = claimNext(e)
		}
		began := time.Now()
		won, err := s.Claim(ctx, who, moves)
		if err != nil {
			return nil, err
		}
		if n >= warmUp {
			took = append(took, time.Since(began))
		}
		if due = won.Moved; len(due) != size.Fires || len(won.Runs) != size.Fires {
			return nil, fmt.Errorf("won %d of %d fires, and %d runs", len(due), size.Fires, len(won.Runs))
		}
	}
	return took, nil
}

// addExecutes adds a job with n executes that fire every second.
func addExecutes(ctx context.Context, db *sqlx.DB, job int64, n int, first time.Time) error {
	_, err := db.ExecContext(ctx, `INSERT INTO QRTZ_JOB (ID, APPLICATION, STATE, JOB_CLASS, JOB_DATA, UPDATE_TIME) VALUES (?, ?, 'EXECUTING', ?, '{"n": 1}', 0)`,
		job, app, fmt.Sprint("tick", job))
	if err != nil {
		return err
	}
	const row = `(?, ?, 'SIMPLE', 'EXECUTING', -1, 1000, ?, ?, '2020-01-01')`
	var args []any
	for range n {
		args = append(args, job, app, first.UnixMilli(), first.UnixMilli())
	}
	_, err = db.ExecContext(ctx, `INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, NEXT_FIRE_TIME,
		CHANGED_AT) VALUES `+row+strings.Repeat(", "+row, n-1), args...)
	return err
}

// percentile is what so many percent of the times do not exceed, in milliseconds.
func percentile(times []time.Duration, percent int) float64 {
	slices.Sort(times)
	if len(times) == 0 {
		return 0
	}
	at := min((len(times)*percent+99)/100, len(times))
	return float64(times[max(at, 1)-1].Microseconds()) / 1000
}
