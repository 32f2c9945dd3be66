package run

import (
	"sync"
	"time"
)

const (
	begunFor = 10 * time.Minute // how long a run is remembered at least; at most twice as long
	begunMax = 50_000           // runs after which the older half is forgotten, if that comes earlier
)

// Begun remembers which runs this process has begun. It notices when the database comes back with less than this process has
// seen committed, restored from a backup or failed over to a replica that lagged, and gives out the same runs again.
//
// The fence tells: it grows with every claim of an execute, and with every claim of a run without one. A run that has been begun
// and comes again with a fence that is no higher was claimed from an older state. One that a person set back to PENDING comes with a
// higher one. After a loss has been seen, fences may have grown past those that were lost: for as long as runs are remembered, the run alone
// tells.
type Begun struct {
	mu         sync.Mutex
	young, old generation
	turned     time.Time // when young became old
	lostAt     time.Time // when a loss was last seen; zero for never
}

type generation struct {
	runs   map[begunKey]bool
	fences map[int64]int64 // the highest of each execute, and of each run without one, as the negative of its id
}

// begunKey is a run by what it is for: ids of rows that were lost are given to others.
type begunKey struct {
	execute, run, job, fire int64
	attempt                 int
}

func keyOf(r Run) (key begunKey, fenced int64) {
	key = begunKey{execute: r.ExecuteID, job: r.JobID, fire: r.FireTime.UnixMilli(), attempt: r.Attempt}
	if fenced = r.ExecuteID; fenced == 0 {
		key.run, fenced = r.ID, -r.ID
	}
	return key, fenced
}

// Add notes that a run begins.
func (b *Begun) Add(r Run, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.young.runs == nil || len(b.young.runs) >= begunMax || now.Sub(b.turned) >= begunFor {
		b.old, b.turned = b.young, now
		b.young = generation{runs: map[begunKey]bool{}, fences: map[int64]int64{}}
	}
	key, fenced := keyOf(r)
	b.young.runs[key] = true
	b.young.fences[fenced] = max(b.young.fences[fenced], r.Fence)
}

// Check parts what has been claimed into what is to be started and what was begun before.
func (b *Begun) Check(runs []Run, now time.Time) (start, again []Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, r := range runs {
		if !b.again(r, now) {
			if again != nil {
				start = append(start, r)
			}
			continue
		}
		if again == nil {
			start = append(start, runs[:i]...)
		}
		again = append(again, r)
	}
	if again == nil {
		return runs, nil // nearly always: nothing is copied
	}
	b.lostAt = now
	return start, again
}

func (b *Begun) again(r Run, now time.Time) bool {
	key, fenced := keyOf(r)
	if !b.young.runs[key] && !b.old.runs[key] {
		return false
	}
	lost := !b.lostAt.IsZero() && now.Sub(b.lostAt) < begunFor
	return lost || r.Fence <= max(b.young.fences[fenced], b.old.fences[fenced])
}
