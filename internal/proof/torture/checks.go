package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// The checks that package check does not make: those that need to have watched.

const rowsSQL = `
SELECT ID, APPLICATION, COALESCE(EXECUTE_ID, 0) AS EXECUTE_ID, FIRE_TIME, ATTEMPT, STATE, HOST_IP, INSTANCE, FENCE, CLAIMED_AT, FINISHED_AT,
       LEFT(COALESCE(MESSAGE, ''), 60) AS MESSAGE
  FROM QRTZ_RUN WHERE FIRE_TIME >= ?`

// runRow is a run as it is stored.
type runRow struct {
	ID         int64          `db:"ID"`
	App        string         `db:"APPLICATION"`
	Execute    int64          `db:"EXECUTE_ID"`
	Fire       int64          `db:"FIRE_TIME"`
	Attempt    int            `db:"ATTEMPT"`
	State      string         `db:"STATE"`
	Node       sql.NullString `db:"HOST_IP"`
	Instance   sql.NullInt64  `db:"INSTANCE"`
	Fence      int64          `db:"FENCE"`
	ClaimedAt  sql.NullInt64  `db:"CLAIMED_AT"`
	FinishedAt sql.NullInt64  `db:"FINISHED_AT"`
	Message    string         `db:"MESSAGE"`
}

func (r runRow) over() bool { return r.State != "PENDING" && r.State != "RUNNING" }

func (r runRow) finding(what, format string, args ...any) finding {
	return finding{what, r.Execute, time.UnixMilli(r.Fire), fmt.Sprintf("run %d: ", r.ID) + fmt.Sprintf(format, args...)}
}

// ownChecks looks at the runs of fires since a time, and at the accounts of all.
func (j *judge) ownChecks(ctx context.Context, from time.Time) ([]finding, error) {
	var rows []runRow
	if err := j.db.SelectContext(ctx, &rows, rowsSQL, from.UnixMilli()); err != nil {
		return nil, err
	}
	accounts, err := j.t.records.update() // after the rows: what they show has been told
	if err != nil {
		return nil, err
	}
	inconsistent, err := j.listed(ctx, inconsistentSQL)
	if err != nil {
		return nil, err
	}
	broken, err := j.judgeRules(ctx, from)
	if err != nil {
		return nil, err
	}
	promises, err := j.brokenPromises(ctx)
	if err != nil {
		return nil, err
	}
	fenced, err := j.t.fencedWell()
	if err != nil {
		return nil, err
	}
	poisoned := func(f finding) bool { return f.execute != 0 && j.t.poisons.has(f.execute) }
	j.mu.Lock()
	defer j.mu.Unlock()
	byRun := map[int64][]*account{}
	for _, a := range accounts {
		byRun[a.Run] = append(byRun[a.Run], a)
	}
	return slices.DeleteFunc(slices.Concat(inconsistent, broken, promises, forgotten(byRun), j.afterSwitch(rows), j.changedAfterEnd(rows), contradicted(rows, byRun), twice(byRun),
		outlived(rows, byRun, j.t.thawed, &j.t.clock), outOfOrder(rows, accounts), j.instances.fenced(rows, &j.t.clock), stranded(rows, byRun),
		fenced, j.tardy(accounts)), poisoned), nil
}

// inconsistentSQL lists rows that contradict themselves, or each other. Of app b runs are cleaned away that a LOST or
// FAILED one may have been followed by.
const inconsistentSQL = `
SELECT 'inconsistent' AS WHAT, COALESCE(R.EXECUTE_ID, 0) AS EXECUTE_ID, R.FIRE_TIME AS AT,
       CONCAT('run ', R.ID, ' is ', R.STATE, ', on ', COALESCE(R.HOST_IP, 'none'), ', instance ', COALESCE(R.INSTANCE, 'none'),
              ', claimed ', COALESCE(R.CLAIMED_AT, 'never'), ', finished ', COALESCE(R.FINISHED_AT, 'never'),
              ', overlap key ', COALESCE(R.OVERLAP_KEY, 'none'), ', slot ', R.OVERLAP_SLOT, ', job ', COALESCE(J.NAME, 'deleted'), ', ', COALESCE(J.OVERLAP, '')) AS DETAIL
  FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.STATE = 'RUNNING' AND (R.INSTANCE IS NULL OR R.HOST_IP IS NULL OR R.CLAIMED_AT IS NULL)
    OR R.STATE = 'PENDING' AND (R.INSTANCE IS NOT NULL OR R.FINISHED_AT IS NOT NULL)
    OR R.STATE NOT IN ('PENDING', 'RUNNING') AND R.FINISHED_AT IS NULL
    OR R.STATE <> 'RUNNING' AND R.OVERLAP_KEY IS NOT NULL
    OR R.STATE = 'RUNNING' AND (J.OVERLAP <> 'ALLOW' OR J.MAX_RUNNING > 0) AND J.NAME LIKE 'lasting%' AND R.OVERLAP_KEY IS NULL
UNION ALL
SELECT 'inconsistent', E.ID, COALESCE(E.NEXT_FIRE_TIME, 0),
       CONCAT('execute is ', E.STATE, ', next ', COALESCE(E.NEXT_FIRE_TIME, 'never'), ', fired ', E.TIME_TRIGGERED, ' times of ', COALESCE(E.REPEAT_COUNT, 'any'),
              ', ', COALESCE(E.STATE_REASON, ''))
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID
 WHERE E.STATE = 'EXECUTING' AND E.NEXT_FIRE_TIME IS NULL AND J.NAME LIKE 'lasting%'
    OR E.REPEAT_COUNT >= 0 AND E.TIME_TRIGGERED > E.REPEAT_COUNT
    OR J.NAME LIKE 'lasting%' AND E.STATE NOT IN ('EXECUTING', 'COMPLETE')
UNION ALL
SELECT 'not tried again', R.EXECUTE_ID, R.FIRE_TIME,
       CONCAT('run ', R.ID, ' is ', R.STATE, ', attempt ', R.ATTEMPT, ' of ', J.ATTEMPTS, ', recovered ', R.RECOVERIES, ' times, and there is no further one')
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.APPLICATION = 'a' AND R.EXECUTE_ID IS NOT NULL AND J.NAME LIKE 'lasting%' AND J.HISTORY = 'ALL' AND R.CANCEL_AT IS NULL
   AND (R.STATE = 'LOST' AND R.RECOVERIES < 5 AND (J.RECOVERY <> 0 OR J.ATTEMPTS > 1 AND R.MESSAGE LIKE 'interrupted:%')
    OR R.STATE = 'FAILED' AND R.ATTEMPT - R.RECOVERIES < J.ATTEMPTS)
   AND NOT EXISTS (SELECT 1 FROM QRTZ_RUN L WHERE L.EXECUTE_ID = R.EXECUTE_ID AND L.FIRE_TIME = R.FIRE_TIME AND L.ATTEMPT > R.ATTEMPT)
 LIMIT 20`

// changedAfterEnd finds finished runs that were changed afterwards, by a fenced node's result, for example.
func (j *judge) changedAfterEnd(rows []runRow) (found []finding) {
	for _, r := range rows {
		if !r.over() {
			if was, ok := j.ended[r.ID]; ok {
				found = append(found, r.finding("changed after its end", "was %s, is %s", was.State, r.State))
			}
			continue
		}
		was, ok := j.ended[r.ID]
		if ok && was != r {
			found = append(found, r.finding("changed after its end", "was %+v, is %+v", was, r))
		}
		j.ended[r.ID] = r
	}
	return found
}

// contradicted finds results that are not what the handler returned.
func contradicted(rows []runRow, byRun map[int64][]*account) (found []finding) {
	for _, r := range rows {
		ok := slices.ContainsFunc(byRun[r.ID], func(a *account) bool { return a.ok })
		switch {
		case r.State == "SUCCEEDED" && !ok && !slices.ContainsFunc(byRun[r.ID], func(a *account) bool { return a.Class == paying }): // whose COMMIT may have had no answer
			found = append(found, r.finding("result", "SUCCEEDED, but its handler does not say so: %s", byRun[r.ID]))
		case (r.State == "FAILED" || r.State == "CANCELLED") && ok:
			found = append(found, r.finding("result", "%s (%s), but its handler returned nil: %s", r.State, r.Message, byRun[r.ID]))
		}
	}
	return found
}

// outliving is how long a handler may take to end after its run was taken from it, on a busy machine.
const outliving = 500 * time.Millisecond

// outlived finds handlers that continued, in a process that did not stand still, after their runs had been LOST.
func outlived(rows []runRow, byRun map[int64][]*account, thawed func(*account) time.Time, c *serverClock) (found []finding) {
	for _, r := range rows {
		if r.State != "LOST" {
			continue
		}
		for _, a := range byRun[r.ID] {
			from := later(time.UnixMilli(r.FinishedAt.Int64), c.atMost(later(a.startedAt(), thawed(a))))
			if a.ended && a.Class != stubborn && a.Class != paying && c.atLeast(a.endedAt).Sub(from) > outliving {
				found = append(found, r.finding("outlived", "LOST at %s, but its handler continued: %s", clock(time.UnixMilli(r.FinishedAt.Int64)), a))
			}
		}
	}
	return found
}

// twice finds runs that were started more than once. It does not trust what identifies a fire, only the row's id.
func twice(byRun map[int64][]*account) (found []finding) {
	for id, accounts := range byRun {
		if id != 0 && len(accounts) > 1 {
			found = append(found, finding{"double", accounts[0].Execute, accounts[0].fire(), fmt.Sprintf("run %d was started %d times: %s", id, len(accounts), accounts)})
		}
	}
	return found
}

// overtaking is how much earlier a later fire must have started to be said to have overtaken another: of two that start
// at once, on a busy machine, either may be the first to get going; of two claims at once, one of fires and one of pending
// runs, either may be the first to be answered.
const overtaking = 250 * time.Millisecond

// handedBack tells whether a fire was claimed so late, and by another claim than a later fire, that it must have been PENDING
// in between: it may then start after the later one, for its claim is one of pending runs.
func handedBack(earlier *account, claimed map[int64]int64, later *account) bool {
	return claimed[earlier.Run] != claimed[later.Run] && claimed[earlier.Run]-earlier.Fire > time.Second.Milliseconds()
}

// outOfOrder finds fires of an execute that were started before earlier ones in the same process, though claimed after
// them, and fences that do not grow.
func outOfOrder(rows []runRow, accounts []*account) (found []finding) {
	claimed := map[int64]int64{}
	for _, r := range rows {
		if r.Node.Valid { // one that waits may have been claimed since
			claimed[r.ID] = r.ClaimedAt.Int64
		}
	}
	of := map[int64][]*account{}
	for _, a := range accounts {
		if a.Execute != 0 && a.Attempt == 1 {
			of[a.Execute] = append(of[a.Execute], a)
		}
	}
	for _, same := range of {
		slices.SortStableFunc(same, func(a, b *account) int { return cmp.Compare(a.Fire, b.Fire) })
		last := map[string]*account{} // by process
		for i, a := range same {
			if i > 0 && a.Fence < same[i-1].Fence && claimed[a.Run] > claimed[same[i-1].Run] && claimed[same[i-1].Run] > 0 {
				found = append(found, finding{"fence", a.Execute, a.fire(), fmt.Sprintf("does not grow: %s, before that %s", a, same[i-1])})
			}
			if earlier := last[a.life]; earlier != nil && a.At+overtaking.Microseconds() < earlier.At && a.Fire > earlier.Fire &&
				claimed[a.Run] > 0 && claimed[earlier.Run] > 0 && claimed[earlier.Run] <= claimed[a.Run] && !handedBack(earlier, claimed, a) {
				found = append(found, finding{"order", a.Execute, a.fire(), fmt.Sprintf("overtook an earlier fire: %s, but %s", a, earlier)})
			}
			last[a.life] = a
		}
	}
	return found
}
