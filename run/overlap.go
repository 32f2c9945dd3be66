package run

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	// startExclusiveSQL starts runs of which only one may go at a time. The unique key on OVERLAP_KEY decides, so that
	// neither two nodes nor a crash can get round it: IGNORE leaves out what violates it.
	startExclusiveSQL = `
UPDATE IGNORE QRTZ_NODE N
  STRAIGHT_JOIN QRTZ_APP A ON A.APPLICATION = N.APPLICATION AND A.STATE = 'Y' AND N.STATE = 'Y'
  STRAIGHT_JOIN %s V
  STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID
   SET R.STATE = 'RUNNING', R.OVERLAP_KEY = R.JOB_ID, R.HOST_IP = ?, R.INSTANCE = ?, R.CLAIM_TOKEN = ?, R.CLAIMED_AT = ` + schema.NowMillisSQL + `
 WHERE N.APPLICATION = ? AND N.HOST_IP = ? AND N.INSTANCE = ? AND FIND_IN_SET(V.ID, @QRTZ_FREE)
   AND R.STATE = 'PENDING' AND R.FENCE = V.FENCE0 AND NOT COALESCE(FIND_IN_SET(R.JOB_ID, @QRTZ_BUSY), 0)`

	// A key that is there is not tried: that would wait for a transaction that holds its row, and is about to end the run.
	busyKeysSQL = `SELECT GROUP_CONCAT(OVERLAP_KEY) INTO @QRTZ_BUSY FROM QRTZ_RUN WHERE OVERLAP_KEY IN (?)`

	freeRunsSQL = `
SELECT GROUP_CONCAT(F.ID) INTO @QRTZ_FREE FROM (
  SELECT ID FROM QRTZ_RUN FORCE INDEX (PRIMARY) WHERE ID IN (?) ORDER BY ID FOR UPDATE SKIP LOCKED) F`

	startedSQL = `SELECT ID FROM QRTZ_RUN FORCE INDEX (PRIMARY) WHERE ID IN (?) AND STATE = 'RUNNING' AND CLAIM_TOKEN = ?`

	skipOverlappingSQL = `
UPDATE QRTZ_RUN R SET R.STATE = 'SKIPPED', R.FINISHED_AT = ` + schema.NowMillisSQL + `, R.MESSAGE = ?, ` + releaseKeySQL + `
 WHERE R.ID = ? AND R.STATE = 'PENDING'`

	surplusSQL = `
SELECT R.ID, R.EXECUTE_ID, R.FIRE_TIME, E.NAME AS EXECUTE_NAME, ` + zoneColumn + `
  FROM QRTZ_RUN R LEFT JOIN QRTZ_EXECUTE E ON E.ID = R.EXECUTE_ID
 WHERE R.APPLICATION = ? AND R.STATE = 'PENDING' AND R.JOB_ID = ? AND R.AVAILABLE_AT <= ` + schema.NowMillisSQL + ` + 1000
   AND R.EXECUTE_ID IS NOT NULL AND R.ATTEMPT = 1
 ORDER BY R.FIRE_TIME = 0 DESC, R.FIRE_TIME DESC, R.ID DESC LIMIT 1000 OFFSET ?`

	firstInLineSQL = `
SELECT ID FROM QRTZ_RUN
 WHERE APPLICATION = ? AND STATE = 'PENDING' AND JOB_ID = ? AND AVAILABLE_AT <= ` + schema.NowMillisSQL + ` + 1000
 ORDER BY AVAILABLE_AT, ID LIMIT 1`
)

// Messages of runs for which an overlap rule left no room.
const (
	overlapSkipped = "overlap: another run of the job was going (OVERLAP is SKIP)"
	queueFull      = "overlap: more than %d runs of the job were pending (QUEUE_LIMIT)"
)

// StartExclusive starts those of the runs just claimed, still PENDING, whose job has none going, one of each job, and deals
// with the others as their job's rule says: they are skipped, or stay PENDING. What is not dealt with because of an error
// stays PENDING, too.
func (s *Store) StartExclusive(ctx context.Context, who node.Instance, runs []Run) (done Claimed, err error) {
	if len(runs) == 0 {
		return done, nil
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Or(cmp.Compare(a.JobID, b.JobID), ByFireTime(a, b)) })
	candidates, err := s.firstOfEachJob(ctx, runs)
	if err != nil {
		return done, err
	}
	for some := range slices.Chunk(candidates, carefulBatch) {
		won, inDoubt, err := s.tryExclusive(ctx, who, some)
		done.Runs, done.InDoubt = append(done.Runs, won...), append(done.InDoubt, inDoubt...)
		if err != nil {
			return done, err
		}
	}
	for _, run := range runs {
		if slices.ContainsFunc(done.Runs, func(r Run) bool { return r.ID == run.ID }) {
			continue
		}
		more, err := s.leaveOverlapping(ctx, run)
		done.Skipped = append(done.Skipped, more...)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// firstOfEachJob are those of some runs, given by job and fire time, that may be started: the first of each job, unless
// OverlapQueue has another one of the job go first.
func (s *Store) firstOfEachJob(ctx context.Context, runs []Run) (candidates []Run, err error) {
	for i, run := range runs {
		if i > 0 && runs[i-1].JobID == run.JobID {
			continue
		}
		first := true
		if run.Options.Overlap == OverlapQueue {
			if first, err = s.firstInLine(ctx, run.JobID, run.ID); err != nil {
				return nil, err
			}
		}
		if first {
			candidates = append(candidates, run)
		}
	}
	return candidates, nil
}

// tryExclusive starts those of some runs, of different jobs, whose job has none going.
func (s *Store) tryExclusive(ctx context.Context, who node.Instance, runs []Run) (started []Run, inDoubt []PendingRun, err error) {
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.ID, b.ID) })
	ids, jobs, rows := make([]int64, len(runs)), make([]int64, len(runs)), make([]any, 0, 2*len(runs))
	for i, r := range runs {
		ids[i], jobs[i] = r.ID, r.JobID
		rows = append(rows, r.ID, r.Fence)
	}
	var token int64
	ours := map[int64]bool{}
	err = s.db.InPacket(ctx, func(p *schema.Packet) error {
		token = rand.Int64()
		clear(ours)
		p.Exec(freeRunsSQL, ids)
		p.Exec(busyKeysSQL, jobs)
		table, args := schema.Values(rows, "ID", "FENCE0")
		args = append(args, who.NodeID, who.ID, token, s.app, who.NodeID, who.ID)
		p.Exec(fmt.Sprintf(startExclusiveSQL, table), args...)
		p.Select(func(r *sqlx.Rows) error {
			var id int64
			err := r.Scan(&id)
			ours[id] = true
			return err
		}, startedSQL, ids, token)
		return nil
	})
	for _, r := range runs {
		switch {
		case errors.Is(err, schema.ErrCommitUnknown):
			inDoubt = append(inDoubt, PendingRun{ID: r.ID, JobID: r.JobID, Class: r.Class, fence: r.Fence, token: token, ownData: r.ownData})
		case err == nil && ours[r.ID]:
			r.Token = token
			started = append(started, r)
		}
	}
	if err != nil {
		return nil, inDoubt, fmt.Errorf("start runs that must be the only ones of their jobs: %w", err)
	}
	return started, nil, nil
}

// firstInLine tells whether a run is the one of its job that has been pending for longest.
func (s *Store) firstInLine(ctx context.Context, jobID, runID int64) (bool, error) {
	var first []int64
	if err := s.db.Select(ctx, &first, firstInLineSQL, s.app, jobID); err != nil {
		return false, fmt.Errorf("look for the first in line: %w", err)
	}
	return len(first) == 0 || first[0] == runID, nil
}

// leaveOverlapping does with a run that found no room what its job's rule says.
func (s *Store) leaveOverlapping(ctx context.Context, run Run) ([]SkippedFire, error) {
	if run.Options.Overlap == OverlapSkip {
		return s.skip(ctx, run, overlapSkipped)
	}
	var surplus []struct {
		ID        int64          `db:"ID"`
		ExecuteID int64          `db:"EXECUTE_ID"`
		FireTime  int64          `db:"FIRE_TIME"`
		Schedule  sql.NullString `db:"EXECUTE_NAME"`
		Zone      sql.NullString `db:"ZONE_ID"`
	}
	if err := s.db.Select(ctx, &surplus, surplusSQL, s.app, run.JobID, run.Options.QueueLimit); err != nil {
		return nil, fmt.Errorf("look for runs beyond the queue's limit: %w", err)
	}
	var skipped []SkippedFire
	for _, old := range surplus {
		r := Run{
			ID: old.ID, JobID: run.JobID, ExecuteID: old.ExecuteID, Class: run.Class, Job: run.Job, Schedule: old.Schedule.String,
			FireTime: s.zones.fireTime(old.FireTime, old.Zone),
		}
		more, err := s.skip(ctx, r, fmt.Sprintf(queueFull, run.Options.QueueLimit))
		if err != nil {
			return skipped, err
		}
		skipped = append(skipped, more...)
	}
	return skipped, nil
}

// skip puts a run on record as SKIPPED, unless a node has claimed it meanwhile.
func (s *Store) skip(ctx context.Context, run Run, why string) ([]SkippedFire, error) {
	done, err := s.db.Exec(ctx, skipOverlappingSQL, why, run.ID)
	if err != nil {
		return nil, fmt.Errorf("skip run %d: %w", run.ID, err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return nil, err
	}
	return []SkippedFire{{
		RunID: run.ID, JobID: run.JobID, ExecuteID: run.ExecuteID, Class: run.Class, Job: run.Job, Schedule: run.Schedule,
		NewRun: NewRun{State: Skipped, FireTime: run.FireTime, Count: 1, Message: why},
	}}, nil
}
