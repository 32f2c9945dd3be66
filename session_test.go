package qrtz_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

func TestStoppingWaitsForHandlersAndThenCancelsThem(t *testing.T) {
	c := newCluster(t)
	cfg := quick("n1")
	cfg.DrainTimeout = time.Second
	began, cause := make(chan struct{}, 2), make(chan error, 1)
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "short", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			began <- struct{}{}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(500 * time.Millisecond):
				return nil
			}
		})
		qrtz.Handle(s, "long", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			began <- struct{}{}
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return context.Cause(ctx)
		})
	})
	once(t, s, "short", nil)
	once(t, s, "long", nil)
	n := c.start(s)
	<-began
	<-began
	n.halt()
	require.ErrorIs(t, <-cause, qrtz.ErrDrained)
	states := `SELECT R.STATE FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = ?`
	require.Equal(t, "SUCCEEDED", c.text(states, "short"))
	require.Equal(t, "LOST", c.text(states, "long"))
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NULL AND HEARTBEAT_AT IS NULL`), "it has left")
}

// A node that drains for longer than NodeTimeout lives for as long: its runs are its own, can be cancelled, and are not recovered.
func TestANodeLivesWhileItDrains(t *testing.T) {
	c := newCluster(t)
	cfg := quick("n1")
	cfg.DrainTimeout = time.Minute
	finish, cause := make(chan struct{}), make(chan error, 1)
	began := make(chan string, 10)
	n1 := c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "long", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			began <- run.Node
			select {
			case <-finish:
				return ctx.Err()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		qrtz.Handle(s, "cancelled", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			began <- run.Node
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return context.Cause(ctx)
		})
	})
	for _, name := range []string{"long", "cancelled"} {
		job := qrtz.Job{Name: name, Options: qrtz.Options{Recovery: true}, Schedules: []qrtz.Schedule{qrtz.At(time.Now())}}
		require.NoError(t, n1.Declare(t.Context(), job))
	}
	n := c.start(n1)
	<-began
	<-began
	c.node("n2") // which would take its runs for lost
	stopped := make(chan struct{})
	go func() {
		n.halt()
		close(stopped)
	}()
	time.Sleep(2 * cfg.NodeTimeout)
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`), "both run on")
	c.exec(`UPDATE QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID SET R.CANCEL_AT = 1 WHERE J.NAME = 'cancelled'`)
	require.ErrorIs(t, arrives(t, cause, 5*time.Second), qrtz.ErrCancelled)
	close(finish)
	arrives(t, stopped, 10*time.Second)
	states := `SELECT GROUP_CONCAT(R.STATE) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = ?`
	require.Equal(t, "SUCCEEDED", c.text(states, "long"))
	require.Equal(t, "CANCELLED", c.text(states, "cancelled"))
}

// A node claims no more than it can start; the rest goes to others.
func TestAFullPoolLeavesFiresToOthers(t *testing.T) {
	c := newCluster(t)
	release := make(chan struct{})
	block := func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "block", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
			c.record(run)
			<-release
			return nil
		})
	}
	cfg := quick("n1")
	cfg.Workers = 2
	n1 := c.open(cfg, block)
	job := qrtz.Job{Name: "block", Class: "block"}
	for i := range 5 {
		schedule := qrtz.At(time.Now())
		schedule.Name = string(rune('a' + i))
		job.Schedules = append(job.Schedules, schedule)
	}
	require.NoError(t, n1.Declare(t.Context(), job))
	c.start(n1)
	c.ran(2, 5*time.Second, all)
	c.start(c.open(quick("n2"), block))
	c.ran(5, 5*time.Second, all)
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE HOST_IP = 'n1'`))
	close(release)
}

const digits = `(SELECT 0 AS D UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
	UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)`

// A node claims what is due within seconds of its start, however much is to be tidied up: jobs added by SQL whose state
// is to be derived, schedules that fired every second while all nodes were down, one whose START_TIME is in seconds.
func TestJoiningWaitsForNoPassOfTheMisfireHandler(t *testing.T) {
	c := newCluster(t)
	began := make(chan time.Time, 100)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "first", func(context.Context, *qrtz.Run, struct{}) error { began <- time.Now(); return nil })
		qrtz.Handle(s, "old", func(context.Context, *qrtz.Run, struct{}) error { return nil })
	})
	const jobs, behind = 20_000, 200
	c.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS)
		SELECT 1001 + A.D + 10 * B.D + 100 * E.D + 1000 * F.D + 10000 * G.D, 'test', IF(G.D = 0 AND F.D = 0 AND E.D < 2, 'old', 'none')
		  FROM ` + digits + ` A, ` + digits + ` B, ` + digits + ` E, ` + digits + ` F, ` + digits + ` G WHERE G.D < 2`)
	c.exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, NEXT_FIRE_TIME)
		SELECT ID, 'test', 'SIMPLE', 'EXECUTING', -1, 3600000, (UNIX_TIMESTAMP() + 86400) * 1000 FROM QRTZ_JOB WHERE JOB_CLASS = 'none'`)
	c.exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, CRON, START_TIME, NEXT_FIRE_TIME)
		SELECT ID, 'test', 'CRON', 'EXECUTING', -1, '* * * * * ?', 0, (UNIX_TIMESTAMP() - 5 * 86400) * 1000 FROM QRTZ_JOB WHERE JOB_CLASS = 'old'`)
	c.exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, NEXT_FIRE_TIME)
		SELECT MIN(ID), 'test', 'SIMPLE', 'EXECUTING', -1, 60000, 100000000000, 100000000000 FROM QRTZ_JOB WHERE JOB_CLASS = 'old'`)
	once(t, s, "first", nil)
	require.Equal(t, behind, c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE CRON IS NOT NULL`))

	started := time.Now()
	c.start(s)
	select {
	case at := <-began:
		require.Less(t, at.Sub(started), 5*time.Second)
		t.Logf("its first run began %s after its start", at.Sub(started).Round(time.Millisecond))
	case <-time.After(10 * time.Second):
		require.Fail(t, "nothing ran")
	}
	c.eventually("all states to be derived", 30*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_JOB WHERE ID > 1000 AND STATE = 'EXECUTING'`) == jobs
	})
	t.Logf("all states were derived %s after its start", time.Since(started).Round(time.Millisecond))
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
					if _, twice := late[run.ScheduleID]; twice {
						t.Errorf("execute %d ran twice", run.ScheduleID)
					}
					late[run.ScheduleID] = run.StartedAt.Sub(run.FireTime)
					nodes[run.Node]++
					return nil
				})
			}
			cfg := patient("n1")
			cfg.Workers = fires
			n1 := c.open(cfg, counting)
			cfg = patient("n2")
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
			if !time.Now().Before(at) {
				t.Skip("the machine is too busy to stop a node between its claim and the fires' time")
			}
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

// A process whose results the server refuses in part continues; what it cannot store at all is given up.
func TestRefusedResultsStopNothing(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "smiles", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
			run.Progress(50)
			return errors.New("no paper \U0001F600")
		})
		qrtz.Handle(s, "unstorable", func(context.Context, *qrtz.Run, struct{}) error { return nil })
	})
	once(t, s, "smiles", nil)
	once(t, s, "unstorable", nil)
	ticking(t, s, 5, 200*time.Millisecond)
	c.exec(`ALTER TABLE QRTZ_RUN MODIFY MESSAGE TEXT CHARACTER SET latin1`)
	var unstorable int
	require.NoError(t, c.db.QueryRow(`SELECT ID FROM QRTZ_JOB WHERE NAME = 'unstorable'`).Scan(&unstorable))
	c.exec(`ALTER TABLE QRTZ_RUN ADD CONSTRAINT QRTZ_TEST CHECK (JOB_ID <> ` + strconv.Itoa(unstorable) + ` OR STATE <> 'SUCCEEDED')`)
	n := c.start(s)
	c.eventually("the refused result is stored", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'FAILED' AND MESSAGE LIKE 'no paper ? (in ASCII%'`) == 1
	})
	c.ran(100, 10*time.Second, func(f fire) bool { return f.Class == "tick" })
	began := time.Now()
	n.halt()
	require.Less(t, time.Since(began), 5*time.Second, "nor does it hold up the end")
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`), "the one that cannot be stored")
}

// A transaction that an operator leaves open on a run delays that run's result and nothing else.
func TestALockedRunHoldsUpNothingElse(t *testing.T) {
	c := newCluster(t)
	db, err := sql.Open("mysql", c.dsn+"&innodb_lock_wait_timeout=1")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s, err := qrtz.Open(db, quick("n1"))
	require.NoError(t, err)
	began, finish := make(chan *qrtz.Run, 1), make(chan struct{})
	qrtz.Handle(s, "held", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
		began <- run
		<-finish
		return nil
	})
	qrtz.Handle(s, "long", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
		for n := 0; ; n++ {
			run.Progress(n)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	qrtz.Handle(s, "tick", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
		c.record(run)
		return nil
	})
	once(t, s, "held", nil)
	once(t, s, "long", nil)
	ticking(t, s, 5, 200*time.Millisecond)
	n := c.start(s)
	held := (<-began).ID
	tx, err := c.db.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`UPDATE QRTZ_RUN SET MESSAGE = 'mine' WHERE ID = ?`, held)
	require.NoError(t, err)
	close(finish)

	progress := `SELECT COALESCE(MAX(PROGRESS), 0) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = 'long'`
	results := `SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`
	for range 3 {
		before, far := c.count(results), c.count(progress)
		c.eventually("other results are written", 3*time.Second, func() bool { return c.count(results) >= before+25 })
		c.eventually("other runs tell how far they are", 3*time.Second, func() bool { return c.count(progress) > far })
	}
	require.Equal(t, "RUNNING", c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, held))
	require.NoError(t, tx.Rollback())
	c.eventually("the result is written when the lock is gone", 8*time.Second, func() bool {
		return c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, held) == "SUCCEEDED"
	})
	c.exec(`UPDATE QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID SET R.CANCEL_AT = 1 WHERE J.NAME = 'long'`)
	c.eventually("the long run ends", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE PROGRESS > 0 AND STATE = 'RUNNING'`) == 0
	})
	n.halt()
}

// interruptible registers a class whose handler waits until it is told to succeed, or its context ends.
func interruptible(began chan<- *qrtz.Run, finish <-chan struct{}) func(*qrtz.Scheduler) {
	return func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "long", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			began <- run
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-finish:
				return nil
			}
		})
	}
}

// An orderly stop is no worse than a crash: what it interrupts starts again, on another node and at once, whatever the job asks
// for that lets it be tried again. No attempt is spent.
func TestWhatAStopInterruptsIsHandedOnAtOnce(t *testing.T) {
	for name, options := range map[string]qrtz.Options{
		"with recovery":            {Recovery: true},
		"with attempts":            {Attempts: 2, Backoff: time.Hour},
		"with recovery, exclusive": {Recovery: true, Overlap: qrtz.OverlapQueue},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			began, finish := make(chan *qrtz.Run, 10), make(chan struct{})
			ends := make(chan qrtz.Event, 10)
			cfg := patient("n1")
			cfg.DrainTimeout = 100 * time.Millisecond
			cfg.Hooks.Finished = func(e qrtz.Event) { ends <- e }
			n1 := c.open(cfg, interruptible(began, finish))
			require.NoError(t, n1.Declare(t.Context(), qrtz.Job{Name: "long", Options: options}))
			_, err := n1.Enqueue(t.Context(), "long", nil)
			require.NoError(t, err)
			running := c.start(n1)
			first := <-began
			other := c.start(c.open(patient("n2"), interruptible(began, finish)))
			c.eventually("n2 is there", 5*time.Second, func() bool {
				return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE HOST_IP = 'n2' AND INSTANCE IS NOT NULL`) == 1
			})
			stopped := time.Now()
			running.halt()
			var second *qrtz.Run
			select {
			case second = <-began:
			case <-time.After(10 * time.Second):
				require.Fail(t, "it does not begin again")
			}
			t.Logf("it began again %s after the stop", second.StartedAt.Sub(stopped).Round(time.Millisecond))
			require.Less(t, second.StartedAt.Sub(stopped), 3*time.Second)
			require.Equal(t, "n2", second.Node)
			require.Equal(t, 2, second.Attempt)
			require.Equal(t, first.ID, second.RecoveryOf)
			e := <-ends
			require.Equal(t, qrtz.Lost, e.State)
			require.False(t, e.RetryAt.IsZero())
			require.Equal(t, "interrupted: its node stopped before it had ended: context canceled", e.Message)
			require.Equal(t, e.Message, c.text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ? AND STATE = 'LOST'`, first.ID))
			close(finish)
			c.eventually("it succeeds", 5*time.Second, func() bool {
				return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED' AND ID = ?`, second.ID) == 1
			})
			other.halt()
			require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
		})
	}
}

// A handler that says so in its error has failed, although its node stops; one that has done its work has succeeded.
func TestAStopLeavesAHandlerTheLastWord(t *testing.T) {
	for state, returned := range map[string]error{"FAILED": qrtz.NoRetry(errors.New("closed")), "SUCCEEDED": nil} {
		c := newCluster(t)
		cfg := patient("n1")
		cfg.DrainTimeout = 100 * time.Millisecond
		began := make(chan struct{})
		s := c.open(cfg, func(s *qrtz.Scheduler) {
			qrtz.Handle(s, "long", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
				close(began)
				<-ctx.Done()
				return returned
			})
		})
		require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "long", Options: qrtz.Options{Recovery: true, Attempts: 3}}))
		_, err := s.Enqueue(t.Context(), "long", nil)
		require.NoError(t, err)
		n := c.start(s)
		<-began
		n.halt()
		require.Equal(t, state, c.text(`SELECT GROUP_CONCAT(STATE) FROM QRTZ_RUN`))
	}
}
