package main

import (
	"slices"
	"time"
)

// shrink looks for the shortest history that still fails, and the simplest of those: it leaves out steps, what goes wrong in them, and
// makes times shorter. Any part of a history is one, since what makes no sense does nothing. It ends when its time is over.
func shrink(steps []Step, limit time.Duration, failing func([]Step) bool) []Step {
	begin := time.Now()
	fails := func(steps []Step) bool { return time.Since(begin) < limit && failing(steps) }
	for before := -1; before != weight(steps); {
		before = weight(steps)
		for size := len(steps) / 2; size >= 1; size /= 2 {
			for until := len(steps); until >= size; { // the last steps matter most
				if less := slices.Delete(slices.Clone(steps), until-size, until); fails(less) {
					steps = less
				}
				until = min(until-size, len(steps))
			}
		}
		for i := range steps {
			for _, s := range simpler(steps[i]) {
				less := slices.Clone(steps)
				if less[i] = s; weight(less) < weight(steps) && fails(less) {
					steps = less
				}
			}
		}
	}
	return steps
}

// weight is how much there is in a history.
func weight(steps []Step) (n int) {
	for _, s := range steps {
		n += len(s.String()) + 20 + weight(s.Then)
	}
	return n
}

// simpler are steps that say less.
func simpler(s Step) (some []Step) {
	with := func(change func(*Step)) {
		c := s
		if s.Job != nil {
			j := *s.Job
			c.Job = &j
		}
		if s.Exec != nil {
			e := *s.Exec
			c.Exec = &e
		}
		if change(&c); c.String() != s.String() {
			some = append(some, c)
		}
	}
	with(func(s *Step) { s.At, s.How, s.Then = 0, "", nil })
	for i := range s.Then {
		with(func(s *Step) { s.Then = slices.Delete(slices.Clone(s.Then), i, i+1) })
	}
	for _, at := range []int{1, s.At / 2, s.At - 1} {
		if s.At > 1 && at >= 1 {
			with(func(s *Step) { s.At = at })
		}
	}
	if s.Do != "exec" {
		with(func(s *Step) { s.N = 0 })
	}
	with(func(s *Step) { s.Text, s.On = "", false })
	for _, by := range []ms{0, 1, 1000, 5000, s.By / 2, s.By / 1000 * 1000} {
		with(func(s *Step) { s.By = by })
	}
	if s.Job != nil {
		for _, change := range []func(*Job){
			func(j *Job) { j.Recovery = false }, func(j *Job) { j.Overlap = "" }, func(j *Job) { j.History = "" }, func(j *Job) { j.QueueLimit = 0 },
			func(j *Job) { j.MaxRunning = 0 }, func(j *Job) { j.Priority = 0 }, func(j *Job) { j.Timeout = 0 }, func(j *Job) { j.Attempts = 0 },
			func(j *Job) { j.Backoff, j.MaxBackoff = 0, 0 }, func(j *Job) { j.MaxBackoff = j.Backoff }, func(j *Job) { j.KeepRuns = 0 },
		} {
			with(func(s *Step) { change(s.Job) })
		}
	}
	if s.Exec != nil {
		for _, change := range []func(*Exec){
			func(e *Exec) { e.Repeat = -1 }, func(e *Exec) { e.Start = 0 }, func(e *Exec) { e.End = 0 }, func(e *Exec) { e.Misfire = "" }, func(e *Exec) { e.CatchUp = 0 },
			func(e *Exec) { e.State = "" }, func(e *Exec) { e.NoApp = false }, func(e *Exec) { e.Every = 1000 }, func(e *Exec) { e.Cron, e.Every = "", 1000 },
		} {
			with(func(s *Step) { change(s.Exec) })
		}
	}
	return some
}
