package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/qrtz-go/qrtz"
)

// jobsPerApp is how many jobs an app has from beginning to end, with about ten schedules each.
const jobsPerApp = 16

// lastingJobs are the jobs of an app that no fault touches: every one of their fires is checked.
func lastingJobs(dice *rand.Rand, from, until time.Time) []qrtz.Job {
	jobs := make([]qrtz.Job, jobsPerApp)
	for i := range jobs {
		jobs[i] = anyJob(dice, i)
		jobs[i].Name = fmt.Sprintf("lasting %d", i)
		n := 5 + dice.IntN(11)
		limited := jobs[i].Overlap != "" || jobs[i].MaxRunning > 0
		if limited {
			n = 2
		}
		for k := range n {
			s := anySchedule(dice, from, until)
			if limited {
				s = every(dice, 2*time.Second, 4*time.Second, from)
			}
			s.Name, s.End = fmt.Sprint(k), until
			jobs[i].Schedules = append(jobs[i].Schedules, s)
		}
	}
	return jobs
}

// anyJob has one of the classes and any rules that make sense with it. The first few are one of each.
func anyJob(dice *rand.Rand, i int) qrtz.Job {
	class := []string{"quick", "exclusive", "failing", "slow", stubborn, "exclusive", "quick", "long", "failing"}[i%9]
	j := qrtz.Job{Class: class}
	j.Recovery = dice.IntN(2) == 0
	switch class {
	case "quick":
		j.History = pick(dice, qrtz.HistoryAll, qrtz.HistoryAll, qrtz.HistoryFailed, qrtz.HistoryNone)
		if dice.IntN(4) == 0 {
			j.KeepRuns = 20
		}
		if j.History == qrtz.HistoryNone {
			j.Recovery = dice.IntN(4) == 0
		}
	case "exclusive":
		j.Overlap = []qrtz.Overlap{qrtz.OverlapSkip, qrtz.OverlapQueue}[i%2]
		j.QueueLimit = 2
		j.Recovery = true
		switch i % 9 {
		case 5: // the database alone decides how many go
			j.Overlap, j.MaxRunning = "", 2
		case 1:
			j.MaxRunning = i / 9 * 2
		}
	case "failing":
		j.Attempts, j.Backoff = 1+dice.IntN(3), time.Second
		j.History = pick(dice, qrtz.HistoryAll, qrtz.HistoryFailed)
	case "slow":
		j.Timeout = pick(dice, 0, time.Second)
	case stubborn:
		j.Timeout = 300 * time.Millisecond
	}
	return j
}

func anySchedule(dice *rand.Rand, from, until time.Time) qrtz.Schedule {
	var s qrtz.Schedule
	switch n := dice.IntN(20); {
	case n < 11:
		s = every(dice, 800*time.Millisecond, 8*time.Second, from)
	case n < 16:
		s = qrtz.Cron(
			pick(dice, "*/2 * * * * ?", "0/5 * * * * ?", "1-59/3 * * * * ?", "7,8,9,30 * * * * ?", "0 * * * * ?", "0/4 * * ? * MON-SUN"),
			pick(dice, "UTC", "Asia/Shanghai", "America/St_Johns", "Europe/Berlin"))
		s.Start = from
	case n < 18:
		s = every(dice, 500*time.Millisecond, 2*time.Second, from)
		s.Count = 1 + dice.IntN(30)
	default: // once, many at the same second
		s = qrtz.At(from.Add(time.Duration(dice.Int64N(int64(until.Sub(from))))).Truncate(10 * time.Second).Add(10 * time.Second))
		if s.Start.After(until) {
			s.Start = until
		}
	}
	s.Misfire = pick(dice, qrtz.FireOnce, qrtz.FireOnce, qrtz.Skip, qrtz.CatchUp)
	s.CatchUpLimit = 1 + dice.IntN(200)
	return s
}

// every is a fixed rate between two, with a phase of its own.
func every(dice *rand.Rand, least, most time.Duration, from time.Time) qrtz.Schedule {
	rate := (least + time.Duration(dice.Int64N(int64(most-least)))).Truncate(time.Millisecond)
	s := qrtz.Every(rate)
	s.Start = from.Add(time.Duration(dice.Int64N(int64(rate)))).Truncate(time.Millisecond)
	return s
}

func pick[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

// jobNamed is a job that comes and goes. Its rules and its class are always the same: they, too, are checked.
func jobNamed(name string) qrtz.Job {
	h := fnv.New64()
	_, _ = h.Write([]byte(name))
	dice := rand.New(rand.NewPCG(h.Sum64(), 5))
	j := anyJob(dice, dice.IntN(9))
	j.Name = name
	return j
}
