package main

import (
	"context"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// instances are the processes that the nodes' rows belong to, and have belonged to. One that has lost its row never has
// one again.
type instances struct {
	mu     sync.Mutex
	held   map[int64]bool
	absent map[int64]bool      // in the last look, for the first time
	gone   map[int64]time.Time // by the database's clock
}

// lookAtInstances is how often the nodes' rows are read.
const lookAtInstances = 500 * time.Millisecond

// watch looks whose the rows are until ctx ends. While no server answers it knows nothing, and says nothing.
func (in *instances) watch(ctx context.Context, db *sqlx.DB) {
	ticker := time.NewTicker(lookAtInstances)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			in.look(ctx, db)
		}
	}
}

func (in *instances) look(ctx context.Context, db *sqlx.DB) {
	ctx, cancel := context.WithTimeout(ctx, operation)
	defer cancel()
	var rows []struct {
		Now      int64 `db:"NOW_MICROS"`
		Instance int64 `db:"INSTANCE"`
	}
	const query = `SELECT ` + schema.NowSQL + ` AS NOW_MICROS, COALESCE(INSTANCE, 0) AS INSTANCE FROM QRTZ_NODE`
	if err := db.SelectContext(ctx, &rows, query); err != nil || len(rows) == 0 {
		return
	}
	now := map[int64]bool{}
	for _, r := range rows {
		now[r.Instance] = true
	}
	in.see(time.UnixMicro(rows[0].Now), now)
}

// see takes an instance for gone that is absent twice in a row: of several database servers, one may not have heard of it yet.
func (in *instances) see(at time.Time, now map[int64]bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.held == nil {
		in.held, in.gone = map[int64]bool{}, map[int64]time.Time{}
	}
	absent := map[int64]bool{}
	for id := range in.held {
		switch {
		case now[id]:
		case in.absent[id]:
			in.gone[id] = at
			delete(in.held, id)
		default:
			absent[id] = true
		}
	}
	in.absent = absent
	for id := range now {
		if _, gone := in.gone[id]; !gone && id != 0 {
			in.held[id] = true
		}
	}
}

// goneSince is when an instance was first known to have lost its row; zero if it has not.
func (in *instances) goneSince(id int64) time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.gone[id]
}

// fenced finds claims by instances that had lost their rows.
func (in *instances) fenced(rows []runRow, c *serverClock) (found []finding) {
	for _, r := range rows {
		if !r.Instance.Valid || !r.ClaimedAt.Valid {
			continue
		}
		if gone := in.goneSince(r.Instance.Int64); !gone.IsZero() && time.UnixMilli(r.ClaimedAt.Int64).After(gone) && !c.twice(gone) {
			found = append(found, r.finding("claim when fenced", "claimed at %s by instance %d of %s, which had lost its row by %s",
				clock(time.UnixMilli(r.ClaimedAt.Int64)), r.Instance.Int64, r.Node.String, clock(gone)))
		}
	}
	return found
}

// stranding is in how many seconds an instance must have claimed after a run for it to be said to have gone on. While the
// database stands still a claim may take long, and be fenced before it is started.
const stranding = 5

// stranded finds runs that were neither started nor handed back by an instance that continued to claim others.
func stranded(rows []runRow, byRun map[int64][]*account) (found []finding) {
	second := func(r runRow) int64 { return max(r.ClaimedAt.Int64, r.Fire) / 1000 }
	claims := map[int64]map[int64]bool{} // of an instance, the seconds in which it claimed
	for _, r := range rows {
		if r.Instance.Valid && r.State != "SKIPPED" {
			if claims[r.Instance.Int64] == nil {
				claims[r.Instance.Int64] = map[int64]bool{}
			}
			claims[r.Instance.Int64][second(r)] = true
		}
	}
	for _, r := range rows {
		if r.State != "RUNNING" && r.State != "LOST" || len(byRun[r.ID]) > 0 || !r.Instance.Valid {
			continue
		}
		since := 0
		for s := range claims[r.Instance.Int64] {
			if s > second(r) {
				since++
			}
		}
		if since >= stranding {
			found = append(found, r.finding("stranded", "claimed at %s and never started, though instance %d claimed others in %d seconds since",
				clock(time.UnixMilli(r.ClaimedAt.Int64)), r.Instance.Int64, since))
		}
	}
	return found
}
