package run

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	// MaxMessage is how many bytes of a run's message are kept.
	MaxMessage = 8 << 10

	// maxAttempt is the greatest ATTEMPT that the table takes.
	maxAttempt = 2_000_000_000

	completeBatch = 500
	completeBytes = 512 << 10 // of messages, in one statement
)

// Completed is what became of results.
type Completed struct {
	Late    int       // runs that were no longer their instance's: it had been taken for dead, they are on record as LOST
	Locked  []Result  // not written, since another transaction holds the rows of their runs
	Refused []Refused // the server did not take them as they are
	Left    []Result  // not written, because of the error that is returned with them
}

// Refused is a result that the server refused.
type Refused struct {
	Run    Run
	Err    error
	Stored bool // in part: the state is on record, the message not as it was, a further attempt perhaps not at all
}

// Complete writes the results of runs that are still as their instance claimed them: it updates their rows, or deletes them
// where the job's history says so, and leaves a PENDING attempt for those that are to be tried again. A result that the
// server refuses, or whose row another transaction has locked, costs the others nothing.
func (s *Store) Complete(ctx context.Context, results []Result) (done Completed, err error) {
	byKind := make([][]Result, kinds)
	for _, r := range results {
		if r.Run.ID == 0 {
			continue // it has no row
		}
		r = r.withinLimit()
		byKind[r.kind()] = append(byKind[r.kind()], r)
	}
	w := &rowwise[Result]{
		store: s,
		id:    func(r Result) int64 { return r.Run.ID },
		write: func(ctx context.Context, some []Result) error {
			n, err := s.write(ctx, some)
			if err == nil && !slices.ContainsFunc(some, func(r Result) bool { return r.tried || r.Completing }) {
				done.Late += len(some) - n
			}
			return err
		},
		locked: func(some ...Result) {
			for _, r := range some {
				r.held = true
				done.Locked = append(done.Locked, r)
			}
		},
	}
	if slices.ContainsFunc(results, func(r Result) bool { return r.held }) {
		w.waits = 1
	}
	w.refused = func(ctx context.Context, r Result, refusal error) error {
		n, stored, err := s.mend(ctx, r, refusal)
		if err != nil {
			return err
		}
		if stored {
			done.Late += 1 - n
		}
		done.Refused = append(done.Refused, Refused{r.Run, refusal, stored})
		return nil
	}
	for _, some := range byKind {
		slices.SortFunc(some, func(a, b Result) int { return cmp.Compare(a.Run.ID, b.Run.ID) })
		for _, batch := range bounded(some) {
			left := batch
			if err == nil {
				left, err = w.batch(ctx, batch)
			}
			for _, r := range left {
				r.tried = true
				done.Left = append(done.Left, r)
			}
		}
	}
	if err != nil {
		return done, fmt.Errorf("write results: %w", err)
	}
	return done, nil
}

// bounded splits results into batches that a packet holds with room to spare, and whose rows have little data.
func bounded(results []Result) (batches [][]Result) {
	begin, bytes, data := 0, 0, int64(0)
	for i, r := range results {
		if i > begin && (i-begin == completeBatch || bytes+len(r.Message) > completeBytes || data+r.Run.weight() > packetData) {
			batches, begin, bytes, data = append(batches, results[begin:i:i]), i, 0, 0
		}
		bytes, data = bytes+min(len(r.Message), MaxMessage), data+r.Run.weight()
	}
	if begin < len(results) {
		batches = append(batches, results[begin:])
	}
	return batches
}

// The kinds of results, by what is done with the row.
const (
	kindFinish = iota // it is updated
	kindDrop          // it is deleted
	kindRetry         // one of both, and a further attempt is inserted
	kinds
)

func (r Result) kind() int {
	switch {
	case !r.RetryAt.IsZero():
		return kindRetry
	case r.Run.Options.keeps(r.State):
		return kindFinish
	default:
		return kindDrop
	}
}

// withinLimit is the result without a further attempt if the table has no number for that.
func (r Result) withinLimit() Result {
	if r.Run.Attempt >= maxAttempt && !r.RetryAt.IsZero() {
		return r.withoutRetry("ATTEMPT is at its limit")
	}
	return r
}

func (r Result) withoutRetry(why string) Result {
	r.RetryAt = time.Time{}
	return r.noting("no further attempt: " + why)
}

// noting is the result with a note at the end of its message.
func (r Result) noting(note string) Result {
	note = " (" + text.Clip(note, 500) + ")"
	r.Message = text.Clip(r.Message, MaxMessage-len(note)) + note
	return r
}

// write writes results of one kind, and returns how many of their runs were still as they had been claimed.
func (s *Store) write(ctx context.Context, results []Result) (done int, err error) {
	switch results[0].kind() {
	case kindFinish:
		return s.alone(ctx, s.finish, results)
	case kindDrop:
		return s.alone(ctx, s.drop, results)
	default:
		return s.endAndRetry(ctx, results)
	}
}

// mend writes the result that the server refused in a form that it takes: with a message in ASCII, or none, and without a
// further attempt if that is what cannot be. If it takes none of these, nothing is stored.
func (s *Store) mend(ctx context.Context, r Result, refusal error) (done int, stored bool, err error) {
	why := text.ASCII(refusal.Error())
	plain, mute := r, r
	plain.Message = text.ASCII(text.Clip(r.Message, MaxMessage))
	plain = plain.noting("in ASCII, since the server refused the result as it was: " + why)
	mute.Message, mute.Progress = "", -1
	forms := []Result{plain, mute}
	if r.kind() == kindRetry {
		last := mute
		last.RetryAt = time.Time{}
		forms = append(forms, plain.withoutRetry(why), last)
	}
	for _, form := range forms {
		done, err := s.write(ctx, []Result{form})
		if err == nil {
			return done, true, nil
		}
		if !schema.RowFault(err) {
			return 0, false, err
		}
	}
	return 0, false, nil
}

// alone carries out one statement, outside a transaction.
func (s *Store) alone(ctx context.Context, statement func([]Result) (string, []any), results []Result) (done int, err error) {
	query, args := statement(results)
	result, err := s.db.Exec(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// heldSQL tells whether a run is still as its instance claimed it. The fence grows with every claim of the row.
const heldSQL = `R.STATE = 'RUNNING' AND R.INSTANCE = V.HOLDER AND R.FENCE = V.CLAIM`

// runByID joins a table of runs by primary key and in no other way: a scan, which the server likes to make of a small table,
// would wait for every row that another transaction has locked.
const runByID = `QRTZ_RUN R FORCE INDEX (PRIMARY) ON R.ID = V.ID`

// A run that was to be cancelled when its node stopped is CANCELLED.
const finishSQL = `
UPDATE %s V STRAIGHT_JOIN ` + runByID + `
   SET R.STATE = IF(V.STATE1 = 'LOST' AND R.CANCEL_AT IS NOT NULL, 'CANCELLED', V.STATE1),
       R.STARTED_AT = V.STARTED, R.FINISHED_AT = V.FINISHED, R.MESSAGE = V.MESSAGE1, R.PROGRESS = V.PERCENT,
       R.OVERLAP_KEY = NULL, ` + releaseKeySQL + `, R.CHECKPOINT = IF(V.STATE1 = 'SUCCEEDED', NULL, R.CHECKPOINT)
 WHERE ` + heldSQL

func (s *Store) finish(results []Result) (query string, args []any) {
	rows := make([]any, 0, 8*len(results))
	for _, r := range results {
		rows = append(rows, r.Run.ID, r.Run.Instance, r.Run.Fence, r.State, r.Started.UnixMilli(), r.Finished.UnixMilli(),
			message(r.Message), percent(r.Progress))
	}
	table, args := schema.Values(rows, "ID", "HOLDER", "CLAIM", "STATE1", "STARTED", "FINISHED", "MESSAGE1", "PERCENT")
	return fmt.Sprintf(finishSQL, table), args
}

func message(m string) sql.NullString {
	return sql.NullString{String: text.Clip(m, MaxMessage), Valid: m != ""}
}

func percent(p int) sql.NullInt64 { return sql.NullInt64{Int64: int64(p), Valid: p >= 0} }

const dropSQL = `DELETE R FROM %s V STRAIGHT_JOIN ` + runByID + ` WHERE ` + heldSQL

func (s *Store) drop(results []Result) (query string, args []any) {
	table, args := claimsOf(results)
	return fmt.Sprintf(dropSQL, table), args
}

// claimsOf is what tells the runs of results as they were claimed.
func claimsOf(results []Result) (table string, args []any) {
	rows := make([]any, 0, 3*len(results))
	for _, r := range results {
		rows = append(rows, r.Run.ID, r.Run.Instance, r.Run.Fence)
	}
	return schema.Values(rows, "ID", "HOLDER", "CLAIM")
}

const (
	lockHeldSQL = `SELECT R.ID FROM %s V STRAIGHT_JOIN ` + runByID + ` WHERE ` + heldSQL + ` FOR UPDATE`

	// The key of a run whose job is gone stays until the run has ended.
	keysToRetrySQL = rememberKeysSQL + `
  FROM %s V STRAIGHT_JOIN ` + runByID + ` STRAIGHT_JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE ` + heldSQL + ` AND R.KEY_LIVE = 1 AND ` + followedSQL

	// A run whose job is gone gets no further attempt, since no node could claim it.
	retrySQL = `
INSERT INTO QRTZ_RUN (` + attemptColumns + `, AVAILABLE_AT, RECOVERS, RECOVERIES)
SELECT ` + attemptValues + keyPassed + `, V.AVAILABLE, IF(V.RECOVERY, R.ID, NULL), R.RECOVERIES + V.RECOVERY
  FROM %s V JOIN QRTZ_RUN R ON R.ID = V.ID JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE ` + heldSQL + ` AND ` + followedSQL + keepAttemptSQL
)

// endAndRetry writes results and the attempts that follow them in one transaction: neither a lost nor a second attempt. What one
// that committed unnoticed has done is not done again, for the runs are no longer RUNNING.
func (s *Store) endAndRetry(ctx context.Context, results []Result) (done int, err error) {
	next, ids := make([]any, 0, 5*len(results)), make([]int64, 0, len(results))
	var keep, drop []Result
	for _, r := range results {
		next, ids = append(next, r.Run.ID, r.Run.Instance, r.Run.Fence, r.RetryAt.UnixMilli(), r.Recovery), append(ids, r.Run.ID)
		if r.Run.Options.keeps(r.State) {
			keep = append(keep, r)
		} else {
			drop = append(drop, r)
		}
	}
	err = s.db.InPacket(ctx, func(p *schema.Packet) error {
		done = 0
		count := func(rows *sqlx.Rows) error {
			done++
			var id int64
			return rows.Scan(&id)
		}
		table, args := claimsOf(results)
		p.Select(count, fmt.Sprintf(lockHeldSQL, table), args...)
		p.Exec(fmt.Sprintf(keysToRetrySQL, table), args...)
		p.Exec(passKeysSQL, ids)
		table, args = schema.Values(next, "ID", "HOLDER", "CLAIM", "AVAILABLE", "RECOVERY")
		p.Exec(fmt.Sprintf(retrySQL, table), args...)
		if len(keep) > 0 {
			query, args := s.finish(keep)
			p.Exec(query, args...)
		}
		if len(drop) > 0 {
			query, args := s.drop(drop)
			p.Exec(query, args...)
		}
		return nil
	})
	return done, err
}
