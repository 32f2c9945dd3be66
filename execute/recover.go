package execute

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// maxRecoveries is how often one fire is recovered: a run that kills its node each time would else go round for ever.
const maxRecoveries = 5

const (
	keyPage  = 1000 // runs with an overlap key looked at by one statement: one for each exclusive job that has a run going
	keyPages = 5    // of one pass
)

const (
	keysSQL = `
SELECT ID, OVERLAP_KEY, APPLICATION = ? AND STATE <> 'RUNNING' AS STALE FROM QRTZ_RUN WHERE OVERLAP_KEY > ? ORDER BY OVERLAP_KEY LIMIT ?`

	freeKeysSQL = `UPDATE QRTZ_RUN SET OVERLAP_KEY = NULL WHERE ID IN (?) AND STATE <> 'RUNNING'`
)

// freeKeys frees the overlap keys of runs that somebody ended by SQL: only their STATE says so. No index tells them by
// app: it looks at those of other apps, too, but only at some in one pass.
func (s *Store) freeKeys(ctx context.Context) error {
	after := int64(math.MinInt64)
	if s.keysTo != nil {
		after = *s.keysTo
	}
	s.keysTo = nil
	var stale []int64
	for range keyPages {
		var page []struct {
			ID    int64 `db:"ID"`
			Key   int64 `db:"OVERLAP_KEY"`
			Stale bool  `db:"STALE"`
		}
		if err := s.selectRows(ctx, s.db, &page, keysSQL, s.app, after, keyPage); err != nil {
			return err
		}
		for _, r := range page {
			if r.Stale {
				stale = append(stale, r.ID)
			}
		}
		if len(page) < keyPage {
			break
		}
		after = page[len(page)-1].Key
		s.keysTo = &after
	}
	slices.Sort(stale)
	_, err := s.writeEach(ctx, `QRTZ_RUN`, stale, func(ids []int64) error { return s.execIn(ctx, s.db, freeKeysSQL, ids) })
	return err
}

const abandonedSQL = `
SELECT DISTINCT R.INSTANCE FROM QRTZ_RUN R
  LEFT JOIN QRTZ_NODE N ON N.APPLICATION = ? AND N.INSTANCE = R.INSTANCE
 WHERE R.APPLICATION = ? AND R.STATE = 'RUNNING' AND N.INSTANCE IS NULL AND R.INSTANCE IS NOT NULL`

// Abandoned lists instances that have RUNNING runs and are no longer those of any node. It also frees the overlap keys of
// runs that somebody ended by SQL.
func (s *Store) Abandoned(ctx context.Context) (instances []int64, err error) {
	if err = s.freeKeys(ctx); err != nil {
		err = fmt.Errorf("free overlap keys: %w", err)
	}
	if err := s.selectRows(ctx, s.db, &instances, abandonedSQL, s.app, s.app); err != nil {
		return nil, fmt.Errorf("look for abandoned runs: %w", err)
	}
	return instances, err
}

const (
	heldSQL = `
SELECT R.ID, R.JOB_ID, R.EXECUTE_ID, COALESCE((SELECT J.JOB_CLASS FROM QRTZ_JOB J WHERE J.ID = R.JOB_ID), '') AS JOB_CLASS,
       R.FIRE_TIME, R.ATTEMPT, COALESCE(R.HOST_IP, '') AS HOST_IP
  FROM QRTZ_RUN R WHERE R.APPLICATION = ? AND R.STATE = 'RUNNING' AND R.INSTANCE = ? ORDER BY R.ID LIMIT 1000 FOR UPDATE`

	loseSQL = `
UPDATE QRTZ_RUN SET STATE = 'LOST', FINISHED_AT = ` + schema.NowMillisSQL + `, MESSAGE = ?, OVERLAP_KEY = NULL WHERE ID IN (?)`

	recoverSQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, ATTEMPT, STATE, AVAILABLE_AT, FENCE, JOB_DATA, RECOVERS, RECOVERIES)
SELECT R.APPLICATION, R.JOB_ID, R.EXECUTE_ID, R.FIRE_TIME, R.ATTEMPT + 1, 'PENDING', ` + schema.NowMillisSQL + `, R.FENCE, R.JOB_DATA, R.ID,
       R.RECOVERIES + 1
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.ID IN (?) AND J.RECOVERY <> 0 AND R.RECOVERIES < ? AND R.CANCEL_AT IS NULL
    ON DUPLICATE KEY UPDATE ATTEMPT = VALUES(ATTEMPT)`
)

// LostRun is a run whose node died while it went.
type LostRun struct {
	ID        int64         `db:"ID"`
	JobID     int64         `db:"JOB_ID"`
	ExecuteID sql.NullInt64 `db:"EXECUTE_ID"`
	Class     string        `db:"JOB_CLASS"` // empty if its job is gone
	Fire      int64         `db:"FIRE_TIME"`
	Attempt   int           `db:"ATTEMPT"`
	Node      string        `db:"HOST_IP"`
}

// FireTime is when the run was due.
func (r LostRun) FireTime() time.Time { return time.UnixMilli(r.Fire) }

// Lose puts the RUNNING runs of an instance that is gone on record as LOST and returns them. Those whose job asks for
// recovery get a new attempt, PENDING at once, in the same transaction.
func (s *Store) Lose(ctx context.Context, instance int64, why string) ([]LostRun, error) {
	var lost []LostRun
	for {
		some, err := s.loseSome(ctx, instance, why)
		if err != nil {
			return lost, fmt.Errorf("record lost runs: %w", err)
		}
		if len(some) == 0 {
			return lost, nil
		}
		lost = append(lost, some...)
	}
}

func (s *Store) loseSome(ctx context.Context, instance int64, why string) ([]LostRun, error) {
	var some []LostRun
	err := schema.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		some = nil
		if err := s.selectRows(ctx, tx, &some, heldSQL, s.app, instance); err != nil || len(some) == 0 {
			return err
		}
		ids := make([]int64, len(some))
		for i, run := range some {
			ids[i] = run.ID
		}
		if err := s.execIn(ctx, tx, loseSQL, why, ids); err != nil {
			return err
		}
		return s.execIn(ctx, tx, recoverSQL, ids, maxRecoveries)
	})
	return some, err
}
