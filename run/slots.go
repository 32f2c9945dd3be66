package run

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
)

// Of a limited job, only some runs go at a time: each holds a slot of its own, from 0 on. The unique key on OVERLAP_KEY, which
// is the job's id, and OVERLAP_SLOT decides, so that neither two nodes nor a crash can get round it.

// Limited tells whether only some runs of the job may go at a time.
func (o Options) Limited() bool { return o.Overlap != OverlapAllow || o.MaxRunning > 0 }

// slots is how many runs of a limited job may go at a time.
func (o Options) slots() int { return max(o.MaxRunning, 1) }

// limitedSQL tells whether only some runs of the job J may go at a time, and slotsSQL how many; 0 for any number.
const (
	LimitedSQL = `(J.OVERLAP <> 'ALLOW' OR J.MAX_RUNNING > 0)`
	slotsSQL   = `IF(` + LimitedSQL + `, GREATEST(J.MAX_RUNNING, 1), 0)`
)

const takenSlotsSQL = `SELECT OVERLAP_KEY, LINE_AT AS OVERLAP_SLOT FROM QRTZ_RUN WHERE OVERLAP_KEY IN (?)`

// freeSlots reads which slots of jobs are free, at most limit of each; slots says how many each job has. It begins anywhere, so
// that nodes that ask at once do not all try the same. After a job's slots have become fewer, none is free until fewer runs go.
func (s *Store) freeSlots(ctx context.Context, slots map[int64]int, limit int) (free map[int64][]int, err error) {
	if len(slots) == 0 {
		return nil, nil
	}
	jobs := make([]int64, 0, len(slots))
	for job := range slots {
		jobs = append(jobs, job)
	}
	var rows []struct {
		Job  int64 `db:"OVERLAP_KEY"`
		Slot int   `db:"OVERLAP_SLOT"`
	}
	if err := s.db.Select(ctx, &rows, takenSlotsSQL, jobs); err != nil {
		return nil, err
	}
	taken := map[int64]map[int]bool{}
	for _, r := range rows {
		if taken[r.Job] == nil {
			taken[r.Job] = map[int]bool{}
		}
		taken[r.Job][r.Slot] = true
	}
	free = make(map[int64][]int, len(slots))
	for job, n := range slots {
		free[job] = freeOf(n, taken[job], limit)
	}
	return free, nil
}

// freeOf are at most limit of n slots that are free. As many of the last slots are left out as runs hold one beyond n: two nodes
// that both see the others free would else each start one too many.
func freeOf(n int, taken map[int]bool, limit int) (free []int) {
	usable := n
	for slot := range taken {
		if slot >= n {
			usable--
		}
	}
	limit = min(limit, n-len(taken))
	if usable <= 0 || limit <= 0 {
		return nil
	}
	for i, from := 0, rand.IntN(usable); i < usable && len(free) < limit; i++ {
		if slot := (from + i) % usable; !taken[slot] {
			free = append(free, slot)
		}
	}
	return free
}

// places are the slots that a look at pending runs has yet to give out.
type places struct {
	store *Store
	limit int             // no more of a job are looked for
	free  map[int64][]int // by job
}

// full are the jobs that are known to have no slot left.
func (p *places) full() []int64 {
	jobs := []int64{0} // IN () is no SQL
	for job, free := range p.free {
		if len(free) == 0 {
			jobs = append(jobs, job)
		}
	}
	slices.Sort(jobs)
	return jobs
}

// give gives runs of limited jobs, which come in the order in which they are to start, a slot each, and leaves out those for
// which there is none. What is to be ended needs none.
func (p *places) give(ctx context.Context, runs []PendingRun) (some []PendingRun, err error) {
	unseen := map[int64]int{}
	for _, r := range runs {
		if _, seen := p.free[r.JobID]; !seen && r.slots > 0 {
			unseen[r.JobID] = r.slots
		}
	}
	free, err := p.store.freeSlots(ctx, unseen, p.limit)
	if err != nil {
		return nil, err
	}
	if p.free == nil {
		p.free = map[int64][]int{}
	}
	maps.Copy(p.free, free)
	some = runs[:0]
	for _, r := range runs {
		if r.slots > 0 && !r.cancelled {
			left := p.free[r.JobID]
			if len(left) == 0 {
				continue
			}
			r.slot, p.free[r.JobID] = left[0], left[1:]
		}
		some = append(some, r)
	}
	return some, nil
}
