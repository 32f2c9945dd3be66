package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/qrtz-go/qrtz"
)

// The jobs of the exact apps: each asks for something else of its runs.

// The classes of the exact apps.
const (
	enduring = "enduring" // goes for longer than a node takes to be declared dead, and says nothing
	dragging = "dragging" // goes for longer than its node drains
	tarrying = "tarrying" // goes for longer than its timeout, half the time
	hopeless = "hopeless" // fails, and says what is to become of it
	telling  = "telling"  // tells how far it is
	unlucky  = "unlucky"  // goes until it is killed, but for the last times
)

// restingJobs are paused and resumed.
var restingJobs = []string{"resting at a rate", "resting by cron", "resting a number of times"}

func (t *torture) exactJobs() []qrtz.Job {
	from, end := t.from.Truncate(time.Second), t.until.Truncate(time.Second)
	job := func(name, class string, o qrtz.Options, schedules ...qrtz.Schedule) qrtz.Job {
		for i := range schedules {
			s := &schedules[i]
			s.Name = fmt.Sprint(i)
			if s.Start.IsZero() {
				s.Start = from.Add(time.Duration(i) * 170 * time.Millisecond)
			}
			if s.End.IsZero() {
				s.End = end
			}
		}
		return qrtz.Job{Name: name, Class: class, Options: o, Schedules: schedules}
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	long := t.pace.nodeTimeout()
	return []qrtz.Job{
		job("lasting once", "quick", qrtz.Options{}, qrtz.Every(ms(700)), qrtz.Every(ms(4100)), qrtz.Cron("*/2 * * * * ?", "Asia/Shanghai")),
		job("lasting catch up", "quick", qrtz.Options{}, qrtz.Every(ms(900), qrtz.CatchingUp(5)), qrtz.Every(ms(2300), qrtz.CatchingUp(100)), qrtz.Cron("1/3 * * * * ?", "America/New_York", qrtz.CatchingUp(2))),
		job("lasting skip", "quick", qrtz.Options{}, qrtz.Every(ms(800), qrtz.OnMisfire(qrtz.Skip)), qrtz.Cron("0/3 * * * * ?", "", qrtz.OnMisfire(qrtz.Skip))),
		job("lasting in line", "exclusive", qrtz.Options{Overlap: qrtz.OverlapQueue, QueueLimit: 6, Recovery: true}, qrtz.Every(ms(650)), qrtz.Every(ms(700))),
		job("lasting alone", "exclusive", qrtz.Options{Overlap: qrtz.OverlapSkip}, qrtz.Every(ms(500))),
		job("lasting alone, seldom", "exclusive", qrtz.Options{Overlap: qrtz.OverlapSkip}, qrtz.Every(ms(4600))),
		job("lasting for long", enduring, qrtz.Options{Recovery: true}, qrtz.Every(long/2), qrtz.Every(long*2/3), qrtz.Every(long*2/3), qrtz.Every(long*2/3)),
		job("lasting for long in time", enduring, qrtz.Options{Recovery: true, Timeout: 4 * long}, qrtz.Every(long/2), qrtz.Every(long*2/3)),
		job("lasting too long", dragging, qrtz.Options{Recovery: true}, qrtz.Every(2*long)),
		job("lasting over time", tarrying, qrtz.Options{Timeout: ms(600)}, qrtz.Every(ms(600))),
		job("lasting hopeless", hopeless, qrtz.Options{Attempts: 4, Backoff: ms(400), MaxBackoff: ms(1200)}, qrtz.Every(ms(500))),
		job("lasting told", telling, qrtz.Options{}, qrtz.Every(ms(900))),
		job("lasting kept a while", "quick", qrtz.Options{KeepFor: 8 * time.Second}, qrtz.Every(ms(500))),
		job("lasting kept a few", "quick", qrtz.Options{KeepRuns: 15}, qrtz.Every(ms(400))),
		job("lasting failures", hopeless, qrtz.Options{History: qrtz.HistoryFailed, Attempts: 2, Backoff: ms(300)}, qrtz.Every(ms(600))),
		job("lasting traceless", "failing", qrtz.Options{History: qrtz.HistoryNone, Recovery: true}, qrtz.Every(ms(600))),
		job("lasting a while", "quick", qrtz.Options{}, qrtz.Every(ms(600), qrtz.Ending(from.Add(end.Sub(from)/2))), qrtz.Cron("* * * * * ?", "UTC", qrtz.Ending(from.Add(end.Sub(from)/3).Truncate(time.Second)))),
		job("lasting a number of times", "quick", qrtz.Options{}, qrtz.Every(ms(500), qrtz.Times(25)), qrtz.Cron("0/2 * * * * ?", "UTC", qrtz.Times(9))),
		job(restingJobs[0], "quick", qrtz.Options{}, qrtz.Every(ms(430))),
		job(restingJobs[1], "quick", qrtz.Options{}, qrtz.Cron("* * * * * ?", "UTC")),
		job(restingJobs[2], "quick", qrtz.Options{}, qrtz.Every(ms(900), qrtz.Times(20))),
		job("resting until it is asked", "quick", qrtz.Options{}),
	}
}

// errGivenUp is the error of a run that wants no further attempt.
var errGivenUp = errors.New("given up")

// laterError has the next attempt made after a time.
type laterError time.Duration

func (e laterError) Error() string { return "again in " + time.Duration(e).String() }

// exactClasses are the handlers of the exact apps.
func (w *worker) exactClasses(nodeTimeout, drain time.Duration) map[string]behaviour {
	return map[string]behaviour{
		enduring: func(ctx context.Context, _ *qrtz.Run) error {
			err := pass(ctx, nodeTimeout*6/5+upTo(nodeTimeout*2/5))
			if errors.Is(err, qrtz.ErrCancelled) && rand.IntN(2) == 0 {
				return nil // its work is done all the same
			}
			return err
		},
		dragging: func(ctx context.Context, _ *qrtz.Run) error { return pass(ctx, drain*5/4) },
		tarrying: func(ctx context.Context, _ *qrtz.Run) error { return pass(ctx, upTo(1200*time.Millisecond)) },
		hopeless: func(context.Context, *qrtz.Run) error {
			switch rand.IntN(10) {
			case 0, 1:
				return nil
			case 2:
				return fmt.Errorf("it is like this: %w", qrtz.NoRetry(errGivenUp))
			case 3:
				return qrtz.NoRetry(errGivenUp)
			case 4:
				d := 700 * time.Millisecond
				return fmt.Errorf("not now: %w", qrtz.RetryAfter(laterError(d), d))
			}
			return errFailed
		},
		telling: func(ctx context.Context, r *qrtz.Run) error {
			for percent := 10; percent <= 90; percent += 20 {
				if err := pass(ctx, upTo(600*time.Millisecond)); err != nil {
					return err
				}
				r.Progress(percent)
				r.Message(fmt.Sprintf("at %d %%", percent))
				w.write(entry{Of: r.ID, Told: percent + 1})
			}
			return nil
		},
		unlucky: func(ctx context.Context, _ *qrtz.Run) error { return pass(ctx, nodeTimeout) },
	}
}
