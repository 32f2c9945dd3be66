package qrtz_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

func TestARunHasOptionsOfItsOwn(t *testing.T) {
	c := newCluster(t)
	attempts := make(chan int, 10)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "slow", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			attempts <- run.Attempt
			<-ctx.Done()
			return qrtz.RetryAfter(context.Cause(ctx), 0)
		})
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "slow", Options: qrtz.Options{Timeout: time.Hour, Attempts: 5}}))
	c.start(s)
	at := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	id, err := s.Enqueue(t.Context(), "slow", nil, qrtz.StartAt(at), qrtz.WithTimeout(50*time.Millisecond), qrtz.WithAttempts(2),
		qrtz.WithPriority(qrtz.PriorityHigh))
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, []int{<-attempts, <-attempts})
	c.eventually("both have timed out", 5*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'FAILED'`) == 2 })
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE COALESCE(ORIGIN, ID) = ? AND FIRE_TIME = ? AND PRIORITY = 1`, id, at.UnixMilli()))

	later := qrtz.StartAt(time.Now().Add(time.Hour))
	id, err = s.Enqueue(t.Context(), "slow", nil, later, qrtz.WithTimeout(qrtz.Forever), qrtz.WithAttempts(qrtz.Unlimited))
	require.NoError(t, err)
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ID = ? AND RUN_TIMEOUT = 0 AND ATTEMPTS = 2147483647`, id))
}

func TestWhatCannotBeEnqueuedIsRefused(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "post"}))
	for want, option := range map[string]qrtz.EnqueueOption{
		"StartAt: the zero time is":  qrtz.StartAt(time.Time{}),
		"start at 1970-01-01":        qrtz.StartAt(time.UnixMilli(5).UTC()),
		"key of 0 bytes: want 1 to":  qrtz.WithKey(""),
		"key of 191 bytes: want 1":   qrtz.Once(strings.Repeat("k", 191)),
		`key "k ": want no blank`:    qrtz.WithKey("k "),
		`key "\xff": want UTF-8`:     qrtz.WithKey("\xff"),
		"attempts 0: want at least":  qrtz.WithAttempts(0),
		"timeout -1s: want whole":    qrtz.WithTimeout(-time.Second),
		"timeout 1µs: want whole":    qrtz.WithTimeout(time.Microsecond),
		"priority 2: want Priority":  qrtz.WithPriority(2),
		"timeout 876001h0m0s: want ": qrtz.WithTimeout(876_001 * time.Hour),
	} {
		_, err := s.Enqueue(t.Context(), "post", nil, option)
		assert.ErrorContains(t, err, `qrtz: enqueue "post": `+want)
		_, err = s.EnqueueMany(t.Context(), []qrtz.Request{{Job: "post"}, {Job: "post", Options: []qrtz.EnqueueOption{option}}})
		assert.ErrorContains(t, err, `qrtz: enqueue "post", number 1: `+want)
	}
	_, err := s.Enqueue(t.Context(), "post", nil, qrtz.WithKey("a"), qrtz.Once("b"))
	require.ErrorContains(t, err, `two keys, "a" and "b": a run has one`)
	_, err = s.Enqueue(t.Context(), "post", nil, qrtz.WithKey("a"), nil)
	require.ErrorContains(t, err, "option 1 is nil")
	_, err = s.EnqueueMany(t.Context(), []qrtz.Request{{Job: "post"}, {Job: "posd"}})
	require.ErrorContains(t, err, `app "test" has no job named "posd"; did you mean "post"?`)
	none, err := s.EnqueueMany(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// One run of a job has a key at a time, through all its attempts.
func TestAKeyIsFreeWhenItsRunHasEnded(t *testing.T) {
	c := newCluster(t)
	release := make(chan error)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "sync", func(context.Context, *qrtz.Run, struct{}) error { return <-release })
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "sync", Options: qrtz.Options{Attempts: 2, History: qrtz.HistoryNone}},
		qrtz.Job{Name: "sync too", Class: "sync"}))
	enqueue := func(client *qrtz.Client, job string, option qrtz.EnqueueOption) (int64, error) {
		return client.Enqueue(t.Context(), job, nil, option)
	}
	taken := func(want int64) {
		t.Helper()
		for name, client := range map[string]*qrtz.Client{"alone": &s.Client, "in a transaction": s.In(c.begin())} {
			id, err := enqueue(client, "sync", qrtz.WithKey("shop 7"))
			require.ErrorIs(t, err, qrtz.ErrKeyTaken, name)
			require.Equal(t, want, id, name)
		}
		many, err := s.EnqueueMany(t.Context(), []qrtz.Request{{Job: "sync", Options: []qrtz.EnqueueOption{qrtz.WithKey("shop 7")}}})
		require.NoError(t, err)
		require.Equal(t, []qrtz.Enqueued{{RunID: want, Taken: true}}, many)
	}
	old := c.begin()
	id, err := enqueue(&s.Client, "sync", qrtz.WithKey("shop 7"))
	require.NoError(t, err)
	taken(id)
	got, err := enqueue(s.In(old), "sync", qrtz.WithKey("shop 7"))
	require.ErrorIs(t, err, qrtz.ErrKeyTaken, "its snapshot is older than that run")
	require.Equal(t, id, got)
	require.NoError(t, old.Rollback())
	for _, other := range []string{"shop 8", "Shop 7", "shop  7", "shöp 7"} {
		_, err := enqueue(&s.Client, "sync", qrtz.WithKey(other))
		require.NoError(t, err, other)
	}
	_, err = enqueue(&s.Client, "sync too", qrtz.WithKey("shop 7"))
	require.NoError(t, err, "another job")
	c.exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = ? WHERE ID <> ?`, time.Now().Add(time.Hour).UnixMilli(), id)

	c.start(s)
	release <- qrtz.RetryAfter(errors.New("no"), 0)
	taken(id) // by the second attempt, or the first one that has not been written yet
	release <- nil
	c.eventually("it has ended", 5*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE COALESCE(ORIGIN, ID) = ?`, id) == 0 })
	again, err := enqueue(&s.Client, "sync", qrtz.WithKey("shop 7"))
	require.NoError(t, err)
	require.Greater(t, again, id)
	release <- nil
}

// With Once the key is taken as long as the run is on record, whatever the job's history says.
func TestARunWithOnceIsNotRepeated(t *testing.T) {
	c := newCluster(t)
	s, posted := c.post(quick("n1"))
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "post", Options: qrtz.Options{History: qrtz.HistoryNone}}))
	c.start(s)
	id, err := s.Enqueue(t.Context(), "post", letter{"Ada"}, qrtz.Once("invoice 1"))
	require.NoError(t, err)
	require.Equal(t, "Ada", receive(t, posted))
	c.eventually("on record", 5*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`) == 1 })
	for _, option := range []qrtz.EnqueueOption{qrtz.Once("invoice 1"), qrtz.WithKey("invoice 1")} {
		got, err := s.Enqueue(t.Context(), "post", letter{"Ada"}, option)
		require.ErrorIs(t, err, qrtz.ErrKeyTaken)
		require.Equal(t, id, got)
	}
}

// A run that a person ends by SQL keeps its key until the next one asks for it.
func TestAKeyOfARunEndedBySQLIsFreed(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "post"}))
	ended := func(key string) {
		_, err := s.Enqueue(t.Context(), "post", nil, qrtz.WithKey(key))
		require.NoError(t, err)
		c.exec(`UPDATE QRTZ_RUN SET STATE = 'CANCELLED' WHERE RUN_KEY = ?`, key)
	}
	ended("alone")
	_, err := s.Enqueue(t.Context(), "post", nil, qrtz.WithKey("alone"))
	require.NoError(t, err)
	ended("in a transaction")
	_, err = s.In(c.begin()).Enqueue(t.Context(), "post", nil, qrtz.WithKey("in a transaction"))
	require.NoError(t, err)
}

// However many ask at once, one run has the key.
func TestManyAskForOneKeyAtOnce(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "post"}))
	ids, wg := make(chan int64, 400), sync.WaitGroup{}
	for i := range 8 {
		wg.Go(func() {
			for n := range 10 {
				key := qrtz.WithKey(fmt.Sprint("key ", n))
				id, err := s.Enqueue(t.Context(), "post", nil, key)
				if i%2 == 0 {
					var many []qrtz.Enqueued
					many, err = s.EnqueueMany(t.Context(), []qrtz.Request{{Job: "post", Options: []qrtz.EnqueueOption{key}}})
					if assert.NoError(t, err) {
						assert.True(t, many[0].Taken)
						ids <- many[0].RunID
					}
					continue
				}
				if err != nil {
					assert.ErrorIs(t, err, qrtz.ErrKeyTaken)
				}
				ids <- id
			}
		})
	}
	wg.Wait()
	close(ids)
	require.Equal(t, 10, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
	for id := range ids {
		require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ID = ?`, id))
	}
}

func TestManyRunsAreEnqueuedInOrder(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "post"}, qrtz.Job{Name: "print"}))
	db, err := sql.Open("mysql", c.dsn+"&auto_increment_increment=3") // as on a Galera cluster of three servers
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	fresh, err := qrtz.Open(db, qrtz.Config{App: "test"})
	require.NoError(t, err)
	_, err = fresh.Enqueue(t.Context(), "post", letter{"taken"}, qrtz.WithKey("key 2400"))
	require.NoError(t, err)
	requests := make([]qrtz.Request, 2500)
	for i := range requests {
		requests[i] = qrtz.Request{Job: "post", Data: letter{fmt.Sprint(i)}}
		if i%7 == 0 {
			requests[i].Job = "print"
		}
		if i%100 == 0 {
			requests[i] = qrtz.Request{Job: "post", Data: letter{fmt.Sprint(i)}, Options: []qrtz.EnqueueOption{qrtz.WithKey(fmt.Sprint("key ", i%2500))}}
		}
	}
	requests[2450] = requests[100]
	check := func(client *qrtz.Client) {
		t.Helper()
		all, err := client.EnqueueMany(t.Context(), requests)
		require.NoError(t, err)
		require.Len(t, all, len(requests))
		for i, e := range all {
			require.Equal(t, i == 2400 || i == 2450, e.Taken, "%d", i)
		}
		require.Equal(t, all[100].RunID, all[2450].RunID)
		for _, i := range []int{0, 1, 7, 100, 999, 1000, 1001, 2399, 2401, 2499} {
			require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE R.ID = ? AND R.JOB_DATA = ? AND J.NAME = ?`,
				all[i].RunID, fmt.Sprintf(`{"To":"%d"}`, i), requests[i].Job), "%d", i)
		}
	}
	check(&fresh.Client)
	require.Equal(t, 2499, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
	c.exec(`DELETE FROM QRTZ_RUN WHERE RUN_KEY IS NULL OR RUN_KEY <> 'key 2400'`)
	tx := c.begin()
	_, err = s.In(tx).EnqueueMany(t.Context(), requests)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}
