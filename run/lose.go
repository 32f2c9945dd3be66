package run

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/schema"
)

// maxRecoveries is how often one fire is recovered: a run that kills its node each time would else go round for ever.
const maxRecoveries = 5

const (
	keyPage  = 1000 // runs with an overlap key looked at by one statement: one for each run of a limited job
	keyPages = 5    // of one pass
)

const (
	keysSQL = `
SELECT ID, OVERLAP_KEY, OVERLAP_SLOT, APPLICATION = ? AND STATE <> 'RUNNING' AS STALE FROM QRTZ_RUN
 WHERE OVERLAP_KEY >= ? AND (OVERLAP_KEY > ? OR LINE_AT > ?) ORDER BY OVERLAP_KEY, LINE_JOB, LINE_AT LIMIT ?`

	freeKeysSQL = `UPDATE %s V STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID SET R.OVERLAP_KEY = NULL WHERE R.STATE <> 'RUNNING'`
)

// FreeOverlapKeys frees the overlap keys of runs that a person ended by SQL: only their STATE says so. No index tells them by
// app: it also looks at those of other apps, but only at some in one call.
func (s *Store) FreeOverlapKeys(ctx context.Context) error {
	if err := s.freeKeys(ctx); err != nil {
		return fmt.Errorf("free overlap keys: %w", err)
	}
	return nil
}

// keyCursor is where a walk through the overlap keys has come to.
type keyCursor struct {
	key  int64
	slot int
}

func (s *Store) freeKeys(ctx context.Context) error {
	after := keyCursor{math.MinInt64, 0}
	if s.keysTo != nil {
		after = *s.keysTo
	}
	s.keysTo = nil
	var stale []int64
	for range keyPages {
		var page []struct {
			ID    int64 `db:"ID"`
			Key   int64 `db:"OVERLAP_KEY"`
			Slot  int   `db:"OVERLAP_SLOT"`
			Stale bool  `db:"STALE"`
		}
		if err := s.db.Select(ctx, &page, keysSQL, s.app, after.key, after.key, after.slot, keyPage); err != nil {
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
		after = keyCursor{page[len(page)-1].Key, page[len(page)-1].Slot}
		s.keysTo = &after
	}
	slices.Sort(stale)
	_, err := s.db.WriteEach(ctx, `QRTZ_RUN`, stale, func(ids []int64) error { return schema.ByKey(ctx, s.db, freeKeysSQL, ids) })
	return err
}

const abandonedSQL = `
SELECT DISTINCT R.INSTANCE FROM QRTZ_RUN R
  LEFT JOIN QRTZ_NODE N ON N.APPLICATION = ? AND N.INSTANCE = R.INSTANCE
 WHERE R.APPLICATION = ? AND R.STATE = 'RUNNING' AND N.INSTANCE IS NULL AND R.INSTANCE IS NOT NULL`

// Abandoned lists instances that have RUNNING runs and are no longer those of any node.
func (s *Store) Abandoned(ctx context.Context) (instances []int64, err error) {
	if err := s.db.Select(ctx, &instances, abandonedSQL, s.app, s.app); err != nil {
		return nil, fmt.Errorf("look for abandoned runs: %w", err)
	}
	return instances, nil
}

const (
	heldPageSQL = `
SELECT R.ID, R.JOB_ID, R.EXECUTE_ID, COALESCE(J.JOB_CLASS, '') AS JOB_CLASS, COALESCE(J.NAME, '') AS JOB_NAME, COALESCE(E.NAME, '') AS EXECUTE_NAME,
       ` + zoneColumn + `, R.FIRE_TIME, R.STARTED_AT, R.ATTEMPT, COALESCE(R.HOST_IP, '') AS HOST_IP
  FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID LEFT JOIN QRTZ_EXECUTE E ON E.ID = R.EXECUTE_ID
 WHERE R.APPLICATION = ? AND R.STATE = 'RUNNING' AND R.INSTANCE = ? AND R.ID > ? ORDER BY R.ID LIMIT ?`

	lockLostSQL = `SELECT R.ID FROM QRTZ_RUN R FORCE INDEX (PRIMARY) WHERE ` + lostSQL + ` ORDER BY R.ID FOR UPDATE`

	lostSQL = `R.ID IN (?) AND R.STATE = 'RUNNING' AND R.INSTANCE = ?`

	recoveredSQL = lostSQL + ` AND J.RECOVERY <> 0 AND R.RECOVERIES < ? AND ` + followedSQL

	keysToRecoverSQL = rememberKeysSQL + `FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE ` + recoveredSQL + ` AND R.KEY_LIVE = 1`

	recoverSQL = `
INSERT INTO QRTZ_RUN (` + attemptColumns + `, AVAILABLE_AT, RECOVERS, RECOVERIES)
SELECT ` + attemptValues + keyPassed + `, ` + schema.NowMillisSQL + `, R.ID, R.RECOVERIES + 1
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE ` + recoveredSQL + keepAttemptSQL

	loseSQL = `
UPDATE QRTZ_RUN R FORCE INDEX (PRIMARY) SET R.STATE = 'LOST', R.FINISHED_AT = ` + schema.NowMillisSQL + `, R.OVERLAP_KEY = NULL,
       ` + releaseKeySQL + `,
       R.MESSAGE = IF(R.ATTEMPT < 2000000000, ?, CONCAT(?, ' (no further attempt: ATTEMPT is at its limit)'))
 WHERE ` + lostSQL + `
 ORDER BY R.ID`
)

// losePage is how many runs are put on record as LOST in one transaction.
const losePage = 500

// LostRun is a run whose node died while it went.
type LostRun struct {
	ID        int64          `db:"ID"`
	JobID     int64          `db:"JOB_ID"`
	ExecuteID sql.NullInt64  `db:"EXECUTE_ID"`
	Class     string         `db:"JOB_CLASS"`    // empty if its job is gone
	Job       string         `db:"JOB_NAME"`     // its job's name; empty if it has none
	Schedule  string         `db:"EXECUTE_NAME"` // the name of its schedule; empty if it has none
	Zone      sql.NullString `db:"ZONE_ID"`      // of its schedule
	Fire      int64          `db:"FIRE_TIME"`
	Started   sql.NullInt64  `db:"STARTED_AT"`
	Attempt   int            `db:"ATTEMPT"`
	Node      string         `db:"HOST_IP"`

	FireTime  time.Time // in the zone of its schedule; in UTC if it belongs to none
	StartedAt time.Time // as its row says; zero if it had gone for less than a second, or was never started
}

// Lose puts the RUNNING runs of an instance that is gone on record as LOST and returns them. Those whose job asks for
// recovery get a new attempt, PENDING at once, in the same transaction. A run whose recovery the server refuses is LOST
// without one; a run whose row another transaction has locked is left for the next time. Neither costs the others anything.
func (s *Store) Lose(ctx context.Context, instance int64, why string) (lost []LostRun, err error) {
	var refused []error // even without a recovery
	w := &rowwise[LostRun]{store: s, id: func(r LostRun) int64 { return r.ID }, locked: func(...LostRun) {}}
	w.write = func(ctx context.Context, runs []LostRun) error {
		some, err := s.loseSome(ctx, instance, why, runs, true)
		lost = append(lost, some...)
		return err
	}
	w.refused = func(ctx context.Context, run LostRun, refusal error) error {
		some, err := s.loseOnly(ctx, instance, why, run, refusal)
		lost = append(lost, some...)
		if schema.RowFault(err) {
			refused = append(refused, fmt.Errorf("run %d: %w", run.ID, err))
			return nil
		}
		return err
	}
	for after, full := int64(math.MinInt64), true; full; {
		var page []LostRun
		err := s.db.Select(ctx, &page, heldPageSQL, s.app, instance, after, losePage)
		if full = len(page) == losePage; err == nil && len(page) > 0 {
			after = page[len(page)-1].ID
			s.addTimes(page)
			err = lightBatches(ctx, s, page, w.id, 0, func(some []LostRun, _ map[int64]int64) error {
				_, err := w.batch(ctx, some)
				return err
			})
		}
		if err != nil {
			return lost, fmt.Errorf("record lost runs: %w", err)
		}
	}
	if len(refused) > 0 {
		return lost, fmt.Errorf("%d runs of instance %d cannot be put on record as LOST: %w", len(refused), instance, refused[0])
	}
	return lost, nil
}

func (s *Store) addTimes(runs []LostRun) {
	for i := range runs {
		r := &runs[i]
		r.FireTime = s.zones.fireTime(r.Fire, r.Zone)
		if r.Started.Int64 > 0 {
			r.StartedAt = time.UnixMilli(r.Started.Int64).UTC()
		}
	}
}

// loseOnly loses a run whose recovery the server has refused.
func (s *Store) loseOnly(ctx context.Context, instance int64, why string, run LostRun, refusal error) ([]LostRun, error) {
	why += " (not recovered, since the server refused it: " + text.ASCII(text.Clip(refusal.Error(), 500)) + ")"
	lost, err := s.loseSome(ctx, instance, why, []LostRun{run}, false)
	if schema.RowFault(err) {
		return s.loseSome(ctx, instance, "", []LostRun{run}, false)
	}
	return lost, err
}

// loseSome loses some runs of an instance in one transaction, with or without their recovery.
func (s *Store) loseSome(ctx context.Context, instance int64, why string, runs []LostRun, recovering bool) (lost []LostRun, err error) {
	ids, byID := make([]int64, len(runs)), make(map[int64]LostRun, len(runs))
	for i, run := range runs {
		ids[i], byID[run.ID] = run.ID, run
	}
	err = s.db.InPacket(ctx, func(p *schema.Packet) error {
		lost = nil
		scan := func(rows *sqlx.Rows) error {
			var id int64
			err := rows.Scan(&id)
			lost = append(lost, byID[id])
			return err
		}
		p.Select(scan, lockLostSQL, ids, instance)
		if recovering {
			p.Exec(keysToRecoverSQL, ids, instance, maxRecoveries)
			p.Exec(passKeysSQL, ids)
			p.Exec(recoverSQL, ids, instance, maxRecoveries)
		}
		p.Exec(loseSQL, why, why, ids, instance)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lost, nil
}
