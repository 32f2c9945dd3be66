package check

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
)

// clockError is how far two nodes' readings of the database's clock may be apart. Spans that share less are not said
// to overlap.
const clockError = 10 * time.Millisecond

// span is when a run went, by its row or by its handler's account.
type span struct {
	execute    int64
	fire       time.Time
	what       string
	start, end time.Time
}

// lane is a job that lets only some runs go at a time, by the runs on record or by the handlers' accounts of the same runs.
type lane struct {
	job      int64
	slots    int // how many may go
	accounts bool
}

const spansSQL = `
SELECT R.ID, R.JOB_ID, GREATEST(J.MAX_RUNNING, 1) AS SLOTS, COALESCE(R.EXECUTE_ID, 0) AS EXECUTE_ID, R.FIRE_TIME, R.STATE,
       GREATEST(R.STARTED_AT, COALESCE(R.CLAIMED_AT, 0)) AS STARTED_AT, R.FINISHED_AT
  FROM QRTZ_JOB J JOIN QRTZ_RUN R ON R.JOB_ID = J.ID
 WHERE J.APPLICATION = ? AND (J.OVERLAP <> 'ALLOW' OR J.MAX_RUNNING > 0) AND R.STARTED_AT <= ?
   AND (R.FINISHED_AT >= ? OR R.FINISHED_AT IS NULL AND R.STATE = 'RUNNING')`

// A node's clock runs behind the database's by as much as answers are delayed. What it says of a start is not taken for
// earlier than the claim, whose time is the database's.

// readSpans reads when the runs went of the jobs that let only some go at a time, by their present rule. Of a run that
// has not started by its row, or has not ended by its handler's account, nothing is known.
func (a *audit) readSpans(ctx context.Context, tx *sqlx.Tx, executes []executeRow, starts []Start) error {
	var rows []struct {
		ID         int64         `db:"ID"`
		JobID      int64         `db:"JOB_ID"`
		Slots      int           `db:"SLOTS"`
		ExecuteID  int64         `db:"EXECUTE_ID"`
		FireTime   int64         `db:"FIRE_TIME"`
		State      string        `db:"STATE"`
		StartedAt  int64         `db:"STARTED_AT"`
		FinishedAt sql.NullInt64 `db:"FINISHED_AT"`
	}
	if err := tx.SelectContext(ctx, &rows, a.prefix.SQL(spansSQL), a.opts.App, a.opts.Until.UnixMilli(), a.opts.From.UnixMilli()); err != nil {
		return fmt.Errorf("read the runs of exclusive jobs: %w", err)
	}
	a.spans = map[lane][]span{}
	for _, r := range rows {
		one := span{
			execute: r.ExecuteID, fire: time.UnixMilli(r.FireTime), what: fmt.Sprintf("run %d (%s)", r.ID, r.State),
			start: time.UnixMilli(r.StartedAt), end: a.now,
		}
		if r.FinishedAt.Valid {
			one.end = time.UnixMilli(r.FinishedAt.Int64)
		}
		of := lane{job: r.JobID, slots: r.Slots}
		a.spans[of] = append(a.spans[of], one)
	}
	a.addAccounts(executes, starts)
	return nil
}

// addAccounts adds what the handlers' own accounts say.
func (a *audit) addAccounts(executes []executeRow, starts []Start) {
	jobs := map[int64]lane{} // of executes whose job lets only some go at a time
	for _, e := range executes {
		if e.limited() {
			jobs[e.ID] = lane{e.JobID, max(e.MaxRunning, 1), true}
		}
	}
	for _, s := range starts {
		of, ok := jobs[s.ExecuteID]
		if !ok || s.FinishedAt.IsZero() {
			continue
		}
		one := span{
			execute: s.ExecuteID, fire: s.FireTime, start: s.StartedAt, end: s.FinishedAt,
			what: fmt.Sprintf("by their own account: attempt %d on node %q", max(s.Attempt, 1), s.Node),
		}
		a.spans[of] = append(a.spans[of], one)
	}
}

// judgeOverlaps reports each run that began while as many earlier ones of its job still went as may go at a time.
func (a *audit) judgeOverlaps() {
	for of, spans := range a.spans {
		slices.SortFunc(spans, func(a, b span) int {
			return cmp.Or(a.start.Compare(b.start), a.end.Compare(b.end), cmp.Compare(a.what, b.what))
		})
		var longest []span // as many as may go, of those so far: the ones that end last, the last first
		for _, one := range spans {
			if len(longest) == of.slots {
				other := longest[of.slots-1]
				if shared := earlier(one.end, other.end).Sub(one.start); shared > clockError {
					a.report.overlapping(one.execute, one.fire, one.start, "%s began at %s, while %s of fire %s ran until %s (of %d that may go)",
						one.what, clock(one.start), other.what, clock(other.fire), clock(other.end), of.slots)
				}
			}
			longest = append(longest, one)
			slices.SortStableFunc(longest, func(a, b span) int { return b.end.Compare(a.end) })
			longest = longest[:min(len(longest), of.slots)]
		}
	}
}
