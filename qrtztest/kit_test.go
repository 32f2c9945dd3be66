package qrtztest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/qrtztest"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// newKit has handlers "tick", which succeeds, and "fails", which does not.
func newKit(t *testing.T, cfg qrtz.Config) (*qrtztest.Kit, *sql.DB) {
	t.Helper()
	db := testdb.New(t)
	cfg.App = "test"
	return qrtztest.New(t, db, cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "tick", func(context.Context, *qrtz.Run, struct{}) error { return nil })
		qrtz.Handle(s, "fails", func(context.Context, *qrtz.Run, struct{}) error { return errors.New("no paper") })
		qrtz.Handle(s, "post", func(_ context.Context, run *qrtz.Run, to string) error { run.Message("to " + to); return nil })
	}), db
}

func job(name, class string, schedules ...qrtz.Schedule) qrtz.Job {
	return qrtz.Job{Name: name, Class: class, Schedules: schedules}
}

// at is a time on the kit's first day.
func at(hour, minute, second int) time.Time {
	return qrtztest.Start.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
}

func times(events []qrtz.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.FireTime.UTC().Format("02 15:04:05"))
	}
	return all
}

func TestFiresRunAtTheirTimes(t *testing.T) {
	kit, db := newKit(t, qrtz.Config{})
	kit.Declare(job("night", "tick", qrtz.Cron("0 30 2 * * ?", "Europe/Berlin")))
	require.Empty(t, kit.Advance(0))
	require.Empty(t, kit.AdvanceTo(at(1, 29, 59)))
	require.Len(t, kit.Advance(time.Second), 1, "the end is included")
	require.Equal(t, at(1, 30, 0), kit.Now())
	kit.Advance(48 * time.Hour)
	require.Equal(t, []string{"01 01:30:00", "02 01:30:00", "03 01:30:00"}, times(kit.Ran("tick")))
	for _, e := range kit.Runs() {
		require.Equal(t, qrtz.Succeeded, e.State)
		require.Equal(t, 1, e.Attempt)
		require.Equal(t, e.FireTime.UnixMilli(), e.At.UnixMilli(), "no time passes in a run")
		var rows int
		require.NoError(t, db.QueryRow(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ID = ? AND STATE = 'SUCCEEDED' AND FIRE_TIME = STARTED_AT
			AND FIRE_TIME = FINISHED_AT AND FIRE_TIME = CLAIMED_AT AND FIRE_TIME = ?`, e.RunID, e.FireTime.UnixMilli()).Scan(&rows))
		require.Equal(t, 1, rows)
	}
}

func TestRunsAreInOrder(t *testing.T) {
	kit, _ := newKit(t, qrtz.Config{})
	kit.Declare(job("a", "tick", qrtz.Every(3*time.Second)), job("b", "fails", qrtz.Every(2*time.Second)))
	var order []string
	for _, e := range kit.Advance(6 * time.Second) {
		order = append(order, e.FireTime.UTC().Format("05 ")+e.Class)
	}
	require.Equal(t, []string{"00 tick", "00 fails", "02 fails", "03 tick", "04 fails", "06 tick", "06 fails"}, order)
}

func TestRetriesAreDueInTime(t *testing.T) {
	kit, _ := newKit(t, qrtz.Config{})
	failing := job("f", "fails", qrtz.At(at(1, 0, 0)))
	failing.Attempts, failing.Backoff, failing.History = 3, time.Minute, qrtz.HistoryNone
	kit.Declare(failing)
	kit.AdvanceTo(at(1, 0, 0))
	first := kit.RequireRan("fails", 1)[0]
	require.Equal(t, qrtz.Failed, first.State)
	require.Equal(t, "no paper", first.Message)
	require.Equal(t, at(1, 1, 0), first.RetryAt.UTC(), "no chance has a part in it")
	kit.AdvanceTo(first.RetryAt.Add(-time.Millisecond))
	kit.RequireRan("fails", 1)
	kit.Advance(time.Millisecond)
	kit.RequireRan("fails", 2)
	kit.Advance(24 * time.Hour)
	last := kit.RequireRan("fails", 3)[2]
	require.Equal(t, 3, last.Attempt)
	require.Zero(t, last.RetryAt)
	require.Equal(t, first.FireTime, last.FireTime)
}

func TestMisfirePoliciesAfterSkip(t *testing.T) {
	kit, _ := newKit(t, qrtz.Config{})
	hourly := func(m qrtz.Misfire) qrtz.Schedule {
		s := qrtz.Every(time.Hour)
		s.Name, s.Misfire = string(m), m
		return s
	}
	kit.Declare(job("j", "tick", hourly(qrtz.FireOnce), hourly(qrtz.Skip), hourly(qrtz.CatchUp)))
	kit.Advance(0)
	kit.RequireRan("tick", 3)
	ran := kit.Skip(5*time.Hour + 30*time.Minute)
	require.Equal(t, at(5, 30, 0), kit.Now())
	require.Len(t, kit.Ran("tick"), 3+0+1+5)
	require.Len(t, ran, 8, "what was skipped included")
	var skipped int64
	for _, e := range kit.Skipped("tick") {
		skipped += e.Count
	}
	require.Equal(t, int64(4+5), skipped)
	kit.Advance(time.Hour)
	kit.RequireRan("tick", 9+3)

	kit.Skip(29*time.Minute + 59*time.Second)
	kit.Skip(10 * time.Second)
	kit.RequireRan("tick", 12+3) // late, but within MisfireAfter
}

func TestWhatIsEnqueuedRuns(t *testing.T) {
	kit, _ := newKit(t, qrtz.Config{})
	kit.Declare(job("post", "post"))
	_, err := kit.Scheduler.Enqueue(t.Context(), "post", "Ada")
	require.NoError(t, err)
	_, err = kit.Scheduler.Enqueue(t.Context(), "post", "Grace", qrtz.StartAt(at(3, 0, 0)))
	require.NoError(t, err)
	require.Equal(t, "to Ada", kit.Advance(0)[0].Message)

	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
		tx, err := kit.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = kit.Scheduler.In(tx).Enqueue(t.Context(), "post", "Edsger")
		require.NoError(t, err)
		require.NoError(t, end(tx))
	}
	kit.Advance(0)
	require.Equal(t, "to Edsger", kit.RequireRan("post", 2)[1].Message)
	kit.Advance(4 * time.Hour)
	late := kit.RequireRan("post", 3)[2]
	require.Equal(t, "to Grace", late.Message)
	require.Equal(t, at(3, 0, 0).UnixMilli(), late.At.UnixMilli())
}

func TestPausesAndRemovalsCount(t *testing.T) {
	kit, _ := newKit(t, qrtz.Config{})
	kit.Declare(job("j", "tick", qrtz.Every(time.Minute)))
	kit.Advance(2 * time.Minute)
	kit.RequireRan("tick", 3)
	require.NoError(t, kit.Scheduler.Pause(t.Context(), "j", ""))
	kit.Advance(10*time.Minute + 30*time.Second)
	kit.RequireRan("tick", 3)
	require.NoError(t, kit.Scheduler.Resume(t.Context(), "j", ""))
	kit.Advance(time.Minute)
	kit.RequireRan("tick", 4)
	_, err := kit.DB.ExecContext(t.Context(), `UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED'`) // an operator
	require.NoError(t, err)
	kit.Advance(10 * time.Minute)
	_, err = kit.DB.ExecContext(t.Context(), `UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING'`)
	require.NoError(t, err)
	kit.Advance(0)
	kit.RequireRan("tick", 4)
	kit.Advance(time.Minute)
	kit.RequireRan("tick", 5)
	require.NoError(t, kit.Scheduler.Delete(t.Context(), "j"))
	require.Empty(t, kit.Advance(time.Hour))
}

// A handler that adds fires of its own job makes a queue; the rule's limit holds by the kit's clock.
func TestOverlapRules(t *testing.T) {
	kit, _ := newKit(t, qrtz.Config{})
	j := job("j", "tick")
	for i := range 5 {
		s := qrtz.At(at(1, 0, 0))
		s.Name = fmt.Sprint(i)
		j.Schedules = append(j.Schedules, s)
	}
	j.Overlap, j.QueueLimit = qrtz.OverlapQueue, 2
	kit.Declare(j)
	kit.Advance(2 * time.Hour)
	kit.RequireRan("tick", 3)
	require.Len(t, kit.Skipped("tick"), 2)
}

func TestHooksOfTheConfigAreCalled(t *testing.T) {
	var told []qrtz.Event
	kit, _ := newKit(t, qrtz.Config{Hooks: qrtz.Hooks{Finished: func(e qrtz.Event) { told = append(told, e) }}})
	kit.Declare(job("j", "fails", qrtz.At(at(0, 0, 5))))
	kit.Advance(time.Minute)
	require.Equal(t, kit.Runs(), told)
	require.Len(t, told, 1)
}

// The user's own pool never sees the kit's time.
func TestTheUsersPoolKeepsItsClock(t *testing.T) {
	db := testdb.New(t)
	db.SetMaxOpenConns(2) // what the kit borrows comes back
	t.Run("kit", func(t *testing.T) {
		kit := qrtztest.New(t, db, qrtz.Config{App: "test"}, nil)
		kit.Advance(time.Hour)
		var now int64
		require.NoError(t, kit.DB.QueryRow(`SELECT UNIX_TIMESTAMP()`).Scan(&now))
		require.Equal(t, at(1, 0, 0).Unix(), now)
	})
	for range 2 {
		c, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer c.Close()
		var now int64
		require.NoError(t, c.QueryRowContext(t.Context(), `SELECT UNIX_TIMESTAMP()`).Scan(&now))
		require.WithinDuration(t, time.Now(), time.Unix(now, 0), time.Minute)
	}
}

func TestAScheduleAddedBySQLIsNotEarly(t *testing.T) {
	kit, _ := newKit(t, qrtz.Config{})
	kit.Declare(job("j", "tick"))
	_, err := kit.DB.ExecContext(t.Context(), `INSERT INTO QRTZ_EXECUTE (PID, JOB_TYPE, STATE, REPEAT_INTERVAL, REPEAT_COUNT, START_TIME)
		SELECT ID, 'SIMPLE', 'EXECUTING', 1000, 2, ? FROM QRTZ_JOB`, at(0, 0, 3).UnixMilli())
	require.NoError(t, err)
	require.Empty(t, kit.AdvanceTo(at(0, 0, 2)))
	kit.AdvanceTo(at(1, 0, 0))
	require.Equal(t, []string{"01 00:00:03", "01 00:00:04"}, times(kit.Ran("tick")))
}
