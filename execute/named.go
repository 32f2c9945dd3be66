package execute

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/run"
)

// Programs know their jobs and schedules by name. What is done to them is done by id (operator.go).

const (
	jobNamedSQL = `SELECT ID FROM QRTZ_JOB WHERE APPLICATION = ? AND NAME = ?`

	// The caller's snapshot may be older than the job.
	jobNamedNowSQL = jobNamedSQL + ` LOCK IN SHARE MODE`

	jobNamesSQL = `SELECT NAME FROM QRTZ_JOB WHERE APPLICATION = ? AND NAME IS NOT NULL ORDER BY NAME LIMIT 1000`
)

// JobNamed is the id of a job of the app, by its name or its former one. It locks nothing if it can: a caller's long transaction must not hold up the app's nodes.
func (s *Store) JobNamed(ctx context.Context, tx *sqlx.Tx, name string) (id int64, err error) {
	for _, query := range []string{jobNamedSQL, jobNamedNowSQL} {
		err = s.db.On(tx).Get(ctx, &id, query, s.app, name)
		if err == nil || !errors.Is(err, sql.ErrNoRows) {
			return id, err
		}
	}
	if id, err = s.jobFormerly(ctx, tx, name); !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	var names []string
	if err := s.db.On(tx).Select(ctx, &names, jobNamesSQL, s.app); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%w: app %q has no job named %q%s", run.ErrNotFound, s.app, name, suggest(name, names))
}

const (
	jobIDSQL    = `SELECT ID FROM QRTZ_JOB WHERE ID = ? AND APPLICATION = ?`
	jobIDNowSQL = jobIDSQL + ` LOCK IN SHARE MODE`
)

// CheckJob returns ErrNotFound if the app has no job of an id. Like JobNamed it locks nothing if it can.
func (s *Store) CheckJob(ctx context.Context, tx *sqlx.Tx, id int64) error {
	for _, query := range []string{jobIDSQL, jobIDNowSQL} {
		err := s.db.On(tx).Get(ctx, &id, query, id, s.app)
		if err == nil || !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	return fmt.Errorf("%w: app %q has no job %d", run.ErrNotFound, s.app, id)
}

const (
	executesOfSQL = `
SELECT ID FROM QRTZ_EXECUTE WHERE PID = ? AND (APPLICATION = ? OR APPLICATION IS NULL) AND (? = '' OR NAME = ?) ORDER BY ID FOR UPDATE`

	scheduleNamesSQL = `SELECT NAME FROM QRTZ_EXECUTE WHERE PID = ? AND NAME <> '' ORDER BY NAME LIMIT 1000`
)

// ExecutesNamed locks a schedule of a job of the app, or all of the job's if the schedule's name is empty, and returns
// their ids in order.
func (s *Store) ExecutesNamed(ctx context.Context, tx *sqlx.Tx, job, schedule string) (ids []int64, err error) {
	jobID, err := s.JobNamed(ctx, tx, job)
	if err != nil {
		return nil, err
	}
	if ids, err = s.executesOf(ctx, tx, jobID, schedule); err != nil || len(ids) > 0 || schedule == "" {
		return ids, err
	}
	var names []string
	if err := s.db.On(tx).Select(ctx, &names, scheduleNamesSQL, jobID); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: job %q has no schedule named %q%s", run.ErrNotFound, job, schedule, suggest(schedule, names))
}

// ExecutesOf locks all executes of a job of the app, and returns their ids in order.
func (s *Store) ExecutesOf(ctx context.Context, tx *sqlx.Tx, jobID int64) ([]int64, error) {
	if err := s.CheckJob(ctx, tx, jobID); err != nil {
		return nil, err
	}
	return s.executesOf(ctx, tx, jobID, "")
}

func (s *Store) executesOf(ctx context.Context, tx *sqlx.Tx, jobID int64, schedule string) (ids []int64, err error) {
	err = s.db.On(tx).Select(ctx, &ids, executesOfSQL, jobID, s.app, schedule, schedule)
	return ids, err
}

// suggest names what a person who wrote name may have meant.
func suggest(name string, names []string) string {
	var alike []string
	for _, n := range names {
		if distance(strings.ToLower(name), strings.ToLower(n)) <= 1+len(name)/5 {
			alike = append(alike, fmt.Sprintf("%q", n))
		}
	}
	if len(alike) == 0 || len(alike) > 5 {
		return ""
	}
	return "; did you mean " + strings.Join(alike, " or ") + "?"
}

// distance is how many bytes must be added, deleted or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := corner
			if a[i] != b[j] {
				replace++
			}
			corner = row[j+1]
			row[j+1] = min(replace, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
