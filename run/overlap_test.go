package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/node"
)

func TestSkipLeavesOneRunAndRecordsTheOthers(t *testing.T) {
	f := newTables(t)
	job, e := f.AddExclusive("SKIP", 1)
	who := f.Join("n1")
	first := f.claim(who, 3, e)
	require.Len(t, first.Runs, 1)
	require.Equal(t, past.UnixMilli(), first.Runs[0].FireTime.UnixMilli(), "the earliest")
	require.Len(t, first.Skipped, 2)
	require.Equal(t, int64(2), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND MESSAGE LIKE '%OVERLAP is SKIP%' AND FINISHED_AT IS NOT NULL`))
	require.Equal(t, job, f.Count(`SELECT OVERLAP_KEY FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))

	other := f.Join("n2")
	second := f.claim(other, 1, e)
	require.Empty(t, second.Runs, "another node neither")
	require.Equal(t, []SkippedFire{{
		RunID: f.Count(`SELECT MAX(ID) FROM QRTZ_RUN WHERE STATE = 'SKIPPED'`), JobID: job, ExecuteID: e, Class: "tick",
		NewRun: NewRun{State: Skipped, FireTime: second.Skipped[0].FireTime, Count: 1, Message: overlapSkipped},
	}}, second.Skipped)
	f.succeed(first.Runs...)
	require.Len(t, f.claim(other, 1, e).Runs, 1, "the key is free again")
}

// Whatever ends a run frees its job's key.
func TestTheKeyIsFreeWhenItsRunHasEnded(t *testing.T) {
	for name, end := range map[string]func(*tables, node.Instance, Run) error{
		"succeeded, not kept": func(f *tables, _ node.Instance, r Run) error {
			r.Options.History = HistoryNone
			_, err := f.store.Complete(f.T.Context(), []Result{{Run: r, State: Succeeded}})
			return err
		},
		"tried again": func(f *tables, _ node.Instance, r Run) error {
			_, err := f.store.Complete(f.T.Context(), []Result{{Run: r, State: Failed, RetryAt: at(1000)}})
			return err
		},
		"lost": func(f *tables, who node.Instance, _ Run) error {
			_, err := f.store.Lose(f.T.Context(), who.ID, "its node died")
			return err
		},
		"handed back": func(f *tables, who node.Instance, r Run) error {
			f.handBack(r)
			return nil
		},
		"in doubt": func(f *tables, who node.Instance, r Run) error {
			f.handBackPending(who, PendingRun{ID: r.ID, token: r.Token, fence: r.Fence})
			return nil
		},
		"ended by SQL": func(f *tables, _ node.Instance, r Run) error {
			f.Exec(`UPDATE QRTZ_RUN SET STATE = 'FAILED' WHERE ID = ?`, r.ID)
			return f.store.FreeOverlapKeys(f.T.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			_, e := f.AddExclusive("SKIP", 1)
			who := f.Join("n1")
			won := f.claim(who, 1, e)
			require.Len(t, won.Runs, 1)
			require.NoError(t, end(f, who, won.Runs[0]))
			require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL`))
			require.Len(t, f.claim(who, 1, e).Runs, 1)
		})
	}
}

func TestTheQueueKeepsTheNewestAndRunsThemInOrder(t *testing.T) {
	f := newTables(t)
	_, e := f.AddExclusive("QUEUE", 3)
	who, other := f.Join("n1"), f.Join("n2")
	won := f.claim(who, 1, e)
	running := won.Runs
	for range 6 {
		won = f.claim(who, 1, e)
		require.Empty(t, won.Runs)
	}
	require.Equal(t, []int64{4000, 5000, 6000}, f.IDs(`SELECT FIRE_TIME - ? FROM QRTZ_RUN WHERE STATE = 'PENDING' ORDER BY 1`, past.UnixMilli()))
	require.Equal(t, int64(3), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND MESSAGE LIKE '%more than 3 runs%QUEUE_LIMIT%'`))

	require.Empty(t, f.claimPending(other, f.PendingIDs()...), "while the first runs")
	ids, err := f.store.Pending(t.Context(), []string{"tick"}, at(0), 100)
	require.NoError(t, err)
	require.Empty(t, ids, "and no node need try")
	f.succeed(running...)

	require.Empty(t, f.claim(other, 1, e).Runs, "a new fire does not overtake those that wait")
	var fires []int64
	for len(f.PendingIDs()) > 0 {
		if late := f.PendingIDs(); len(late) > 1 {
			require.Empty(t, f.claimPending(other, late[:len(late)-1]...), "nor does one that waits")
		}
		runs := f.claimPending(other, f.PendingIDs()...)
		require.Len(t, runs, 1, "one at a time")
		require.Empty(t, f.claimPending(who, f.PendingIDs()...))
		fires = append(fires, runs[0].FireTime.UnixMilli()-past.UnixMilli())
		f.succeed(runs...)
	}
	require.Equal(t, []int64{5000, 6000, 7000}, fires)
}

// A long queue of one job does not hide what waits behind it.
func TestAQueueDoesNotHideTheRunsOfOtherJobs(t *testing.T) {
	f := newTables(t)
	_, e := f.AddExclusive("QUEUE", 1000)
	who := f.Join("n1")
	require.Len(t, f.claim(who, 50, e).Runs, 1)
	free := f.AddPending()
	f.Exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = ? WHERE ID = ?`, noon.UnixMilli(), free)
	pending, err := f.store.Pending(t.Context(), []string{"tick"}, noon, 20)
	require.NoError(t, err)
	require.Len(t, pending, 1)
	require.Equal(t, free, pending[0].ID)
}

// A full queue skips fires, not what is owed: further attempts, and runs that a person asked for. They come first if they are older.
func TestAFullQueueSkipsNothingThatIsOwed(t *testing.T) {
	f := newTables(t)
	job, e := f.AddExclusive("QUEUE", 1)
	who := f.Join("n1")
	first := f.claim(who, 1, e)
	require.Len(t, first.Runs, 1)
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, ATTEMPT, AVAILABLE_AT) VALUES ('a', ?, ?, 1100000001000, 2, 1100000001000)`, job, e)
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT) VALUES ('a', ?, 1100000002000, 1100000002000)`, job)
	owed := f.IDs(`SELECT ID FROM QRTZ_RUN WHERE AVAILABLE_AT IN (1100000001000, 1100000002000) ORDER BY ID`)
	f.claim(who, 3, e)
	require.Equal(t, owed, f.IDs(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'PENDING' AND AVAILABLE_AT <= 1100000002000 ORDER BY ID`))
	f.succeed(first.Runs...)
	for _, id := range owed {
		runs := f.claimPending(who, f.PendingIDs()...)
		require.Len(t, runs, 1)
		require.Equal(t, id, runs[0].ID)
		f.succeed(runs...)
	}
}

// Another transaction holds the row of a run, and with it the key of its job: to try the key would be to wait for it.
func TestALockedRunOfOneJobHoldsUpNoFireOfAnother(t *testing.T) {
	f := newTables(t)
	_, e := f.AddExclusive("SKIP", 10)
	_, other := f.AddExclusive("QUEUE", 10)
	who := f.Join("n1")
	first := f.claim(who, 1, e)
	require.Len(t, first.Runs, 1)
	defer f.Holding(`DELETE FROM QRTZ_RUN WHERE ID = ?`, first.Runs[0].ID)()
	began := time.Now()
	won := f.claim(who, 1, e, other)
	require.Len(t, won.Runs, 1)
	require.Equal(t, other, won.Runs[0].ExecuteID)
	require.Len(t, won.Skipped, 1)
	require.Less(t, time.Since(began), time.Second, "a lock was waited for")
}

// What is skipped is told with its row, its names and its time, whichever schedule of the job it belongs to.
func TestWhatIsSkippedFromAQueueIsNamed(t *testing.T) {
	f := newTables(t)
	job, daily := f.AddExclusive("QUEUE", 1)
	f.Exec(`UPDATE QRTZ_JOB SET NAME = 'report' WHERE ID = ?`, job)
	f.Exec(`UPDATE QRTZ_EXECUTE SET NAME = 'daily', JOB_TYPE = 'CRON', CRON = '* * * * * ?', ZONE_ID = 'Asia/Tokyo' WHERE ID = ?`, daily)
	other := f.AddTo(job)
	f.Exec(`UPDATE QRTZ_EXECUTE SET NAME = 'other', START_TIME = ?, NEXT_FIRE_TIME = ? WHERE ID = ?`, past.UnixMilli(), past.UnixMilli()+60_000, other)
	who := f.Join("n1")
	f.claim(who, 2, daily)
	skipped := f.claim(who, 1, other).Skipped
	require.Len(t, skipped, 1)
	one := skipped[0]
	require.Equal(t, []string{"report", "daily"}, []string{one.Job, one.Schedule})
	require.Equal(t, daily, one.ExecuteID)
	require.Equal(t, past.Add(time.Second).UnixMilli(), one.FireTime.UnixMilli())
	require.Equal(t, "Asia/Tokyo", one.FireTime.Location().String())
	require.Equal(t, "SKIPPED", f.RunState(one.RunID))
}
