package qrtz_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// What is due today, and what failed last night.
func ExampleClient_Runs() {
	var s *qrtz.Scheduler
	ctx := context.Background()

	schedules, err := s.Schedules(ctx, qrtz.ScheduleFilter{Job: "invoice", Fires: 3})
	must(err)
	for _, schedule := range schedules.Rows {
		log.Print(schedule.Schedule, schedule.Fires, schedule.Why)
	}
	failed := qrtz.RunFilter{State: qrtz.Failed, Since: time.Now().Add(-12 * time.Hour)}
	for {
		page, err := s.Runs(ctx, failed)
		must(err)
		for _, run := range page.Rows {
			log.Print(run.Job, run.FireTime, run.Message)
		}
		if failed.After = page.Next; page.Next == "" {
			break
		}
	}
}

// A deployment takes a node out of work before it stops its process.
func ExampleClient_Drain() {
	var s *qrtz.Scheduler
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	err := s.Drain(ctx, "10.0.0.7")
	if errors.Is(err, context.DeadlineExceeded) {
		log.Print("something still runs there")
	}
	must(s.SwitchNode(context.Background(), "10.0.0.7", true))
}

func TestWhatIsStoredIsRead(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	ctx := t.Context()
	daily := qrtz.Cron("0 30 2 * * ?", "Europe/Berlin")
	daily.Name, daily.Start = "daily", time.Date(2099, 3, 28, 0, 0, 0, 0, time.UTC)
	rate := qrtz.Every(time.Minute)
	rate.Name, rate.Start = "rate", time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	require.NoError(t, s.Declare(ctx,
		qrtz.Job{
			Name: "report", Class: "tick", Description: "it reports", Data: map[string]int{"n": 1}, Schedules: []qrtz.Schedule{daily, rate},
			Options: qrtz.Options{Attempts: 3, Backoff: time.Minute, Timeout: time.Hour, QueueLimit: qrtz.Unlimited},
		},
		qrtz.Job{Name: "bare", Options: qrtz.Options{KeepFor: qrtz.Forever, Backoff: qrtz.NoBackoff}}))
	n := c.node("n1")
	c.eventually("the node and the next fires", 10*time.Second, func() bool {
		return c.count(`SELECT COUNT(INSTANCE) FROM QRTZ_NODE`) == 1 && c.count(`SELECT COUNT(NEXT_FIRE_TIME) FROM QRTZ_EXECUTE`) == 2
	})

	jobs, err := s.Jobs(ctx, qrtz.JobFilter{})
	require.NoError(t, err)
	require.Empty(t, jobs.Next)
	require.Len(t, jobs.Rows, 2)
	bare, report := jobs.Rows[0], jobs.Rows[1]
	require.Equal(t, []any{"report", "tick", "it reports", `{"n":1}`, 2, ""}, []any{report.Name, report.Class, report.Description, string(report.Data), report.Schedules, report.Why})
	require.Equal(t, []any{3, time.Minute, time.Hour, 720 * time.Hour, qrtz.HistoryAll}, []any{report.Attempts, report.Backoff, report.Timeout, report.KeepFor, report.History})
	require.Equal(t, "no live node has a handler for its class", bare.Why)
	require.Equal(t, []any{qrtz.Unlimited, qrtz.Forever, qrtz.NoBackoff}, []any{report.QueueLimit, bare.KeepFor, bare.Backoff}, "as they are declared")
	one, err := s.FindJob(ctx, "report")
	require.NoError(t, err)
	require.Equal(t, report.ID, one.ID)

	schedules, err := s.Schedules(ctx, qrtz.ScheduleFilter{Fires: 3})
	require.NoError(t, err)
	require.Len(t, schedules.Rows, 2)
	first, second := schedules.Rows[0], schedules.Rows[1]
	require.Equal(t, []string{"rate", "every 60000 ms", "daily", "0 30 2 * * ?"}, []string{first.Name, first.Schedule, second.Name, second.Schedule}, "by their next fire")
	require.Equal(t, []time.Time{rate.Start, rate.Start.Add(time.Minute), rate.Start.Add(2 * time.Minute)}, first.Fires)
	require.Equal(t, "[2099-03-28 02:30:00 +0100 CET 2099-03-29 03:00:00 +0200 CEST 2099-03-30 02:30:00 +0200 CEST]", fmt.Sprint(second.Fires), "in its zone")
	require.True(t, second.NextFire.Equal(second.Fires[0]))
	require.Equal(t, int64(-1), first.Count)
	of, err := s.Schedules(ctx, qrtz.ScheduleFilter{Job: "bare"})
	require.NoError(t, err)
	require.Empty(t, of.Rows)

	apps, err := s.Apps(ctx)
	require.NoError(t, err)
	require.Equal(t, []any{"test", true, 1, 2}, []any{apps[0].Name, apps[0].On, apps[0].Nodes, apps[0].Jobs})
	nodes, err := s.Nodes(ctx)
	require.NoError(t, err)
	require.Equal(t, []any{"n1", qrtz.NodeAlive, true, []string{"tick"}}, []any{nodes[0].ID, nodes[0].State, nodes[0].On, nodes[0].Classes})
	require.WithinDuration(t, time.Now(), nodes[0].HeartbeatAt, 10*time.Second)
	c.exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, HEARTBEAT_AT) VALUES ('test', 'n2', '', 'Y', 0, 1700000000000)`)
	n.halt()
	nodes, err = s.Nodes(ctx)
	require.NoError(t, err)
	require.Equal(t, []qrtz.NodeState{qrtz.NodeLeft, qrtz.NodeDead}, []qrtz.NodeState{nodes[0].State, nodes[1].State})
}

func TestRunsAreReadByFilterAndPage(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	ctx := t.Context()
	require.NoError(t, s.Declare(ctx, qrtz.Job{Name: "a"}, qrtz.Job{Name: "b"}))
	ids := map[string]string{"a": c.text(`SELECT ID FROM QRTZ_JOB WHERE NAME = 'a'`), "b": c.text(`SELECT ID FROM QRTZ_JOB WHERE NAME = 'b'`)}
	at := func(n int) int64 { return 1700000000000 + int64(n)*1000 }
	for i := 1; i <= 6; i++ {
		c.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT, STATE, MESSAGE) VALUES (?, 'test', ?, ?, ?, ?, 'said')`,
			i, ids[string("ab"[i%2])], at(i), at(i), []string{"FAILED", "SUCCEEDED", "SUCCEEDED"}[i%3])
	}
	c.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT, STATE, RUN_KEY) VALUES (7, 'test', ?, ?, ?, 'FAILED', 'k')`, ids["a"], at(7), at(7))
	c.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT, STATE, RUN_KEY, ORIGIN, ATTEMPT) VALUES (9, 'test', ?, ?, ?, 'PENDING', 'k', 7, 2)`, ids["a"], at(7), at(9))
	c.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT, STATE) VALUES (10, 'other', 99, ?, ?, 'PENDING')`, at(7), at(9))
	read := func(f qrtz.RunFilter) (ids []int64) {
		for parts := 0; parts < 20; parts++ {
			page, err := s.Runs(ctx, f)
			require.NoError(t, err)
			for _, r := range page.Rows {
				ids = append(ids, r.ID)
			}
			if f.After = page.Next; f.After == "" {
				return ids
			}
		}
		return nil
	}
	require.Equal(t, []int64{9, 7, 6, 5, 4, 3, 2, 1}, read(qrtz.RunFilter{}), "of this app")
	for limit := 1; limit < 9; limit++ {
		require.Equal(t, []int64{9, 7, 6, 5, 4, 3, 2, 1}, read(qrtz.RunFilter{Limit: limit}))
	}
	require.Equal(t, []int64{9, 7, 6, 4, 2}, read(qrtz.RunFilter{Job: "a", Limit: 2}))
	require.Equal(t, []int64{7, 6, 3}, read(qrtz.RunFilter{State: qrtz.Failed, Limit: 1}))
	require.Equal(t, []int64{3}, read(qrtz.RunFilter{State: qrtz.Failed, Job: "b"}))
	require.Equal(t, []int64{9, 7}, read(qrtz.RunFilter{Job: "a", Key: "k"}))
	require.Equal(t, []int64{4, 3}, read(qrtz.RunFilter{Since: time.UnixMilli(at(3)), Until: time.UnixMilli(at(5))}))
	require.Equal(t, []int64{4}, read(qrtz.RunFilter{Job: "a", Since: time.UnixMilli(at(3)), Until: time.UnixMilli(at(5))}))
	for _, f := range []qrtz.RunFilter{{Limit: -1}, {Limit: 1001}, {After: "x"}, {After: "3"}, {Key: "k"}} {
		_, err := s.Runs(ctx, f)
		require.Error(t, err, f)
	}
	_, err := s.Schedules(ctx, qrtz.ScheduleFilter{Fires: -1})
	require.Error(t, err)
	_, err = s.Runs(ctx, qrtz.RunFilter{Job: "aa"})
	require.ErrorIs(t, err, qrtz.ErrNotFound)
	require.ErrorContains(t, err, `did you mean "a"`)

	for _, id := range []int64{7, 9} {
		attempts, err := s.Attempts(ctx, id)
		require.NoError(t, err)
		require.Equal(t, []int64{7, 7, 9, 7}, []int64{attempts[0].ID, attempts[0].Origin, attempts[1].ID, attempts[1].Origin})
		require.Equal(t, "no live node has a handler for its class", attempts[1].Why)
	}
	r, err := s.FindRun(ctx, 3)
	require.NoError(t, err)
	require.Equal(t, []any{"b", qrtz.Failed, "said", time.UnixMilli(at(3)).UTC(), true}, []any{r.Job, r.State, r.Message, r.FireTime, r.Ended()})
	for _, id := range []int64{8, 10} {
		_, err = s.FindRun(ctx, id)
		require.ErrorIs(t, err, qrtz.ErrNotFound)
		_, err = s.Attempts(ctx, id)
		require.ErrorIs(t, err, qrtz.ErrNotFound)
	}
}

func TestTheCallersTransactionReadsWhatItWrote(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "a"}))
	tx := c.begin()
	id, err := s.In(tx).Enqueue(t.Context(), "a", nil)
	require.NoError(t, err)
	r, err := s.In(tx).FindRun(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, qrtz.Pending, r.State)
	_, err = s.FindRun(t.Context(), id)
	require.ErrorIs(t, err, qrtz.ErrNotFound, "not yet")
	_, err = s.In(tx).Wait(t.Context(), id)
	require.ErrorContains(t, err, "transaction")
	require.ErrorContains(t, s.In(tx).Drain(t.Context(), "n1"), "transaction")
	require.NoError(t, tx.Rollback())
}

func TestAStateThatNothingIsInIsNoFilter(t *testing.T) {
	s := newCluster(t).client()
	_, err := s.Runs(t.Context(), qrtz.RunFilter{State: "failed"})
	require.ErrorContains(t, err, `qrtz: list runs: State ("failed"): want one of PENDING, RUNNING, SUCCEEDED`)
	_, err = s.Jobs(t.Context(), qrtz.JobFilter{State: "RUNNING"})
	require.ErrorContains(t, err, `want one of INIT, EXECUTING`)
	_, err = s.Schedules(t.Context(), qrtz.ScheduleFilter{State: "RUNNING"})
	require.ErrorContains(t, err, `want one of INIT, EXECUTING`)
}

func TestSwitchesAreThrown(t *testing.T) {
	c := newCluster(t)
	causes := make(chan error, 1)
	n := c.start(c.open(patient("n1"), c.waits(causes)))
	s := c.client()
	ctx := t.Context()
	require.NoError(t, s.Declare(ctx, qrtz.Job{Name: "waits"}))
	id, err := s.Enqueue(ctx, "waits", nil)
	require.NoError(t, err)
	c.ran(1, within, all)

	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Drain(short, "n1"), context.DeadlineExceeded, "it still runs")
	require.Equal(t, "N", c.text(`SELECT STATE FROM QRTZ_NODE WHERE HOST_IP = 'n1'`))
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(ctx, "n1") }()
	require.NoError(t, n.Cancel(ctx, id))
	require.NoError(t, arrives(t, drained, within))
	require.ErrorIs(t, arrives(t, causes, within), qrtz.ErrCancelled)
	require.NoError(t, s.SwitchNode(ctx, "n1", true))
	require.Equal(t, "Y", c.text(`SELECT STATE FROM QRTZ_NODE WHERE HOST_IP = 'n1'`))

	tx := c.begin()
	require.NoError(t, s.In(tx).SwitchApp(ctx, false))
	require.NoError(t, tx.Rollback())
	require.Equal(t, "Y", c.text(`SELECT STATE FROM QRTZ_APP`))
	require.NoError(t, s.SwitchApp(ctx, false))
	require.Equal(t, "N", c.text(`SELECT STATE FROM QRTZ_APP`))
	require.NoError(t, s.SwitchApp(ctx, true))
	require.ErrorIs(t, s.SwitchNode(ctx, "n9", false), qrtz.ErrNotFound)
	require.ErrorIs(t, s.Drain(ctx, "n9"), qrtz.ErrNotFound)
	other, err := qrtz.Open(c.db, qrtz.Config{App: "nowhere"})
	require.NoError(t, err)
	require.ErrorIs(t, other.SwitchApp(ctx, false), qrtz.ErrNotFound)
}
