package run

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	noExecutesSQL = `SET @QRTZ_LOCKED_EXECUTES = NULL`

	// To claim a run of a schedule also raises the fence of its execute: neither row may be locked.
	freeExecutesSQL = `
SELECT GROUP_CONCAT(F.ID) INTO @QRTZ_FREE_EXECUTES FROM (
  SELECT ID FROM QRTZ_EXECUTE FORCE INDEX (PRIMARY) WHERE ID IN (?) ORDER BY ID FOR UPDATE SKIP LOCKED) F`

	lockedExecutesSQL = `
SELECT GROUP_CONCAT(ID) INTO @QRTZ_LOCKED_EXECUTES FROM QRTZ_EXECUTE FORCE INDEX (PRIMARY)
 WHERE ID IN (?) AND NOT COALESCE(FIND_IN_SET(ID, @QRTZ_FREE_EXECUTES), 0)`

	pendingTargetSQL = `QRTZ_NODE N
  STRAIGHT_JOIN QRTZ_APP A ON A.APPLICATION = N.APPLICATION AND A.STATE = 'Y' AND N.STATE = 'Y'
  STRAIGHT_JOIN %s V
  STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID`

	pendingGuardSQL = `
 WHERE N.APPLICATION = ? AND N.HOST_IP = ? AND N.INSTANCE = ? AND FIND_IN_SET(V.ID, @QRTZ_FREE)
   AND R.STATE = 'PENDING' AND R.FENCE = V.FENCE0 AND R.CANCEL_AT IS NULL
   AND NOT COALESCE(FIND_IN_SET(R.EXECUTE_ID, @QRTZ_LOCKED_EXECUTES), 0)`

	raiseFencesSQL = `
UPDATE IGNORE ` + pendingTargetSQL + `
  STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = R.EXECUTE_ID
   SET E.FENCE = LEAST(GREATEST(E.FENCE, R.FENCE), 8999999999999999999) + 1, E.CHANGED_AT = E.CHANGED_AT` + pendingGuardSQL

	// IGNORE leaves out a run whose slot another run of its job has.
	claimPendingSQL = `
UPDATE IGNORE ` + pendingTargetSQL + `
  LEFT JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = R.EXECUTE_ID
   SET R.STATE = 'RUNNING', R.OVERLAP_KEY = V.KEY1, R.OVERLAP_SLOT = V.SLOT, R.HOST_IP = ?, R.INSTANCE = ?, R.CLAIM_TOKEN = ?, R.CLAIMED_AT = ` + schema.NowMillisSQL + `,
       R.FENCE = GREATEST(LEAST(R.FENCE, 8999999999999999999) + 1, COALESCE(E.FENCE, 0)),
       R.FIRE_TIME = IF(R.FIRE_TIME < 1, ` + schema.NowMillisSQL + `, R.FIRE_TIME),
       R.AVAILABLE_AT = IF(R.AVAILABLE_AT < 1, ` + schema.NowMillisSQL + `, R.AVAILABLE_AT)` + pendingGuardSQL

	claimedRunsSQL = `
SELECT ` + runColumns + `
  FROM QRTZ_RUN R FORCE INDEX (PRIMARY) LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID LEFT JOIN QRTZ_EXECUTE E ON E.ID = R.EXECUTE_ID
 WHERE R.ID IN (?) AND R.STATE = 'RUNNING' AND R.INSTANCE = ? AND R.CLAIM_TOKEN = ?`

	dropCancelledSQL = `
UPDATE QRTZ_RUN R SET R.STATE = 'CANCELLED', R.FINISHED_AT = ` + schema.NowMillisSQL + `, R.MESSAGE = 'cancelled before it was started',
       ` + releaseKeySQL + `
 WHERE R.ID IN (?) AND R.STATE = 'PENDING' AND R.CANCEL_AT IS NOT NULL`
)

// Claimed is what became of a claim of pending runs.
type Claimed struct {
	Runs    []Run         // ours to start, in order of fire time
	InDoubt []PendingRun  // the COMMIT of their claim got no answer; HandBackPending gives them up
	Skipped []SkippedFire // of jobs whose overlap rule left no room
	Refused []Refused     // the server takes no claim of them, for what stands in their rows; they have FAILED
	Clock   schema.ClockReading
}

func (c *Claimed) add(more Claimed) {
	c.Runs, c.InDoubt, c.Refused = append(c.Runs, more.Runs...), append(c.InDoubt, more.InDoubt...), append(c.Refused, more.Refused...)
	if !more.Clock.Server.IsZero() {
		c.Clock = more.Clock
	}
}

// ClaimPending wins the pending runs it can. As with execute.Store.Claim, what others won, hold locked or have changed is
// missing from the result. So is a run of which only some of its job may go at a time, if another has got its slot. Those with a CANCEL_AT end
// as CANCELLED. What takes longer than claimFor is left for the next claim.
func (s *Store) ClaimPending(ctx context.Context, who node.Instance, runs []PendingRun) (all Claimed, err error) {
	if err := s.dropCancelled(ctx, runs); err != nil {
		return all, fmt.Errorf("claim pending runs: %w", err)
	}
	runs = slices.DeleteFunc(slices.Clone(runs), func(r PendingRun) bool { return r.cancelled })
	slices.SortFunc(runs, ByID)
	claim := func(some []PendingRun) error {
		claimed, err := s.claimPendingApart(ctx, who, some)
		all.add(claimed)
		return err
	}
	weighed, others := partition(runs, func(r PendingRun) bool { return r.ownData >= 0 })
	begin := time.Now()
	for some := range light(weighed, claimBatch, func(r PendingRun) int64 { return r.ownData }) {
		if err = claim(some); err != nil || time.Since(begin) >= claimFor {
			break
		}
	}
	if left := claimFor - time.Since(begin); err == nil && left > 0 {
		id := func(r PendingRun) int64 { return r.ID }
		err = lightBatches(ctx, s, others, id, left, func(some []PendingRun, sizes map[int64]int64) error {
			for i := range some {
				some[i].ownData = sizes[some[i].ID]
			}
			return claim(some)
		})
	}
	slices.SortFunc(all.Runs, ByFireTime)
	if err != nil {
		return all, fmt.Errorf("claim pending runs: %w", err)
	}
	return all, nil
}

// partition parts rows, in their order, into those for which it holds and the others.
func partition[T any](rows []T, holds func(T) bool) (yes, no []T) {
	for _, row := range rows {
		if holds(row) {
			yes = append(yes, row)
		} else {
			no = append(no, row)
		}
	}
	return yes, no
}

// claimPendingApart finds the runs that the server refuses for what stands in their rows. They end, since no
// other node could claim them either.
func (s *Store) claimPendingApart(ctx context.Context, who node.Instance, runs []PendingRun) (Claimed, error) {
	claimed, err := s.claimPendingPacket(ctx, who, runs)
	switch {
	case !schema.RowFault(err):
		return claimed, err
	case len(runs) > 1:
		half := len(runs) / 2
		claimed, err = s.claimPendingApart(ctx, who, runs[:half])
		if err != nil {
			return claimed, err
		}
		second, err := s.claimPendingApart(ctx, who, runs[half:])
		claimed.add(second)
		return claimed, err
	default:
		why := text.Clip(text.ASCII("the server refuses its claim: "+err.Error()), 500)
		refused := Refused{Run: Run{ID: runs[0].ID, JobID: runs[0].JobID, Class: runs[0].Class}, Err: err}
		refused.Stored = s.db.Write(ctx, refusePendingSQL, why, runs[0].ID) == nil
		return Claimed{Refused: []Refused{refused}}, nil
	}
}

const refusePendingSQL = `
UPDATE QRTZ_RUN R SET R.STATE = 'FAILED', R.FINISHED_AT = ` + schema.NowMillisSQL + `, R.MESSAGE = ?, ` + releaseKeySQL + `
 WHERE R.ID = ? AND R.STATE = 'PENDING'`

func (s *Store) dropCancelled(ctx context.Context, runs []PendingRun) error {
	cancelled, _ := partition(runs, func(r PendingRun) bool { return r.cancelled })
	free, _, err := heldApart(ctx, s, cancelled, func(r PendingRun) int64 { return r.ID }) // what is locked, a later claim ends
	if err != nil || len(free) == 0 {
		return err
	}
	ids := make([]int64, len(free))
	for i, r := range free {
		ids[i] = r.ID
	}
	return s.db.Write(ctx, dropCancelledSQL, ids)
}

func (s *Store) claimPendingPacket(ctx context.Context, who node.Instance, runs []PendingRun) (claimed Claimed, err error) {
	ids, rows := make([]int64, len(runs)), make([]any, 0, 4*len(runs))
	executes := []int64{0} // IN () is no SQL
	for i, r := range runs {
		ids[i] = r.ID
		rows = append(rows, r.ID, r.fence, sql.NullInt64{Int64: r.JobID, Valid: r.slots > 0}, r.slot)
		if r.execute.Valid {
			executes = append(executes, r.execute.Int64)
		}
	}
	slices.Sort(executes)
	table, args := schema.Values(rows, "ID", "FENCE0", "KEY1", "SLOT")
	guard := []any{s.app, who.NodeID, who.ID}
	err = s.db.InPacket(ctx, func(p *schema.Packet) error {
		claimed = Claimed{Clock: schema.ClockReading{Sent: time.Now()}}
		token := rand.Int64()
		for i := range runs {
			runs[i].token = token
		}
		p.Exec(freeRunsSQL, ids)
		if len(executes) == 1 {
			p.Exec(noExecutesSQL)
		} else {
			p.Exec(freeExecutesSQL, executes)
			p.Exec(lockedExecutesSQL, executes)
			p.Exec(fmt.Sprintf(raiseFencesSQL, table), slices.Concat(args, guard)...)
		}
		p.Exec(fmt.Sprintf(claimPendingSQL, table), slices.Concat(args, []any{who.NodeID, who.ID, token}, guard)...)
		p.Then(claimed.Clock.Scan, `SELECT `+schema.NowSQL)
		p.Then(func(r *sqlx.Rows) error {
			var found row
			err := r.StructScan(&found)
			run := found.run(who, &s.zones)
			run.Token = token
			claimed.Runs = append(claimed.Runs, run)
			return err
		}, claimedRunsSQL, ids, who.ID, token)
		return nil
	})
	switch {
	case errors.Is(err, schema.ErrCommitUnknown):
		return Claimed{InDoubt: runs}, err
	case schema.Locked(err):
		return Claimed{}, fmt.Errorf("the row of the app or of this node, or the end of QRTZ_RUN, is locked%s: %w", s.db.Blockers(ctx), err)
	default:
		return claimed, err
	}
}
