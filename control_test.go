package qrtz_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// within is how soon an operator's wish has its effect, plus what a busy machine takes.
const within = time.Second + 500*time.Millisecond

// waits is a handler that waits for the end of its context, and hands over its cause.
func (c *cluster) waits(causes chan error) func(*qrtz.Scheduler) {
	return func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "waits", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			c.record(run)
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		})
	}
}

func TestCancelledBySQL(t *testing.T) {
	c := newCluster(t)
	causes := make(chan error, 1)
	s := c.open(quick("n1"), c.waits(causes))
	c.node("n2") // has no part in it
	job := qrtz.Job{Name: "waits", Options: qrtz.Options{Attempts: 3, Backoff: 10 * time.Millisecond}, Schedules: []qrtz.Schedule{qrtz.At(time.Now())}}
	require.NoError(t, s.Declare(t.Context(), job))
	c.start(s)
	c.ran(1, 5*time.Second, all)
	c.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1`)
	asked := time.Now()
	require.ErrorIs(t, <-causes, qrtz.ErrCancelled)
	require.Less(t, time.Since(asked), within)
	c.eventually("it is on record", 2*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_RUN WHERE ATTEMPT = 1`) == "CANCELLED" })
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE FINISHED_AT IS NOT NULL`), "and not tried again")
}

func TestARunThatWaitsIsCancelledBySQL(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "tick"}))
	c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, CANCEL_AT) SELECT APPLICATION, ID, 1 FROM QRTZ_JOB`)
	c.start(s)
	c.eventually("it is on record", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_RUN`) == "CANCELLED" })
	require.Empty(t, c.fires())
}

func TestProgressIsInTheRowWhileItRuns(t *testing.T) {
	c := newCluster(t)
	step := make(chan struct{})
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "steps", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
			run.Progress(30)
			run.Message("a third")
			<-step
			run.Progress(170)
			run.Message("all of it")
			<-step
			run.Message("printed 7 pages")
			return nil
		})
	})
	once(t, s, "steps", nil)
	c.start(s)
	row := func(state, progress, message string) func() bool {
		return func() bool {
			return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = ? AND PROGRESS = ? AND MESSAGE = ? AND STARTED_AT IS NOT NULL`, state, progress, message) == 1
		}
	}
	c.eventually("first step", 5*time.Second, row("RUNNING", "30", "a third"))
	step <- struct{}{}
	c.eventually("second step", within, row("RUNNING", "100", "all of it"))
	step <- struct{}{}
	c.eventually("the last message stays", within, row("SUCCEEDED", "100", "printed 7 pages"))
}

func TestRunNowBySQL(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	data := map[int64]string{}
	open := func(id string) *qrtz.Scheduler {
		return c.open(quick(id), func(s *qrtz.Scheduler) {
			qrtz.Handle(s, "print", func(_ context.Context, run *qrtz.Run, what json.RawMessage) error {
				c.record(run)
				mu.Lock()
				defer mu.Unlock()
				data[run.ID] = string(what)
				return nil
			})
		})
	}
	s := open("n1")
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "print", Data: "the job's"}))
	c.start(s)
	c.start(open("n2"))
	c.eventually("both have joined", 5*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NOT NULL`) == 2 })
	job := c.count(`SELECT ID FROM QRTZ_JOB`)
	for i, own := range []any{nil, `"its own"`} {
		asked := time.Now()
		done := c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, JOB_DATA) VALUES ('test', ?, ?)`, job, own)
		id, err := done.LastInsertId()
		require.NoError(t, err)
		c.ran(i+1, within, all)
		f := c.fires()[i]
		require.Equal(t, id, f.ID)
		require.Zero(t, f.ExecuteID)
		require.WithinDuration(t, asked, f.FireTime, within, "it was due when it was first seen")
		c.eventually("it has ended", within, func() bool { return c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, id) == "SUCCEEDED" })
		mu.Lock()
		require.Equal(t, []string{`"the job's"`, `"its own"`}[i], data[id])
		mu.Unlock()
	}
}

func TestHistoryKeepsWhatItsJobWants(t *testing.T) {
	c := newCluster(t)
	rows := make(chan int, 10) // of a job, as its handler sees them
	cfg := quick("n1")
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "mixed", func(_ context.Context, run *qrtz.Run, fail bool) error {
			rows <- c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ?`, run.JobID)
			if fail {
				return errors.New("as asked")
			}
			return nil
		})
	})
	for name, history := range map[string]qrtz.History{"a": qrtz.HistoryAll, "f": qrtz.HistoryFailed, "n": qrtz.HistoryNone} {
		for _, fail := range []bool{true, false} {
			job := qrtz.Job{Name: name, Class: "mixed", Data: fail, Options: qrtz.Options{History: history}, Schedules: []qrtz.Schedule{qrtz.At(time.Now())}}
			if fail {
				job.Name += "!"
			}
			require.NoError(t, s.Declare(t.Context(), job))
		}
	}
	n := c.start(s)
	seen := map[int]int{}
	for range 6 {
		seen[<-rows]++
	}
	n.halt()
	require.Equal(t, map[int]int{0: 2, 1: 4}, seen, "NONE writes no row at all")
	require.Equal(t, "a SUCCEEDED, a! FAILED, f! FAILED", c.text(
		`SELECT GROUP_CONCAT(J.NAME, ' ', R.STATE ORDER BY J.NAME SEPARATOR ', ') FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID`))
}

// What a node has claimed and not started when it stops, others start at once; with a row or without.
func TestWhatWasNotStartedIsHandedBack(t *testing.T) {
	for name, history := range map[string]qrtz.History{"with rows": qrtz.HistoryAll, "without": qrtz.HistoryNone} {
		t.Run(name, func(t *testing.T) {
			const fires = 600 // so many, half of them its own, that a node claims them half a second early
			c := newCluster(t)
			var mu sync.Mutex
			late := map[int64]time.Duration{}
			nodes := map[string]int{}
			counting := func(s *qrtz.Scheduler) {
				qrtz.Handle(s, "count", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
					mu.Lock()
					defer mu.Unlock()
					if _, twice := late[run.ExecuteID]; twice {
						t.Errorf("execute %d ran twice", run.ExecuteID)
					}
					late[run.ExecuteID] = run.StartedAt.Sub(run.FireTime)
					nodes[run.Node]++
					return nil
				})
			}
			cfg := quick("n1")
			cfg.Workers = fires
			n1 := c.open(cfg, counting)
			cfg = quick("n2")
			cfg.Workers = fires
			n2 := c.open(cfg, counting)
			at := time.Now().Add(3 * time.Second).Truncate(time.Millisecond)
			job := qrtz.Job{Name: "count", Options: qrtz.Options{History: history}}
			for i := range fires {
				s := qrtz.At(at)
				s.Name = string(rune('a'+i%26)) + string(rune('a'+i/26))
				job.Schedules = append(job.Schedules, s)
			}
			require.NoError(t, n1.Declare(t.Context(), job))
			running := c.start(n1)
			c.start(n2)
			c.eventually("n1 has claimed", 5*time.Second, func() bool {
				return c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE = 'COMPLETE' AND HOST_IP = 'n1'`) > 0
			})
			require.True(t, time.Now().Before(at), "before they are due")
			running.halt()
			c.eventually("every fire has run", 5*time.Second, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(late) == fires
			})
			mu.Lock()
			defer mu.Unlock()
			if nodes["n1"] == 0 {
				require.Equal(t, fires, nodes["n2"])
			}
			require.NotZero(t, c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE HOST_IP = 'n1'`), "claimed by n1")
			for _, by := range late {
				require.GreaterOrEqual(t, by, time.Duration(0))
				require.Less(t, by, within)
			}
		})
	}
}
