package execute

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/run"

	"github.com/stretchr/testify/require"
)

// pending adds a run asked for by hand.
func (f *tables) pending() int64 {
	f.t.Helper()
	return f.id(f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME) VALUES ('a', ?, ?)`, f.job, noon.UnixMilli()))
}

func TestWaitingRuns(t *testing.T) {
	f := newTables(t)
	later, now := f.pending(), f.pending()
	f.exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = ? WHERE ID = ?`, at(10).UnixMilli(), later)
	f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME) VALUES ('a', ?, 0), ('b', ?, 0)`, f.addJob("other"), f.job)
	waiting := func(until time.Time, limit int, classes ...string) (ids []int64) {
		all, err := f.store.runs.Pending(t.Context(), classes, until, limit)
		require.NoError(t, err)
		for _, w := range all {
			require.Equal(t, "tick", w.Class)
			ids = append(ids, w.ID)
		}
		return ids
	}
	require.Equal(t, []int64{now}, waiting(at(9), 10, "tick"))
	require.Equal(t, []int64{now, later}, waiting(at(10), 10, "tick"))
	require.Equal(t, []int64{now}, waiting(at(10), 1, "tick"))
	require.Empty(t, waiting(at(10), 10))
}

func TestAPendingRunIsClaimedOnce(t *testing.T) {
	const instances, n = 6, 100
	f := newTables(t)
	var ids []int64
	for range n {
		ids = append(ids, f.pending())
	}
	pending := f.pendingOf(f.store, ids...)
	var mu sync.Mutex
	winners := map[int64]int64{}
	var racers sync.WaitGroup
	for range instances {
		who := f.join(string(rune('a' + f.last.Load())))
		racers.Go(func() {
			for i := 0; i < n; i += 20 {
				claimed, err := f.store.runs.ClaimPending(context.Background(), who, pending[i:i+20])
				if !noError(t, err) {
					return
				}
				mu.Lock()
				for _, r := range claimed.Runs {
					if other, ok := winners[r.ID]; ok {
						t.Errorf("run %d was won by %d and %d", r.ID, other, who.ID)
					}
					winners[r.ID] = who.ID
				}
				mu.Unlock()
			}
		})
	}
	racers.Wait()
	require.Len(t, winners, n)
	for id, instance := range winners {
		require.Equal(t, instance, f.count(`SELECT INSTANCE FROM QRTZ_RUN WHERE ID = ? AND STATE = 'RUNNING' AND CLAIMED_AT IS NOT NULL`, id))
	}
}

func TestAClaimOfAPendingRunRaisesTheFence(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	first := f.claim(who, 1, f.read(f.add())).Runs[0]
	f.handBack(f.store, []run.Run{first})
	f.exec(`UPDATE QRTZ_EXECUTE SET CHANGED_AT = '2020-01-01'`)
	again := f.claimWaiting(f.join("n2"), first.ID)
	require.Len(t, again, 1)
	require.Greater(t, again[0].Fence, first.Fence)
	require.Equal(t, first.FireTime.UnixMilli(), again[0].FireTime.UnixMilli())
	require.Equal(t, []byte(`{"n":1}`), again[0].Data)
	require.Equal(t, "2020", f.text(`SELECT CAST(YEAR(CHANGED_AT) AS CHAR) FROM QRTZ_EXECUTE`), "a claim is no change")
	next := f.claim(who, 1, f.due(at(5))...)
	require.Greater(t, next.Runs[0].Fence, again[0].Fence)
}

func TestOnlyItsInstanceHandsARunBack(t *testing.T) {
	f := newTables(t)
	who, other := f.join("n1"), f.join("n2")
	r := f.claim(who, 1, f.read(f.add())).Runs[0]
	others, earlier := r, r
	others.Instance = other.ID
	earlier.Token++
	f.handBack(f.store, []run.Run{others})
	f.handBack(f.store, []run.Run{earlier})
	require.Equal(t, "RUNNING", f.runState(r.ID), "neither does an earlier claim of its own")
	f.handBack(f.store, nil)
	f.handBack(f.store, []run.Run{r, {ID: 12345}})
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND INSTANCE IS NULL AND HOST_IP IS NULL AND CLAIMED_AT IS NULL`))
}

func TestOnlyItsInstanceWritesAResult(t *testing.T) {
	f := newTables(t)
	who, other := f.join("n1"), f.join("n2")
	f.addMany(4)
	runs := f.claim(who, 1, f.due(noon)...).Runs
	result := func(r run.Run, instance int64, state run.State, message string) run.Result {
		r.Instance = instance
		return run.Result{Run: r, State: state, Started: at(1), Finished: at(2), Message: message}
	}
	f.exec(`UPDATE QRTZ_RUN SET STATE = 'LOST' WHERE ID = ?`, runs[2].ID)
	late, err := f.store.runs.Complete(t.Context(), []run.Result{
		result(runs[3], who.ID, run.Failed, "no paper"),
		result(runs[2], who.ID, run.Succeeded, ""),
		result(runs[1], other.ID, run.Succeeded, ""),
		result(runs[0], who.ID, run.Succeeded, ""),
	})
	require.NoError(t, err)
	require.Equal(t, 2, late.Late)
	for i, state := range []string{"SUCCEEDED", "RUNNING", "LOST", "FAILED"} {
		require.Equal(t, state, f.runState(runs[i].ID))
	}
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE MESSAGE = 'no paper' AND STARTED_AT = ? AND FINISHED_AT = ?`,
		at(1).UnixMilli(), at(2).UnixMilli()))
	late, err = f.store.runs.Complete(t.Context(), []run.Result{result(runs[0], who.ID, run.Failed, "twice")})
	require.NoError(t, err)
	require.Equal(t, 1, late.Late)
	require.Equal(t, "SUCCEEDED", f.runState(runs[0].ID))
}

func TestRunsOfAnInstanceThatIsGoneAreLost(t *testing.T) {
	f := newTables(t)
	gone, here := f.join("n1"), f.join("n2")
	lost := f.claim(gone, 2, f.read(f.add())).Runs
	kept := f.claim(here, 1, f.read(f.add())).Runs[0]
	abandoned := func() []int64 {
		ids, err := f.store.runs.Abandoned(t.Context())
		require.NoError(t, err)
		return ids
	}
	require.Empty(t, abandoned())
	f.join("n1") // the same node, in a new life
	require.Equal(t, []int64{gone.ID}, abandoned())

	gotLost, err := f.store.runs.Lose(t.Context(), gone.ID, "its node died")
	require.NoError(t, err)
	require.Len(t, gotLost, 2)
	require.Equal(t, run.LostRun{
		ID: lost[0].ID, JobID: f.job, ExecuteID: num(lost[0].ExecuteID), Class: "tick", Fire: lost[0].FireTime.UnixMilli(), Attempt: 1, Node: "n1",
	}, gotLost[0])
	require.Empty(t, abandoned())
	require.Equal(t, "RUNNING", f.runState(kept.ID))
	require.Equal(t, int64(2), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'LOST' AND MESSAGE = 'its node died' AND FINISHED_AT IS NOT NULL`))
	late, err := f.store.runs.Complete(t.Context(), []run.Result{{Run: lost[0], State: run.Succeeded, Started: at(1), Finished: at(2)}})
	require.NoError(t, err)
	require.Equal(t, 1, late.Late, "a result after that changes nothing")
	f.handBack(f.store, lost[:1])
	require.Equal(t, "LOST", f.runState(lost[0].ID))
}

// Lists go by the time at which a run was available; one that somebody asked for by SQL has none until it is claimed.
func TestARunAskedForBySQLGetsItsTimesWithTheClaim(t *testing.T) {
	f := newTables(t)
	given := f.pending()
	f.exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = FIRE_TIME`)
	left := f.id(f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID) VALUES ('a', ?)`, f.job))
	none := f.id(f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT) VALUES ('a', ?, -1, -1)`, f.job))
	claimed, err := f.store.runs.ClaimPending(t.Context(), f.join("n1"), f.pendingOf(f.store, given, left, none))
	require.NoError(t, err)
	require.Len(t, claimed.Runs, 3)
	for _, id := range []int64{left, none} {
		require.Equal(t, "yes", f.text(`SELECT IF(CLAIMED_AT - AVAILABLE_AT BETWEEN 0 AND 1000 AND CLAIMED_AT - FIRE_TIME BETWEEN 0 AND 1000, 'yes', 'no') FROM QRTZ_RUN WHERE ID = ?`, id))
	}
	require.Equal(t, noon.UnixMilli(), f.count(`SELECT AVAILABLE_AT FROM QRTZ_RUN WHERE ID = ?`, given))
}
