package qrtz_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/schema"
)

type letter struct{ To string }

// post opens a scheduler with a handler "post" that hands on what it is given.
func (c *cluster) post(cfg qrtz.Config) (*qrtz.Scheduler, <-chan string) {
	posted := make(chan string, 100)
	return c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "post", func(_ context.Context, run *qrtz.Run, l letter) error {
			c.record(run)
			posted <- l.To
			return nil
		})
	}), posted
}

// begin is a transaction as most programs have it: REPEATABLE READ, with its snapshot taken.
func (c *cluster) begin() *sql.Tx {
	c.t.Helper()
	tx, err := c.db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = tx.Rollback() })
	var n int
	require.NoError(c.t, tx.QueryRow(`SELECT COUNT(*) FROM QRTZ_RUN`).Scan(&n))
	return tx
}

// client is a program that only changes what is stored: it has no handlers and never runs.
func (c *cluster) client() *qrtz.Scheduler {
	c.t.Helper()
	s, err := qrtz.Open(c.db, qrtz.Config{App: "test"})
	require.NoError(c.t, err)
	return s
}

func receive(t *testing.T, posted <-chan string) string {
	t.Helper()
	return arrives(t, posted, 5*time.Second)
}

func TestARunIsEnqueuedIfAndOnlyIfTheCallersTransactionCommits(t *testing.T) {
	c := newCluster(t)
	s, posted := c.post(quick("n1"))
	client := c.client()
	tx := c.begin() // its snapshot does not have the job
	require.NoError(t, client.Declare(t.Context(), qrtz.Job{Name: "post", Data: letter{"ann"}}))
	c.start(s)

	_, err := client.In(tx).Enqueue(t.Context(), "post", letter{"rolled back"})
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())

	tx = c.begin()
	id, err := client.In(tx).Enqueue(t.Context(), "post", letter{"Ada"})
	require.NoError(t, err)
	select {
	case to := <-posted:
		require.Fail(t, "ran before the commit", to)
	case <-time.After(1200 * time.Millisecond): // two sweeps
	}
	committed := time.Now()
	require.NoError(t, tx.Commit())
	require.Equal(t, "Ada", receive(t, posted))
	require.Less(t, time.Since(committed), within)

	plain, err := client.Enqueue(t.Context(), "post", nil)
	require.NoError(t, err)
	require.Equal(t, "ann", receive(t, posted), "the job's data")
	c.eventually("both are on record", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED' AND ID IN (?, ?)`, id, plain) == 2
	})
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

func TestARunEnqueuedForLaterStaysPending(t *testing.T) {
	c := newCluster(t)
	s, posted := c.post(quick("n1"))
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "post"}))
	c.start(s)
	at := time.Now().Add(1500 * time.Millisecond).Truncate(time.Millisecond)
	_, err := s.Enqueue(t.Context(), "post", letter{"later"}, qrtz.StartAt(at))
	require.NoError(t, err)
	require.Equal(t, "later", receive(t, posted))
	require.Equal(t, at.UnixMilli(), c.fires()[0].FireTime.UnixMilli())
}

func TestUnknownNamesAreErrorsThatNameCloseOnes(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	job := qrtz.Job{Name: "send-invoices", Class: "tick", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour)}}
	job.Schedules[0].Name = "hourly"
	require.NoError(t, s.Declare(t.Context(), job))
	_, err := s.Enqueue(t.Context(), "send-invoice", nil)
	require.ErrorIs(t, err, qrtz.ErrNotFound)
	require.EqualError(t, err, `qrtz: enqueue: not found: app "test" has no job named "send-invoice"; did you mean "send-invoices"?`)
	require.EqualError(t, s.Pause(t.Context(), "xyz", ""), `qrtz: pause: not found: app "test" has no job named "xyz"`)
	require.EqualError(t, s.Resume(t.Context(), "send-invoices", "hourli"),
		`qrtz: resume: not found: job "send-invoices" has no schedule named "hourli"; did you mean "hourly"?`)
	require.ErrorIs(t, s.Delete(t.Context(), "xyz"), qrtz.ErrNotFound)
	require.ErrorIs(t, s.Cancel(t.Context(), 12345), qrtz.ErrNotFound)
	_, err = s.Retry(t.Context(), 12345)
	require.ErrorIs(t, err, qrtz.ErrNotFound)
	_, err = s.Enqueue(t.Context(), "send-invoices", make(chan int))
	require.ErrorContains(t, err, "unsupported type")
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

func TestWhatAClientWasNotGivenIsNamed(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	_, err := s.In(nil).Enqueue(t.Context(), "tick", nil)
	require.EqualError(t, err, "qrtz: enqueue: the *sql.Tx given to Scheduler.In is nil")
	_, err = s.In(nil).Nodes(t.Context())
	require.ErrorContains(t, err, "the *sql.Tx given to Scheduler.In is nil")
	tx := c.begin()
	_, err = s.In(tx).Wait(t.Context(), 7)
	require.ErrorContains(t, err, "qrtz: wait for run 7: a transaction does not see")
	require.ErrorContains(t, s.In(tx).Drain(t.Context(), "n1"), `qrtz: drain node "n1": a transaction does not see`)
	require.NoError(t, tx.Rollback())
	require.EqualError(t, s.SwitchNode(t.Context(), "n9", true), `qrtz: switch node: not found: app "test" has no node "n9"`)

	elsewhere, err := qrtz.Open(c.db, qrtz.Config{App: "test", Prefix: "QRZT_"})
	require.NoError(t, err)
	const want = `are the tables in another database, or named with another Config.Prefix than "QRZT_"? Scheduler.Migrate or `
	_, err = elsewhere.Enqueue(t.Context(), "tick", nil)
	require.ErrorContains(t, err, want)
	_, err = elsewhere.Jobs(t.Context(), qrtz.JobFilter{})
	require.ErrorContains(t, err, want)
	require.ErrorContains(t, elsewhere.Declare(t.Context(), qrtz.Job{Name: "tick"}), want)
}

// What is declared, paused, resumed and deleted in a transaction is so once it commits, and never if it does not.
func TestSchedulesChangeWithTheCallersTransaction(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	client := c.client()
	job := qrtz.Job{Name: "ticking", Class: "tick", Schedules: []qrtz.Schedule{qrtz.Every(100 * time.Millisecond)}}
	change := func(do func(*qrtz.Client) error, end func(*sql.Tx) error) {
		t.Helper()
		tx := c.begin()
		require.NoError(t, do(client.In(tx)))
		require.NoError(t, end(tx))
	}
	declare := func(c *qrtz.Client) error { return c.Declare(t.Context(), job) }
	pause := func(c *qrtz.Client) error { return c.Pause(t.Context(), "ticking", "") }
	resume := func(c *qrtz.Client) error { return c.Resume(t.Context(), "ticking", "") }
	del := func(c *qrtz.Client) error { return c.Delete(t.Context(), "ticking") }
	ticks := func() {
		t.Helper()
		since := time.Now()
		c.ran(3, 5*time.Second, dueAfter(since))
	}
	quiet := func() {
		t.Helper()
		c.eventually("nothing runs", 5*time.Second, func() bool {
			return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('RUNNING', 'PENDING')`) == 0
		})
		before := len(c.fires())
		<-time.After(time.Second)
		require.Len(t, c.fires(), before)
	}
	change(declare, (*sql.Tx).Rollback)
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_JOB`))
	change(declare, (*sql.Tx).Commit)
	ticks()
	change(pause, (*sql.Tx).Rollback)
	ticks()
	change(pause, (*sql.Tx).Commit)
	quiet()
	change(resume, (*sql.Tx).Rollback)
	quiet()
	change(resume, (*sql.Tx).Commit)
	resumed := time.Now()
	ticks()
	for _, f := range c.fires() {
		late := f.FireTime.Before(resumed) && f.StartedAt.After(resumed)
		require.False(t, late && resumed.Sub(f.FireTime) > time.Second, "no burst")
	}
	change(del, (*sql.Tx).Rollback)
	ticks()
	change(del, (*sql.Tx).Commit)
	quiet()
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE`))
	require.NoError(t, n.Declare(t.Context(), job), "it can come back")
	ticks()
}

// A call that fails leaves nothing in a transaction that continues.
func TestAFailedCallLeavesNothingInTheCallersTransaction(t *testing.T) {
	c := newCluster(t)
	client := c.client()
	c.exec(`ALTER TABLE QRTZ_EXECUTE ADD CONSTRAINT NO_WHY CHECK (NAME <> 'why')`)
	bad := qrtz.Job{Name: "b", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour)}}
	bad.Schedules[0].Name = "why"
	tx := c.begin()
	require.Error(t, client.In(tx).Declare(t.Context(), qrtz.Job{Name: "a"}, bad))
	require.NoError(t, client.In(tx).Declare(t.Context(), qrtz.Job{Name: "c"}))
	require.NoError(t, tx.Commit())
	require.Equal(t, "c", c.text(`SELECT GROUP_CONCAT(NAME) FROM QRTZ_JOB`))
}

func TestPausingOneScheduleOfAJob(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	ticking(t, s, 3, time.Hour)
	require.NoError(t, s.Pause(t.Context(), "ticking", "1"))
	states := func() string { return c.text(`SELECT GROUP_CONCAT(STATE ORDER BY ID) FROM QRTZ_EXECUTE`) }
	require.Equal(t, "EXECUTING,PAUSED,EXECUTING", states())
	c.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'COMPLETE' WHERE NAME = '2'`)
	require.NoError(t, s.Pause(t.Context(), "ticking", ""))
	require.Equal(t, "PAUSED,PAUSED,COMPLETE", states())
	require.NoError(t, s.Resume(t.Context(), "ticking", "0"))
	require.Equal(t, "EXECUTING,PAUSED,COMPLETE", states())
	c.exec(`UPDATE QRTZ_EXECUTE SET END_TIME = START_TIME + 1, NEXT_FIRE_TIME = START_TIME WHERE NAME = '1'`)
	require.NoError(t, s.Resume(t.Context(), "ticking", ""))
	require.Equal(t, "EXECUTING,COMPLETE,COMPLETE", states(), "its end has passed in the pause")
}

func TestCancelAndRetry(t *testing.T) {
	c := newCluster(t)
	causes := make(chan error, 10)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "long", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			c.record(run)
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		})
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "long"}))
	id, err := s.Enqueue(t.Context(), "long", nil)
	require.NoError(t, err)
	require.NoError(t, s.Cancel(t.Context(), id), "while it waits")
	state := func(id int64) string { return c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, id) }
	require.Equal(t, "CANCELLED", state(id))
	stranger, err := qrtz.Open(c.db, qrtz.Config{App: "other"})
	require.NoError(t, err)
	require.ErrorIs(t, stranger.Cancel(t.Context(), id), qrtz.ErrNotFound, "runs of other apps are none of its business")
	require.ErrorContains(t, s.Cancel(t.Context(), id), "is CANCELLED; only a PENDING or RUNNING run can be cancelled")
	require.ErrorIs(t, s.Cancel(t.Context(), id), qrtz.ErrWrongState)

	c.start(s)
	second, err := s.Retry(t.Context(), id)
	require.NoError(t, err)
	c.ran(1, 5*time.Second, all)
	require.Equal(t, 2, c.fires()[0].Attempt)
	_, err = s.Retry(t.Context(), second)
	require.ErrorContains(t, err, "is RUNNING; only a FAILED, LOST or CANCELLED run")
	require.NoError(t, s.Cancel(t.Context(), second), "while it runs, here")
	select {
	case cause := <-causes:
		require.ErrorIs(t, cause, qrtz.ErrCancelled)
	case <-time.After(400 * time.Millisecond):
		require.Fail(t, "not cancelled at once")
	}
	c.eventually("on record", 5*time.Second, func() bool { return state(second) == "CANCELLED" })

	third, err := s.Retry(t.Context(), second)
	require.NoError(t, err)
	c.ran(2, 5*time.Second, all)
	tx := c.begin()
	require.NoError(t, c.client().In(tx).Cancel(t.Context(), third))
	require.NoError(t, tx.Commit())
	require.ErrorIs(t, <-causes, qrtz.ErrCancelled, "from another process")
	fires := c.fires()
	require.Greater(t, fires[1].Fence, fires[0].Fence)
}

// Enqueue returns the id of the first attempt. It is as good as that of each further one.
func TestTheFirstIDNamesARunThroughAllItsAttempts(t *testing.T) {
	c := newCluster(t)
	keys, causes := make(chan string, 10), make(chan error, 1)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "flaky", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			keys <- run.Key()
			if run.Attempt == 1 {
				return qrtz.RetryAfter(errors.New("no"), 0)
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		})
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "flaky", Options: qrtz.Options{Attempts: 5}}))
	c.start(s)
	id, err := s.Enqueue(t.Context(), "flaky", nil)
	require.NoError(t, err)
	first := receive(t, keys)
	require.Equal(t, first, receive(t, keys), "of the second attempt")
	require.NoError(t, s.Cancel(t.Context(), id))
	select {
	case cause := <-causes:
		require.ErrorIs(t, cause, qrtz.ErrCancelled)
	case <-time.After(400 * time.Millisecond):
		require.Fail(t, "not cancelled at once")
	}
	c.eventually("on record", 5*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'CANCELLED'`) == 1 })
	require.ErrorIs(t, s.Cancel(t.Context(), id), qrtz.ErrWrongState)
	third, err := s.Retry(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 3, c.count(`SELECT ATTEMPT FROM QRTZ_RUN WHERE ID = ?`, third))
	receive(t, keys)
	_, err = s.Retry(t.Context(), id)
	require.ErrorIs(t, err, qrtz.ErrWrongState)
	require.NoError(t, s.Cancel(t.Context(), id))
}

// Deleting a job leaves what runs alone, and leaves no run that can never be claimed.
func TestDeletingAJobThatRuns(t *testing.T) {
	c := newCluster(t)
	release, began := make(chan struct{}), make(chan struct{})
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "long", func(context.Context, *qrtz.Run, struct{}) error {
			close(began)
			<-release
			return errors.New("to be tried again")
		})
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "long", Options: qrtz.Options{Attempts: 3}}))
	running, err := s.Enqueue(t.Context(), "long", nil)
	require.NoError(t, err)
	waiting, err := s.Enqueue(t.Context(), "long", nil, qrtz.StartAt(time.Now().Add(time.Hour)))
	require.NoError(t, err)
	c.start(s)
	<-began
	require.NoError(t, s.Delete(t.Context(), "long"))
	close(release)
	c.eventually("it failed", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, running) == "FAILED" })
	require.Equal(t, "CANCELLED", c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, waiting))
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// A transaction that has enqueued a run may take its time: it holds up neither claims nor declarations.
func TestAnOpenTransactionThatEnqueuedHoldsUpNobody(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	s := c.client()
	job := qrtz.Job{Name: "ticking", Class: "tick", Schedules: []qrtz.Schedule{qrtz.Every(100 * time.Millisecond)}}
	require.NoError(t, s.Declare(t.Context(), job))
	tx := c.begin()
	id, err := s.In(tx).Enqueue(t.Context(), "ticking", nil)
	require.NoError(t, err)

	began := time.Now()
	job.Description, job.Schedules[0] = "changed", qrtz.Every(50*time.Millisecond)
	require.NoError(t, s.Declare(t.Context(), job))
	require.NoError(t, s.Pause(t.Context(), "ticking", ""))
	require.NoError(t, s.Resume(t.Context(), "ticking", ""))
	c.ran(20, 5*time.Second, dueAfter(began))
	_, err = s.Enqueue(t.Context(), "ticking", nil)
	require.NoError(t, err)
	c.ran(1, 2*time.Second, func(f fire) bool { return f.ScheduleID == 0 })
	require.Less(t, time.Since(began), 5*time.Second)
	require.NoError(t, tx.Commit())
	c.ran(1, 2*time.Second, func(f fire) bool { return f.ID == id })
}

// A caller's transaction may be on a session in whose character set a quote can hide, whatever the DSN says.
func TestAQuoteCannotHideInACallersTransaction(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "post", Class: "post"}))
	tx := c.begin()
	_, err := tx.Exec(`SET NAMES gbk`)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = c.db.Exec(`SET NAMES utf8mb4`) })
	_, err = s.In(tx).Enqueue(t.Context(), "post", letter{"\xbf' OR 1 = 1 -- "})
	var unsafe *schema.UnsafeCharsetError
	require.ErrorAs(t, err, &unsafe)
	require.ErrorContains(t, err, `character_set_client is gbk`)
	_, err = tx.Exec(`SET NAMES utf8mb4`)
	require.NoError(t, err)
	_, err = s.In(tx).Enqueue(t.Context(), "post", letter{"\xbf' OR 1 = 1 -- "})
	require.NoError(t, err, "the session is right again, and the transaction continues")
}
