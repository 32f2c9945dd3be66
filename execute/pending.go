package execute

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

const pendingSQL = `
SELECT R.ID, R.AVAILABLE_AT, J.JOB_CLASS
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.APPLICATION = ? AND R.STATE = 'PENDING' AND R.AVAILABLE_AT <= ? AND J.JOB_CLASS IN (?)
 ORDER BY R.AVAILABLE_AT LIMIT ?`

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
	claimPendingSQL = `
UPDATE QRTZ_RUN R
  JOIN %s V ON V.ID = R.ID
  JOIN QRTZ_NODE N ON N.APPLICATION = ? AND N.HOST_IP = ?
  JOIN QRTZ_APP A ON A.APPLICATION = ?
  LEFT JOIN QRTZ_EXECUTE E ON E.ID = R.EXECUTE_ID
   SET R.STATE = 'RUNNING', R.HOST_IP = ?, R.INSTANCE = ?, R.CLAIMED_AT = ` + schema.NowMillisSQL + `,
       R.FENCE = COALESCE(E.FENCE, 0)
 WHERE R.STATE = 'PENDING' AND N.INSTANCE = ? AND N.STATE = 'Y' AND A.STATE = 'Y'`

	raiseFencesSQL = `
UPDATE QRTZ_EXECUTE E JOIN QRTZ_RUN R ON R.EXECUTE_ID = E.ID
   SET E.FENCE = E.FENCE + 1, E.CHANGED_AT = E.CHANGED_AT
 WHERE R.ID IN (?) AND R.STATE = 'PENDING'`

	claimedRunsSQL = `
SELECT R.ID, R.JOB_ID, R.EXECUTE_ID, J.JOB_CLASS, J.JOB_DATA, R.FIRE_TIME, R.ATTEMPT, R.FENCE, R.INSTANCE
  FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.ID IN (?) AND R.STATE = 'RUNNING' AND R.INSTANCE = ?`
)

// ClaimWaiting wins the PENDING runs it can and returns them in order of fire time. As with Claim, what
// others won is missing from the result. No two calls of one instance may name the same run at once.
func (s *Store) ClaimWaiting(ctx context.Context, who Instance, runIDs []int64) ([]Run, error) {
	if len(runIDs) == 0 {
		return nil, nil
	}
	slices.Sort(runIDs)
	var runs []Run
	err := schema.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		raise, args, err := sqlx.In(s.prefix.SQL(raiseFencesSQL), runIDs)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, raise, args...); err != nil {
			return err
		}
		args = make([]any, 0, len(runIDs)+6)
		for _, id := range runIDs {
			args = append(args, id)
		}
		args = append(args, s.app, who.HostIP, s.app, who.HostIP, who.ID, who.ID)
		claim := s.prefix.SQL(fmt.Sprintf(claimPendingSQL, values(len(runIDs), "ID")))
		if _, err := tx.ExecContext(ctx, claim, args...); err != nil {
			return err
		}
		runs, err = s.claimed(ctx, tx, runIDs, who)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim pending runs: %w", err)
	}
	return runs, nil
}

func (s *Store) claimed(ctx context.Context, q sqlx.QueryerContext, ids []int64, who Instance) ([]Run, error) {
	var rows []runRow
	if err := s.selectRows(ctx, q, &rows, claimedRunsSQL, ids, who.ID); err != nil {
		return nil, err
	}
	runs := make([]Run, len(rows))
	for i, r := range rows {
		runs[i] = r.run()
	}
	slices.SortFunc(runs, byFireTime)
	return runs, nil
}

const handBackSQL = `
UPDATE QRTZ_RUN SET STATE = 'PENDING', INSTANCE = NULL, HOST_IP = NULL, CLAIMED_AT = NULL
 WHERE ID IN (?) AND STATE = 'RUNNING' AND INSTANCE = ?`

// HandBack makes runs that this instance claimed and never started PENDING again, for any node to take.
func (s *Store) HandBack(ctx context.Context, who Instance, runIDs []int64) error {
	for ids := range slices.Chunk(runIDs, 1000) {
		query, args, err := sqlx.In(s.prefix.SQL(handBackSQL), ids, who.ID)
		if err != nil {
			return fmt.Errorf("hand back runs: %w", err)
		}
		if _, err := s.db.ExecContext(ctx, query, args...); err != nil {
			return fmt.Errorf("hand back runs: %w", err)
		}
	}
	return nil
}

const handBackFiresSQL = `
UPDATE QRTZ_RUN R JOIN %s V ON R.EXECUTE_ID = V.EXECUTE_ID AND R.FIRE_TIME = V.FIRE_TIME AND R.ATTEMPT = 1
   SET R.STATE = 'PENDING', R.INSTANCE = NULL, R.HOST_IP = NULL, R.CLAIMED_AT = NULL
 WHERE R.STATE = 'RUNNING' AND R.INSTANCE = ?`

// HandBackFires does the same for the fires of claims whose COMMIT got no answer: if it did commit, they
// are on record as ours, and we have not started them.
func (s *Store) HandBackFires(ctx context.Context, who Instance, claims []Move) error {
	var fires []any
	n := 0
	for _, m := range claims {
		for _, r := range m.Runs {
			fires = append(fires, m.Execute.ID, r.FireTime.UnixMilli())
			n++
		}
	}
	query := fmt.Sprintf(handBackFiresSQL, values(n, "EXECUTE_ID", "FIRE_TIME"))
	if _, err := s.db.ExecContext(ctx, s.prefix.SQL(query), append(fires, who.ID)...); err != nil {
		return fmt.Errorf("hand back fires: %w", err)
	}
	return nil
}

const loseSQL = `
UPDATE QRTZ_RUN SET STATE = 'LOST', FINISHED_AT = ` + schema.NowMillisSQL + `, MESSAGE = ?
 WHERE APPLICATION = ? AND STATE = 'RUNNING' AND INSTANCE = ?`

// Lose puts the RUNNING runs of an instance that is gone on record as LOST and says how many there were.
func (s *Store) Lose(ctx context.Context, instance int64, why string) (int64, error) {
	result, err := s.db.ExecContext(ctx, s.prefix.SQL(loseSQL), why, s.app, instance)
	if err != nil {
		return 0, fmt.Errorf("record lost runs: %w", err)
	}
	return result.RowsAffected()
}

const abandonedSQL = `
SELECT DISTINCT R.INSTANCE FROM QRTZ_RUN R
  LEFT JOIN QRTZ_NODE N ON N.APPLICATION = ? AND N.INSTANCE = R.INSTANCE
 WHERE R.APPLICATION = ? AND R.STATE = 'RUNNING' AND N.INSTANCE IS NULL`

// Abandoned lists instances that have RUNNING runs and are no longer those of any node.
func (s *Store) Abandoned(ctx context.Context) ([]int64, error) {
	var instances []sql.NullInt64
	if err := s.selectRows(ctx, s.db, &instances, abandonedSQL, s.app, s.app); err != nil {
		return nil, fmt.Errorf("look for abandoned runs: %w", err)
	}
	var ids []int64
	for _, id := range instances {
		if id.Valid {
			ids = append(ids, id.Int64)
		}
	}
	return ids, nil
}
