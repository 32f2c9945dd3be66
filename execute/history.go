package execute

import (
	"context"
	"fmt"
	"time"
)

const (
	cleanPage   = 500  // rows looked at, and so deleted, by one statement
	cleanPages  = 1000 // pages of one pass with something to delete, so that other housekeeping goes on
	barrenPages = 20   // pages of one pass with nothing to delete, so that a pass at rest costs little
)

const (
	// Runs whose job has been deleted are kept as long as by default. A run that was given its state by hand may lack
	// FINISHED_AT; it ended no earlier than it was to begin.
	expiredSQL = `
SELECT R.ID, COALESCE(R.FINISHED_AT, R.CLAIMED_AT, R.AVAILABLE_AT) AS FINISHED, COALESCE(J.KEEP_FOR, ?) AS KEEP_FOR
  FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.APPLICATION = ? AND R.ID > ? AND R.STATE NOT IN ('PENDING', 'RUNNING')
 ORDER BY R.ID LIMIT ?`

	shortestSQL = `SELECT LEAST(COALESCE(MIN(KEEP_FOR), ?), ?) FROM QRTZ_JOB WHERE APPLICATION = ? AND KEEP_FOR > 0`

	countedJobsSQL = `SELECT ID, KEEP_RUNS FROM QRTZ_JOB WHERE APPLICATION = ? AND KEEP_RUNS > 0`

	surplusRunsSQL = `
SELECT ID FROM QRTZ_RUN WHERE JOB_ID = ? AND STATE NOT IN ('PENDING', 'RUNNING') ORDER BY ID DESC LIMIT ? OFFSET ?`

	deleteRunsSQL = `DELETE FROM QRTZ_RUN WHERE ID IN (?) AND STATE NOT IN ('PENDING', 'RUNNING')`
)

// CleanHistory deletes finished runs that their job keeps no longer, by age (KEEP_FOR) and by number (KEEP_RUNS), in small
// batches by primary key, and returns how many. One call does a bounded amount of work; the next goes on where it ended.
// It also cancels what waits for a job that is gone.
func (s *Store) CleanHistory(ctx context.Context, now time.Time) (deleted int, err error) {
	if err := s.cancelOrphans(ctx, now); err != nil {
		return 0, fmt.Errorf("cancel what waits for a job that is gone: %w", err)
	}
	byAge, err := s.cleanByAge(ctx, now)
	if err != nil {
		return byAge, fmt.Errorf("clean history by age: %w", err)
	}
	byNumber, err := s.cleanByNumber(ctx)
	if err != nil {
		return byAge + byNumber, fmt.Errorf("clean history by number: %w", err)
	}
	return byAge + byNumber, nil
}

// cleanByAge walks through the runs from the oldest on, page by page, up to where they are younger than any job wants
// deleted. Runs that are kept longer than others lie in its way; it remembers how far it came, and goes on there.
func (s *Store) cleanByAge(ctx context.Context, now time.Time) (deleted int, err error) {
	var shortest int64
	orphan := Defaults().KeepFor.Milliseconds()
	if err := s.db.GetContext(ctx, &shortest, s.prefix.SQL(shortestSQL), orphan, orphan, s.app); err != nil {
		return 0, err
	}
	for full, barren := 0, 0; full < cleanPages && barren < barrenPages; {
		var page []struct {
			ID       int64 `db:"ID"`
			Finished int64 `db:"FINISHED"`
			KeepFor  int64 `db:"KEEP_FOR"`
		}
		if err := s.selectRows(ctx, s.db, &page, expiredSQL, orphan, s.app, s.cleanedTo, cleanPage); err != nil {
			return deleted, err
		}
		var ids []int64
		for _, r := range page {
			if r.KeepFor > 0 && r.Finished < now.UnixMilli()-r.KeepFor {
				ids = append(ids, r.ID)
			}
		}
		if len(ids) == 0 {
			barren++
		} else {
			full++
			if err := s.execAlone(ctx, deleteRunsSQL, ids); err != nil {
				return deleted, err
			}
			deleted += len(ids)
		}
		if len(page) < cleanPage || page[0].Finished > now.UnixMilli()-shortest {
			s.cleanedTo = 0 // the next pass begins with the oldest again
			return deleted, nil
		}
		s.cleanedTo = page[len(page)-1].ID
	}
	return deleted, nil
}

func (s *Store) cleanByNumber(ctx context.Context) (deleted int, err error) {
	var jobs []struct {
		ID       int64 `db:"ID"`
		KeepRuns int   `db:"KEEP_RUNS"`
	}
	if err := s.selectRows(ctx, s.db, &jobs, countedJobsSQL, s.app); err != nil {
		return 0, err
	}
	for _, job := range jobs {
		for range cleanPages {
			var ids []int64
			if err := s.selectRows(ctx, s.db, &ids, surplusRunsSQL, job.ID, cleanPage, job.KeepRuns); err != nil {
				return deleted, err
			}
			if len(ids) == 0 {
				break
			}
			if err := s.execAlone(ctx, deleteRunsSQL, ids); err != nil {
				return deleted, err
			}
			deleted += len(ids)
		}
	}
	return deleted, nil
}
