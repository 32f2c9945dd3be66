package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// queues are the runs that have to wait in line, as they are seen to be PENDING.
type queues struct {
	mu      sync.Mutex
	waiting map[int64]*waited
	over    []waited
}

// waited is a run that was PENDING, and not claimed, between two times by the database's clock.
type waited struct {
	Run       int64 `db:"ID"`
	Job       int64 `db:"JOB_ID"`
	Execute   int64 `db:"EXECUTE_ID"`
	Attempt   int   `db:"ATTEMPT"`
	Fire      int64 `db:"FIRE_TIME"`
	Available int64 `db:"AVAILABLE_AT"`
	Fence     int64 `db:"FENCE"` // grows with a claim, and with a hand-back
	Now       int64 `db:"NOW_MICROS"`

	from, until time.Time
}

const waitingSQL = `
SELECT R.ID, R.JOB_ID, COALESCE(R.EXECUTE_ID, 0) AS EXECUTE_ID, R.ATTEMPT, R.FIRE_TIME, R.AVAILABLE_AT, R.FENCE, ` + schema.NowSQL + ` AS NOW_MICROS
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.STATE = 'PENDING' AND R.CANCEL_AT IS NULL AND (J.OVERLAP <> 'ALLOW' OR J.MAX_RUNNING > 0) AND J.NAME NOT LIKE '` + poisonPrefix + `%'
   AND R.AVAILABLE_AT <= ` + schema.NowMillisSQL

// lookAtQueues is how often.
const lookAtQueues = 300 * time.Millisecond

// watch looks at the queues until ctx ends.
func (q *queues) watch(ctx context.Context, db *sqlx.DB) {
	for sleepUntil(ctx, time.Now().Add(lookAtQueues)) {
		var rows []waited
		look, cancel := context.WithTimeout(ctx, operation)
		err := db.SelectContext(look, &rows, waitingSQL)
		cancel()
		if err == nil {
			q.see(rows)
		}
	}
}

// see notes who waits now. One that does no more, or has been claimed and handed back in between, is over.
func (q *queues) see(rows []waited) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := map[int64]*waited{}
	for _, r := range rows {
		r.from = time.UnixMicro(r.Now)
		if before := q.waiting[r.Run]; before != nil && before.Fence == r.Fence {
			r.from = before.from
			delete(q.waiting, r.Run)
		}
		r.until = time.UnixMicro(r.Now)
		now[r.Run] = &r
	}
	for _, gone := range q.waiting {
		if gone.until.After(gone.from) {
			q.over = append(q.over, *gone)
		}
	}
	q.waiting = now
}

// all are those that have waited, or still do.
func (q *queues) all() []waited {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := slices.Clone(q.over)
	for _, w := range q.waiting {
		all = append(all, *w)
	}
	return all
}
