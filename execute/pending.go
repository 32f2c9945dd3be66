package execute

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// What waits for another run of its job is left out: a long queue must not hide the runs of other jobs.
const pendingSQL = `
SELECT R.ID, R.AVAILABLE_AT, J.JOB_CLASS
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
  LEFT JOIN QRTZ_RUN B ON B.OVERLAP_KEY = R.JOB_ID AND B.STATE = 'RUNNING'
 WHERE R.APPLICATION = ? AND R.STATE = 'PENDING' AND R.AVAILABLE_AT <= ? AND J.JOB_CLASS IN (?)
   AND (B.ID IS NULL OR J.OVERLAP = 'ALLOW')
 ORDER BY R.AVAILABLE_AT, R.ID LIMIT ?`

// Waiting is a run that somebody may claim.
type Waiting struct {
	RunID       int64
	Class       string
	AvailableAt time.Time
}

// Waiting reads the PENDING runs of the given classes that are available at now, the oldest first, at most limit.
func (s *Store) Waiting(ctx context.Context, classes []string, now time.Time, limit int) ([]Waiting, error) {
	if len(classes) == 0 {
		return nil, nil
	}
	var rows []struct {
		ID          int64  `db:"ID"`
		AvailableAt int64  `db:"AVAILABLE_AT"`
		Class       string `db:"JOB_CLASS"`
	}
	if err := s.selectRows(ctx, s.db, &rows, pendingSQL, s.app, now.UnixMilli(), classes, limit); err != nil {
		return nil, fmt.Errorf("read pending runs: %w", err)
	}
	waiting := make([]Waiting, len(rows))
	for i, r := range rows {
		waiting[i] = Waiting{RunID: r.ID, Class: r.Class, AvailableAt: time.UnixMilli(r.AvailableAt)}
	}
	return waiting, nil
}

const (
	// The switches are locked before anything else, as the claim of a fire does within its UPDATE.
	lockSwitchesSQL = `
SELECT N.INSTANCE FROM QRTZ_NODE N JOIN QRTZ_APP A ON A.APPLICATION = ?
 WHERE N.APPLICATION = ? AND N.HOST_IP = ? AND N.INSTANCE = ? AND N.STATE = 'Y' AND A.STATE = 'Y' LOCK IN SHARE MODE`

	raiseFencesSQL = `
UPDATE QRTZ_EXECUTE E JOIN QRTZ_RUN R ON R.EXECUTE_ID = E.ID
   SET E.FENCE = E.FENCE + 1, E.CHANGED_AT = E.CHANGED_AT
 WHERE R.ID IN (?) AND R.STATE = 'PENDING'`

	prepareSQL = `
UPDATE QRTZ_RUN R LEFT JOIN QRTZ_EXECUTE E ON E.ID = R.EXECUTE_ID
   SET R.FENCE = COALESCE(E.FENCE, R.FENCE + 1), R.FIRE_TIME = IF(R.FIRE_TIME = 0, ` + schema.NowMillisSQL + `, R.FIRE_TIME)
 WHERE R.ID IN (?) AND R.STATE = 'PENDING'`

	claimPendingSQL = `
UPDATE QRTZ_RUN R SET R.STATE = 'RUNNING', R.HOST_IP = ?, R.INSTANCE = ?, R.CLAIMED_AT = ` + schema.NowMillisSQL + `
 WHERE R.ID IN (?) AND R.STATE = 'PENDING'`

	claimedRunsSQL = `
SELECT ` + runColumns + `
  FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.ID IN (?) AND R.STATE = 'RUNNING' AND R.INSTANCE = ?`

	preparedSQL = `
SELECT R.ID, R.JOB_ID, COALESCE(J.OVERLAP, 'ALLOW') AS OVERLAP FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.ID IN (?) AND R.STATE = 'PENDING' ORDER BY R.JOB_ID, R.AVAILABLE_AT, R.ID`

	dropCancelledSQL = `
UPDATE QRTZ_RUN SET STATE = 'CANCELLED', FINISHED_AT = ` + schema.NowMillisSQL + `, MESSAGE = 'cancelled before it was started'
 WHERE ID IN (?) AND STATE = 'PENDING' AND CANCEL_AT IS NOT NULL`
)

// ClaimWaiting wins the PENDING runs it can and returns them in order of fire time. As with Claim, what
// others won is missing from the result; so is a run that must be the only one of its job while another goes:
// it waits on. No two calls of one instance may name the same run at once.
func (s *Store) ClaimWaiting(ctx context.Context, who Instance, runIDs []int64) ([]Run, error) {
	if len(runIDs) == 0 {
		return nil, nil
	}
	slices.Sort(runIDs)
	var runs []Run
	err := schema.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		runs = nil
		var on []int64
		if err := s.selectRows(ctx, tx, &on, lockSwitchesSQL, s.app, s.app, who.HostIP, who.ID); err != nil || len(on) == 0 {
			return err
		}
		if err := s.execIn(ctx, tx, dropCancelledSQL, runIDs); err != nil {
			return err
		}
		if err := s.execIn(ctx, tx, raiseFencesSQL, runIDs); err != nil {
			return err
		}
		if err := s.execIn(ctx, tx, prepareSQL, runIDs); err != nil {
			return err
		}
		rest, err := s.claimExclusive(ctx, tx, who, runIDs)
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			if err := s.execIn(ctx, tx, claimPendingSQL, who.HostIP, who.ID, rest); err != nil {
				return err
			}
		}
		runs, err = s.claimed(ctx, tx, runIDs, who)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim pending runs: %w", err)
	}
	return runs, nil
}

// claimExclusive claims, one by one, the runs that must be the only ones of their jobs, and returns the others.
func (s *Store) claimExclusive(ctx context.Context, tx *sqlx.Tx, who Instance, runIDs []int64) (rest []int64, err error) {
	var prepared []struct {
		ID      int64   `db:"ID"`
		JobID   int64   `db:"JOB_ID"`
		Overlap Overlap `db:"OVERLAP"`
	}
	if err := s.selectRows(ctx, tx, &prepared, preparedSQL, runIDs); err != nil {
		return nil, err
	}
	tried := map[int64]bool{}
	for _, run := range prepared {
		if run.Overlap == OverlapAllow {
			rest = append(rest, run.ID)
			continue
		}
		if tried[run.JobID] {
			continue // behind the one that was just tried
		}
		tried[run.JobID] = true
		first, err := s.firstInLine(ctx, tx, run.JobID, run.ID)
		if err != nil {
			return nil, err
		}
		if !first {
			continue
		}
		if _, err := s.tryExclusive(ctx, tx, who, run.ID); err != nil {
			return nil, err
		}
	}
	slices.Sort(rest)
	return rest, nil
}

func (s *Store) claimed(ctx context.Context, q sqlx.QueryerContext, ids []int64, who Instance) ([]Run, error) {
	var rows []runRow
	if err := s.selectRows(ctx, q, &rows, claimedRunsSQL, ids, who.ID); err != nil {
		return nil, err
	}
	runs := make([]Run, len(rows))
	for i, r := range rows {
		runs[i] = r.run(who)
	}
	slices.SortFunc(runs, byFireTime)
	return runs, nil
}
