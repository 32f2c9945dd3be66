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
	// startExclusiveSQL starts runs of which only some may go at a time. The unique key on OVERLAP_KEY and OVERLAP_SLOT decides,
	// so that neither two nodes nor a crash can get round it: IGNORE leaves out what violates it.
	startExclusiveSQL = `
UPDATE IGNORE QRTZ_NODE N
  STRAIGHT_JOIN QRTZ_APP A ON A.APPLICATION = N.APPLICATION AND A.STATE = 'Y' AND N.STATE = 'Y'
  STRAIGHT_JOIN %s V
  STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID
   SET R.STATE = 'RUNNING', R.OVERLAP_KEY = R.JOB_ID, R.OVERLAP_SLOT = V.SLOT, R.HOST_IP = ?, R.INSTANCE = ?, R.CLAIM_TOKEN = ?,
       R.CLAIMED_AT = ` + schema.NowMillisSQL + `
 WHERE N.APPLICATION = ? AND N.HOST_IP = ? AND N.INSTANCE = ? AND FIND_IN_SET(V.ID, @QRTZ_FREE)
   AND R.STATE = 'PENDING' AND R.FENCE = V.FENCE0 AND NOT COALESCE(FIND_IN_SET(V.ID, @QRTZ_BUSY), 0)`

	// A slot that is taken is not tried: that would wait for a transaction that holds its row, and is about to end the run. Of a
	// job with one slot, any run that goes takes it, such as one from the time when it had more.
	busySlotsSQL = `
SELECT GROUP_CONCAT(DISTINCT V.ID) INTO @QRTZ_BUSY
  FROM %s V STRAIGHT_JOIN QRTZ_RUN B ON B.OVERLAP_KEY = V.JOB AND B.LINE_JOB = 0 AND (B.LINE_AT = V.SLOT OR V.SLOTS = 1)`

	freeRunsSQL = `
SELECT GROUP_CONCAT(F.ID) INTO @QRTZ_FREE FROM (
  SELECT ID FROM QRTZ_RUN FORCE INDEX (PRIMARY) WHERE ID IN (?) ORDER BY ID FOR UPDATE SKIP LOCKED) F`

	startedSQL = `SELECT ID FROM QRTZ_RUN FORCE INDEX (PRIMARY) WHERE ID IN (?) AND STATE = 'RUNNING' AND CLAIM_TOKEN = ?`

	skipOverlappingSQL = `
UPDATE QRTZ_RUN R SET R.STATE = 'SKIPPED', R.FINISHED_AT = ` + schema.NowMillisSQL + `, R.MESSAGE = ?, ` + releaseKeySQL + `
 WHERE R.ID = ? AND R.STATE = 'PENDING'`

	// What is pending of a job is its line (line.go).
	surplusSQL = `
SELECT R.ID, R.EXECUTE_ID, R.FIRE_TIME, E.NAME AS EXECUTE_NAME, ` + zoneColumn + `
  FROM QRTZ_RUN R FORCE INDEX (QRTZ_RUN_OVERLAP) LEFT JOIN QRTZ_EXECUTE E ON E.ID = R.EXECUTE_ID
 WHERE R.APPLICATION = ? AND R.OVERLAP_KEY IS NULL AND R.LINE_JOB = ? AND R.LINE_AT <= ` + schema.NowMillisSQL + ` + 1000
   AND R.EXECUTE_ID IS NOT NULL AND R.ATTEMPT = 1
 ORDER BY R.FIRE_TIME = 0 DESC, R.FIRE_TIME DESC, R.ID DESC LIMIT 1000 OFFSET ?`

	firstInLineSQL = `
SELECT ID FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_OVERLAP)
 WHERE APPLICATION = ? AND OVERLAP_KEY IS NULL AND LINE_JOB = ? AND LINE_AT <= ` + schema.NowMillisSQL + ` + 1000
 ORDER BY LINE_AT, ID LIMIT ?`
)

// Messages of runs for which an overlap rule left no room.
const (
	overlapSkipped = "overlap: another run of the job was going (OVERLAP is SKIP)"
	allSkipped     = "overlap: %d other runs of the job were going (OVERLAP is SKIP, MAX_RUNNING)"
	queueFull      = "overlap: more than %d runs of the job were pending (QUEUE_LIMIT)"
)

// startTries is how often runs that have lost their slots to others try further slots of their jobs.
const startTries = 3

// StartExclusive starts those of the runs just claimed, still PENDING, for which their job has a slot, and deals with the others
// as their job's rule says: they are skipped, or stay PENDING. What is not dealt with because of an error stays PENDING, too.
func (s *Store) StartExclusive(ctx context.Context, who node.Instance, runs []Run) (done Claimed, err error) {
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Or(cmp.Compare(a.JobID, b.JobID), ByFireTime(a, b)) })
	left, undecided := runs, []Run(nil)
	for try := 0; len(left) > 0 && try < startTries; try++ {
		candidates, err := s.candidates(ctx, left)
		if err != nil {
			return done, err
		}
		won, inDoubt, err := s.tryInBatches(ctx, who, candidates)
		done.Runs, done.InDoubt = append(done.Runs, won...), append(done.InDoubt, inDoubt...)
		if err != nil {
			return done, err
		}
		left = without(left, won)
		undecided = slices.DeleteFunc(without(candidateRuns(candidates), won), func(r Run) bool { return r.Options.slots() == 1 })
		if len(undecided) == 0 {
			break // what has lost its slot has lost the only one
		}
	}
	for _, run := range without(left, undecided) {
		more, err := s.leaveOverlapping(ctx, run)
		done.Skipped = append(done.Skipped, more...)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func without(runs, some []Run) []Run {
	return slices.DeleteFunc(slices.Clone(runs), func(r Run) bool {
		return slices.ContainsFunc(some, func(o Run) bool { return o.ID == r.ID })
	})
}

// candidate is a run, and the slot that it tries to get.
type candidate struct {
	Run
	slot int
}

func candidateRuns(candidates []candidate) []Run {
	runs := make([]Run, len(candidates))
	for i, c := range candidates {
		runs[i] = c.Run
	}
	return runs
}

// candidates gives the runs, which come in order of job and fire time, the slots of their jobs that are free. Unless their rule
// is to skip, none overtakes runs of its job that have been pending for longer.
func (s *Store) candidates(ctx context.Context, runs []Run) (candidates []candidate, err error) {
	several := map[int64]int{}
	for _, r := range runs {
		if n := r.Options.slots(); n > 1 {
			several[r.JobID] = n
		}
	}
	free, err := s.freeSlots(ctx, several, MostRunning) // more than there are runs: others may be in line before them
	if err != nil {
		return nil, fmt.Errorf("look for free slots: %w", err)
	}
	for len(runs) > 0 {
		job := runs[0].JobID
		n := slices.IndexFunc(runs, func(r Run) bool { return r.JobID != job })
		if n < 0 {
			n = len(runs)
		}
		slots := []int{0} // the only one, which may be free
		if several[job] > 1 {
			slots = free[job]
		}
		first, err := s.firstOf(ctx, runs[:n], len(slots))
		if err != nil {
			return nil, err
		}
		for i, r := range first {
			candidates = append(candidates, candidate{r, slots[i]})
		}
		runs = runs[n:]
	}
	return candidates, nil
}

// firstOf are those of some runs of a job that are to have one of n slots.
func (s *Store) firstOf(ctx context.Context, runs []Run, n int) ([]Run, error) {
	if n == 0 || runs[0].Options.Overlap == OverlapSkip {
		return runs[:min(n, len(runs))], nil
	}
	var line []int64
	if err := s.db.Select(ctx, &line, firstInLineSQL, s.app, runs[0].JobID, n); err != nil {
		return nil, fmt.Errorf("look for the first in line: %w", err)
	}
	if len(line) == 0 { // they are due later by the server's clock
		return runs[:min(n, len(runs))], nil
	}
	return slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return !slices.Contains(line, r.ID) }), nil
}

func (s *Store) tryInBatches(ctx context.Context, who node.Instance, candidates []candidate) (started []Run, inDoubt []PendingRun, err error) {
	for some := range slices.Chunk(candidates, carefulBatch) {
		won, doubt, err := s.tryExclusive(ctx, who, some)
		started, inDoubt = append(started, won...), append(inDoubt, doubt...)
		if err != nil {
			return started, inDoubt, err
		}
	}
	return started, inDoubt, nil
}

// tryExclusive starts those of some runs that get their slots.
func (s *Store) tryExclusive(ctx context.Context, who node.Instance, runs []candidate) (started []Run, inDoubt []PendingRun, err error) {
	slices.SortFunc(runs, func(a, b candidate) int { return cmp.Compare(a.ID, b.ID) })
	ids, rows, places := make([]int64, len(runs)), make([]any, 0, 3*len(runs)), make([]any, 0, 4*len(runs))
	for i, r := range runs {
		ids[i] = r.ID
		rows = append(rows, r.ID, r.Fence, r.slot)
		places = append(places, r.ID, r.JobID, r.slot, r.Options.slots())
	}
	var token int64
	ours := map[int64]bool{}
	err = s.db.InPacket(ctx, func(p *schema.Packet) error {
		token = rand.Int64()
		clear(ours)
		p.Exec(freeRunsSQL, ids)
		table, args := schema.Values(places, "ID", "JOB", "SLOT", "SLOTS")
		p.Exec(fmt.Sprintf(busySlotsSQL, table), args...)
		table, args = schema.Values(rows, "ID", "FENCE0", "SLOT")
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
	for _, c := range runs {
		r := c.Run
		switch {
		case errors.Is(err, schema.ErrCommitUnknown):
			inDoubt = append(inDoubt, PendingRun{ID: r.ID, JobID: r.JobID, Class: r.Class, fence: r.Fence, token: token, ownData: r.weight()})
		case err == nil && ours[r.ID]:
			r.Token = token
			started = append(started, r)
		}
	}
	if err != nil {
		return nil, inDoubt, fmt.Errorf("start runs of which only some of their jobs may go at a time: %w", err)
	}
	return started, nil, nil
}

// leaveOverlapping does with a run that found no room what its job's rule says.
func (s *Store) leaveOverlapping(ctx context.Context, run Run) ([]SkippedFire, error) {
	switch run.Options.Overlap {
	case OverlapSkip:
		if n := run.Options.slots(); n > 1 {
			return s.skip(ctx, run, fmt.Sprintf(allSkipped, n))
		}
		return s.skip(ctx, run, overlapSkipped)
	case OverlapAllow:
		return nil, nil
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
