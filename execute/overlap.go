package execute

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

const (
	startExclusiveSQL = `
UPDATE QRTZ_RUN SET STATE = 'RUNNING', OVERLAP_KEY = JOB_ID, HOST_IP = ?, INSTANCE = ?, CLAIMED_AT = ` + schema.NowMillisSQL + `
 WHERE ID = ? AND STATE = 'PENDING'`

	skipOverlappingSQL = `
UPDATE QRTZ_RUN SET STATE = 'SKIPPED', FINISHED_AT = ` + schema.NowMillisSQL + `, MESSAGE = ?
 WHERE ID = ? AND STATE = 'PENDING'`

	surplusSQL = `
SELECT ID, EXECUTE_ID, FIRE_TIME FROM QRTZ_RUN
 WHERE APPLICATION = ? AND STATE = 'PENDING' AND JOB_ID = ? AND AVAILABLE_AT <= ` + schema.NowMillisSQL + ` + 1000
   AND EXECUTE_ID IS NOT NULL AND ATTEMPT = 1
 ORDER BY FIRE_TIME = 0 DESC, FIRE_TIME DESC, ID DESC LIMIT 1000 OFFSET ?`

	firstInLineSQL = `
SELECT ID FROM QRTZ_RUN
 WHERE APPLICATION = ? AND STATE = 'PENDING' AND JOB_ID = ? AND AVAILABLE_AT <= ` + schema.NowMillisSQL + ` + 1000
 ORDER BY AVAILABLE_AT, ID LIMIT 1`
)

const (
	overlapSkipped = "overlap: another run of the job was going (OVERLAP is SKIP)"
	queueFull      = "overlap: more than %d runs of the job were waiting (QUEUE_LIMIT)"
)

// startExclusive starts those of the runs whose job lets only one go at a time and has none going, and leaves out the
// others: they are skipped, or wait as PENDING. A unique key on OVERLAP_KEY decides, so that neither two nodes nor a
// crash can get round it: what violates it fails, and only that statement is undone.
func (s *Store) startExclusive(ctx context.Context, tx *sqlx.Tx, who Instance, runs []Run) (started []Run, skipped []SkippedFire, err error) {
	if !slices.ContainsFunc(runs, func(r Run) bool { return r.Options.exclusive() }) {
		return runs, nil, nil // most claims: nothing to be put in order, nothing to be copied
	}
	// In order of job, so that two claims that meet here do not wait for each other.
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Or(cmp.Compare(a.JobID, b.JobID), byFireTime(a, b)) })
	busy := map[int64]bool{}
	for _, run := range runs {
		if !run.Options.exclusive() {
			started = append(started, run)
			continue
		}
		ours := false
		if !busy[run.JobID] {
			if ours, err = s.tryInTurn(ctx, tx, who, run); err != nil {
				return nil, nil, err
			}
			busy[run.JobID] = true // now it is, by us or by another, or soon by one that waits
		}
		if ours {
			started = append(started, run)
			continue
		}
		more, err := s.leaveOverlapping(ctx, tx, run)
		if err != nil {
			return nil, nil, err
		}
		skipped = append(skipped, more...)
	}
	return started, skipped, nil
}

// tryInTurn tries to start a run; with OverlapQueue only if none has been waiting for longer.
func (s *Store) tryInTurn(ctx context.Context, tx *sqlx.Tx, who Instance, run Run) (bool, error) {
	if run.Options.Overlap == OverlapQueue {
		if first, err := s.firstInLine(ctx, tx, run.JobID, run.ID); err != nil || !first {
			return false, err
		}
	}
	return s.tryExclusive(ctx, tx, who, run.ID)
}

// firstInLine tells whether a run is the one of its job that has been waiting for longest.
func (s *Store) firstInLine(ctx context.Context, tx *sqlx.Tx, jobID, runID int64) (bool, error) {
	var first []int64
	if err := tx.SelectContext(ctx, &first, s.prefix.SQL(firstInLineSQL), s.app, jobID); err != nil {
		return false, fmt.Errorf("look for the first in line: %w", err)
	}
	return len(first) == 0 || first[0] == runID, nil
}

func (s *Store) tryExclusive(ctx context.Context, tx *sqlx.Tx, who Instance, runID int64) (bool, error) {
	done, err := tx.ExecContext(ctx, s.prefix.SQL(startExclusiveSQL), who.HostIP, who.ID, runID)
	if schema.Duplicate(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("start run %d: %w", runID, err)
	}
	n, err := done.RowsAffected()
	return n == 1, err
}

// leaveOverlapping does with a run that found no room what its job's rule says.
func (s *Store) leaveOverlapping(ctx context.Context, tx *sqlx.Tx, run Run) ([]SkippedFire, error) {
	if run.Options.Overlap == OverlapSkip {
		return s.skip(ctx, tx, run, overlapSkipped)
	}
	var surplus []struct {
		ID        int64  `db:"ID"`
		ExecuteID *int64 `db:"EXECUTE_ID"`
		FireTime  int64  `db:"FIRE_TIME"`
	}
	if err := tx.SelectContext(ctx, &surplus, s.prefix.SQL(surplusSQL), s.app, run.JobID, run.Options.QueueLimit); err != nil {
		return nil, fmt.Errorf("look for runs beyond the queue's limit: %w", err)
	}
	var skipped []SkippedFire
	for _, old := range surplus {
		one := Run{ID: old.ID, JobID: run.JobID, Class: run.Class, FireTime: time.UnixMilli(old.FireTime)}
		if old.ExecuteID != nil {
			one.ExecuteID = *old.ExecuteID
		}
		more, err := s.skip(ctx, tx, one, fmt.Sprintf(queueFull, run.Options.QueueLimit))
		if err != nil {
			return nil, err
		}
		skipped = append(skipped, more...)
	}
	return skipped, nil
}

func (s *Store) skip(ctx context.Context, tx *sqlx.Tx, run Run, why string) ([]SkippedFire, error) {
	if _, err := tx.ExecContext(ctx, s.prefix.SQL(skipOverlappingSQL), why, run.ID); err != nil {
		return nil, fmt.Errorf("skip run %d: %w", run.ID, err)
	}
	return []SkippedFire{{
		JobID: run.JobID, ExecuteID: run.ExecuteID, Class: run.Class,
		NewRun: NewRun{State: Skipped, FireTime: run.FireTime, Count: 1, Message: why},
	}}, nil
}
