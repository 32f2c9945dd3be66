package execute

import (
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"

	"github.com/stretchr/testify/require"
)

// exclusive is a job with an overlap rule, and an execute of it.
func (f *tables) exclusive(rule run.Overlap, queueLimit int) (job int64, e *Execute) {
	f.t.Helper()
	job = f.addJob("tick")
	f.exec(`UPDATE QRTZ_JOB SET OVERLAP = ?, QUEUE_LIMIT = ? WHERE ID = ?`, rule, queueLimit, job)
	id := f.addTo(job)
	f.exec(`UPDATE QRTZ_EXECUTE SET START_TIME = ?, NEXT_FIRE_TIME = ? WHERE ID = ?`, then.UnixMilli(), then.UnixMilli(), id)
	return job, f.read(id)
}

// then is a time that has passed by the server's clock, so that what was due then is available.
var then = noon.AddDate(-10, 0, 0)

func (f *tables) succeed(runs ...run.Run) {
	f.t.Helper()
	results := make([]run.Result, len(runs))
	for i, r := range runs {
		results[i] = run.Result{Run: r, State: run.Succeeded, Started: at(1), Finished: at(2), Progress: -1}
	}
	late, err := f.store.runs.Complete(f.t.Context(), results)
	require.NoError(f.t, err)
	require.Zero(f.t, late)
}

func (f *tables) claimWaiting(who node.Instance, ids ...int64) []run.Run {
	f.t.Helper()
	claimed, err := f.store.runs.ClaimPending(f.t.Context(), who, f.pendingOf(f.store, ids...))
	require.NoError(f.t, err)
	return claimed.Runs
}

func (f *tables) ids(query string, args ...any) (ids []int64) {
	f.t.Helper()
	require.NoError(f.t, f.Select(&ids, query, args...))
	return ids
}

// allIDs lists the waiting runs, the latest first: who asks for them so must get them in order.
func (f *tables) allIDs() []int64 {
	return f.ids(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'PENDING' ORDER BY ID DESC`)
}

func TestSkipLeavesOneRunAndRecordsTheOthers(t *testing.T) {
	f := newTables(t)
	job, e := f.exclusive(run.OverlapSkip, 1)
	who := f.join("n1")
	first := f.claim(who, 3, e)
	require.Len(t, first.Runs, 1)
	require.Equal(t, then.UnixMilli(), first.Runs[0].FireTime.UnixMilli(), "the earliest")
	require.Len(t, first.Skipped, 2)
	require.Equal(t, int64(2), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND MESSAGE LIKE '%OVERLAP is SKIP%' AND FINISHED_AT IS NOT NULL`))
	require.Equal(t, job, f.count(`SELECT OVERLAP_KEY FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))

	other := f.join("n2")
	second := f.claim(other, 1, first.Moved...)
	require.Empty(t, second.Runs, "another node neither")
	require.Equal(t, []run.SkippedFire{{
		JobID: job, ExecuteID: e.ID, Class: "tick", NewRun: run.NewRun{State: run.Skipped, FireTime: second.Skipped[0].FireTime, Count: 1, Message: run.OverlapSkipped},
	}}, second.Skipped)
	f.succeed(first.Runs...)
	require.Len(t, f.claim(other, 1, second.Moved...).Runs, 1, "the key is free again")
}

// Whatever ends a run frees its job's key.
func TestTheKeyIsFreeWhenItsRunHasEnded(t *testing.T) {
	for name, end := range map[string]func(*tables, node.Instance, run.Run) error{
		"succeeded, not kept": func(f *tables, _ node.Instance, r run.Run) error {
			r.Options.History = run.HistoryNone
			_, err := f.store.runs.Complete(f.t.Context(), []run.Result{{Run: r, State: run.Succeeded}})
			return err
		},
		"tried again": func(f *tables, _ node.Instance, r run.Run) error {
			_, err := f.store.runs.Complete(f.t.Context(), []run.Result{{Run: r, State: run.Failed, RetryAt: at(1000)}})
			return err
		},
		"lost": func(f *tables, who node.Instance, _ run.Run) error {
			_, err := f.store.runs.Lose(f.t.Context(), who.ID, "its node died")
			return err
		},
		"handed back": func(f *tables, who node.Instance, r run.Run) error {
			f.handBack(f.store, []run.Run{r})
			return nil
		},
		"in doubt": func(f *tables, who node.Instance, r run.Run) error {
			f.handBackPending(f.store, who, []run.PendingRun{{ID: r.ID, Token: r.Token, Fence: r.Fence}})
			return nil
		},
		"ended by hand": func(f *tables, _ node.Instance, r run.Run) error {
			f.exec(`UPDATE QRTZ_RUN SET STATE = 'FAILED' WHERE ID = ?`, r.ID)
			_, err := f.store.runs.Abandoned(f.t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			_, e := f.exclusive(run.OverlapSkip, 1)
			who := f.join("n1")
			won := f.claim(who, 1, e)
			require.Len(t, won.Runs, 1)
			require.NoError(t, end(f, who, won.Runs[0]))
			require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL`))
			require.Len(t, f.claim(who, 1, won.Moved...).Runs, 1)
		})
	}
}

func TestTheQueueKeepsTheNewestAndRunsThemInOrder(t *testing.T) {
	f := newTables(t)
	_, e := f.exclusive(run.OverlapQueue, 3)
	who, other := f.join("n1"), f.join("n2")
	won := f.claim(who, 1, e)
	running := won.Runs
	for range 6 {
		won = f.claim(who, 1, won.Moved...)
		require.Empty(t, won.Runs)
	}
	require.Equal(t, []int64{4000, 5000, 6000}, f.ids(`SELECT FIRE_TIME - ? FROM QRTZ_RUN WHERE STATE = 'PENDING' ORDER BY 1`, then.UnixMilli()))
	require.Equal(t, int64(3), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND MESSAGE LIKE '%more than 3 runs%QUEUE_LIMIT%'`))

	require.Empty(t, f.claimWaiting(other, f.allIDs()...), "while the first runs")
	ids, err := f.store.runs.Pending(t.Context(), []string{"tick"}, at(0), 100)
	require.NoError(t, err)
	require.Empty(t, ids, "and nobody need try")
	f.succeed(running...)

	require.Empty(t, f.claim(other, 1, won.Moved...).Runs, "a new fire does not overtake those that wait")
	var fires []int64
	for len(f.allIDs()) > 0 {
		if late := f.allIDs(); len(late) > 1 {
			require.Empty(t, f.claimWaiting(other, late[:len(late)-1]...), "nor does one that waits")
		}
		runs := f.claimWaiting(other, f.allIDs()...)
		require.Len(t, runs, 1, "one at a time")
		require.Empty(t, f.claimWaiting(who, f.allIDs()...))
		fires = append(fires, runs[0].FireTime.UnixMilli()-then.UnixMilli())
		f.succeed(runs...)
	}
	require.Equal(t, []int64{5000, 6000, 7000}, fires)
}

// A long queue of one job does not hide what waits behind it.
func TestAQueueDoesNotHideTheRunsOfOtherJobs(t *testing.T) {
	f := newTables(t)
	_, e := f.exclusive(run.OverlapQueue, 1000)
	who := f.join("n1")
	require.Len(t, f.claim(who, 50, e).Runs, 1)
	free := f.pending()
	f.exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = ? WHERE ID = ?`, noon.UnixMilli(), free)
	waiting, err := f.store.runs.Pending(t.Context(), []string{"tick"}, noon, 20)
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	require.Equal(t, free, waiting[0].ID)
}

// A full queue skips fires, not what is owed: further attempts, and runs somebody asked for. They come first if they are older.
func TestAFullQueueSkipsNothingThatIsOwed(t *testing.T) {
	f := newTables(t)
	job, e := f.exclusive(run.OverlapQueue, 1)
	who := f.join("n1")
	first := f.claim(who, 1, e)
	require.Len(t, first.Runs, 1)
	f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, ATTEMPT, AVAILABLE_AT) VALUES ('a', ?, ?, 1100000001000, 2, 1100000001000)`, job, e.ID)
	f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT) VALUES ('a', ?, 1100000002000, 1100000002000)`, job)
	owed := f.ids(`SELECT ID FROM QRTZ_RUN WHERE AVAILABLE_AT IN (1100000001000, 1100000002000) ORDER BY ID`)
	f.claim(who, 3, first.Moved...)
	require.Equal(t, owed, f.ids(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'PENDING' AND AVAILABLE_AT <= 1100000002000 ORDER BY ID`))
	f.succeed(first.Runs...)
	for _, id := range owed {
		runs := f.claimWaiting(who, f.allIDs()...)
		require.Len(t, runs, 1)
		require.Equal(t, id, runs[0].ID)
		f.succeed(runs...)
	}
}

// Somebody holds the row of a run, and with it the key of its job: to try the key would be to wait for them.
func TestALockedRunOfOneJobHoldsUpNoFireOfAnother(t *testing.T) {
	f := newTables(t)
	_, e := f.exclusive(run.OverlapSkip, 10)
	_, other := f.exclusive(run.OverlapQueue, 10)
	who := f.join("n1")
	first := f.claim(who, 1, e)
	require.Len(t, first.Runs, 1)
	defer f.holding(`DELETE FROM QRTZ_RUN WHERE ID = ?`, first.Runs[0].ID)()
	began := time.Now()
	won := f.claim(who, 1, first.Moved[0], other)
	require.Len(t, won.Runs, 1)
	require.Equal(t, other.ID, won.Runs[0].ExecuteID)
	require.Len(t, won.Skipped, 1)
	require.Less(t, time.Since(began), time.Second, "a lock was waited for")
}
