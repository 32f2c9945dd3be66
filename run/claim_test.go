package run

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/internal/tabletest"
)

func TestPendingReadsWhatIsAvailable(t *testing.T) {
	f := newTables(t)
	later, now := f.AddPending(), f.AddPending()
	f.Exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = ? WHERE ID = ?`, at(10).UnixMilli(), later)
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME) VALUES ('a', ?, 0), ('b', ?, 0)`, f.AddJob("other"), f.Job)
	pending := func(until time.Time, limit int, classes ...string) (ids []int64) {
		all, err := f.store.Pending(t.Context(), classes, until, limit)
		require.NoError(t, err)
		for _, w := range all {
			require.Equal(t, "tick", w.Class)
			ids = append(ids, w.ID)
		}
		return ids
	}
	require.Equal(t, []int64{now}, pending(at(9), 10, "tick"))
	require.Equal(t, []int64{now, later}, pending(at(10), 10, "tick"))
	require.Equal(t, []int64{now}, pending(at(10), 1, "tick"))
	require.Empty(t, pending(at(10), 10))
}

func TestAPendingRunIsClaimedOnce(t *testing.T) {
	const instances, n = 6, 100
	f := newTables(t)
	var ids []int64
	for range n {
		ids = append(ids, f.AddPending())
	}
	pending := f.pending(ids...)
	var mu sync.Mutex
	winners := map[int64]int64{}
	var racers sync.WaitGroup
	for range instances {
		who := f.JoinAnother()
		racers.Go(func() {
			for i := 0; i < n; i += 20 {
				claimed, err := f.store.ClaimPending(context.Background(), who, pending[i:i+20])
				if !assert.NoError(t, err) {
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
		require.Equal(t, instance, f.Count(`SELECT INSTANCE FROM QRTZ_RUN WHERE ID = ? AND STATE = 'RUNNING' AND CLAIMED_AT IS NOT NULL`, id))
	}
}

func TestAClaimOfAPendingRunRaisesTheFence(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	first := f.claim(who, 1, f.Add()).Runs[0]
	f.handBack(first)
	f.Exec(`UPDATE QRTZ_EXECUTE SET CHANGED_AT = '2020-01-01'`)
	again := f.claimPending(f.Join("n2"), first.ID)
	require.Len(t, again, 1)
	require.Greater(t, again[0].Fence, first.Fence)
	require.Equal(t, first.FireTime.UnixMilli(), again[0].FireTime.UnixMilli())
	require.Equal(t, []byte(`{"n":1}`), again[0].Data)
	require.Equal(t, "2020", f.Text(`SELECT CAST(YEAR(CHANGED_AT) AS CHAR) FROM QRTZ_EXECUTE`), "a claim is no change")
	next := f.claim(who, 1, first.ExecuteID)
	require.Greater(t, next.Runs[0].Fence, again[0].Fence)
}

// Lists go by the time at which a run was available; one that a person asked for by SQL has none until it is claimed.
func TestARunAskedForBySQLGetsItsTimesWithTheClaim(t *testing.T) {
	f := newTables(t)
	given := f.AddPending()
	f.Exec(`UPDATE QRTZ_RUN SET AVAILABLE_AT = FIRE_TIME`)
	left := f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID) VALUES ('a', ?)`, f.Job)
	none := f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT) VALUES ('a', ?, -1, -1)`, f.Job)
	claimed, err := f.store.ClaimPending(t.Context(), f.Join("n1"), f.pending(given, left, none))
	require.NoError(t, err)
	require.Len(t, claimed.Runs, 3)
	for _, id := range []int64{left, none} {
		require.Equal(t, "yes", f.Text(`SELECT IF(CLAIMED_AT - AVAILABLE_AT BETWEEN 0 AND 1000 AND CLAIMED_AT - FIRE_TIME BETWEEN 0 AND 1000, 'yes', 'no') FROM QRTZ_RUN WHERE ID = ?`, id))
	}
	require.Equal(t, noon.UnixMilli(), f.Count(`SELECT AVAILABLE_AT FROM QRTZ_RUN WHERE ID = ?`, given))
}

func TestAPendingRunIsNotClaimedWhenOff(t *testing.T) {
	for _, off := range []string{tabletest.NodeOff, tabletest.AppOff, `UPDATE QRTZ_NODE SET INSTANCE = 77 WHERE HOST_IP = 'n1'`} {
		f := newTables(t)
		who := f.Join("n1")
		run := f.AddPending()
		f.Exec(off)
		runs, err := f.store.ClaimPending(t.Context(), who, f.pending(run))
		require.NoError(t, err)
		require.Empty(t, runs.Runs)
		require.Equal(t, "PENDING", f.RunState(run))
	}
}

// Promise 4, for pending runs: a claim waits for a switch that is being thrown, and claims nothing once it is.
func TestAClaimOfPendingRunsWaitsForASwitch(t *testing.T) {
	for _, off := range []string{tabletest.NodeOff, tabletest.AppOff} {
		f := newTables(t)
		who := f.Join("n1")
		run := f.AddPending()
		pending := f.pending(run)
		end := f.Holding(off)
		type outcome struct {
			claimed Claimed
			err     error
		}
		done := make(chan outcome, 1)
		go func() {
			claimed, err := f.store.ClaimPending(context.Background(), who, pending)
			done <- outcome{claimed, err}
		}()
		select {
		case o := <-done:
			require.Error(t, o.err, "it may give up waiting")
			require.Empty(t, o.claimed.Runs, off)
		case <-time.After(300 * time.Millisecond):
		}
		require.Equal(t, "PENDING", f.RunState(run), off)
		end()
	}
}

func TestALockedPendingRunIsLeftForTheNextClaim(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	won := f.claim(who, 1, f.AddMany(5)...)
	f.handBack(won.Runs...)
	operator := f.MustBegin()
	defer func() { _ = operator.Rollback() }()
	operator.MustExec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE ID = ?`, won.Runs[1].ExecuteID)
	operator.MustExec(`UPDATE QRTZ_RUN SET MESSAGE = 'x' WHERE ID = ?`, won.Runs[3].ID)
	began := time.Now()
	require.Len(t, f.claimPending(who, f.PendingIDs()...), 3)
	require.Less(t, time.Since(began), time.Second)
	require.NoError(t, operator.Rollback())
	require.Len(t, f.claimPending(who, f.PendingIDs()...), 2)
}

// Nor does one that is to be cancelled hold up others while another transaction has it locked.
func TestALockedCancelledRunHoldsUpNoClaim(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	locked, cancelled, other := f.AddPending(), f.AddPending(), f.AddPending()
	f.Exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1 WHERE ID IN (?, ?)`, locked, cancelled)
	operator := f.MustBegin()
	defer func() { _ = operator.Rollback() }()
	operator.MustExec(`UPDATE QRTZ_RUN SET MESSAGE = 'x' WHERE ID = ?`, locked)
	began := time.Now()
	require.Len(t, f.claimPending(who, locked, cancelled, other), 1)
	require.Less(t, time.Since(began), time.Second)
	require.Equal(t, "CANCELLED", f.RunState(cancelled))
	require.NoError(t, operator.Rollback())
	require.Empty(t, f.claimPending(who, locked))
	require.Equal(t, "CANCELLED", f.RunState(locked))
}

// What the server refuses for the sake of one pending run costs the others nothing.
func TestAPendingRunThatCannotBeClaimedStandsAlone(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	var ids []int64
	for range 20 {
		ids = append(ids, f.AddPending())
	}
	f.Exec(fmt.Sprintf(`CREATE TRIGGER NOT_THAT BEFORE UPDATE ON QRTZ_RUN FOR EACH ROW
		IF NEW.ID = %d AND NEW.STATE = 'RUNNING' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not that'; END IF`, ids[13]))
	claimed, err := f.store.ClaimPending(t.Context(), who, f.pending(ids...))
	require.NoError(t, err)
	require.Len(t, claimed.Runs, 19)
	require.Len(t, claimed.Refused, 1)
	require.Equal(t, ids[13], f.Count(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'FAILED' AND MESSAGE LIKE '%not that%'`))
}

func TestFencesGrowWithoutASchedule(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	first := f.claimPending(who, f.asked(""))[0]
	f.handBack(first)
	second := f.claimPending(who, first.ID)[0]
	require.Greater(t, second.Fence, first.Fence)
	_, err := f.store.Complete(t.Context(), []Result{failed(second, noon)})
	require.NoError(t, err)
	third := f.claimPending(who, f.PendingIDs()...)[0]
	require.Equal(t, 2, third.Attempt)
	require.Greater(t, third.Fence, second.Fence)
}

func TestCountersOfRunsStayWhereTheirColumnsEnd(t *testing.T) {
	f := newTables(t)
	testdb.DropChecks(t, f.DB.DB)
	who := f.Join("n1")
	for _, id := range []int64{f.AddPending(), f.AddPending()} {
		f.Exec(`UPDATE QRTZ_RUN SET FENCE = 9223372036854775807, ATTEMPT = 2147483647 WHERE ID = ?`, id)
	}
	runs := f.claimPending(who, f.PendingIDs()...)
	require.Len(t, runs, 2)
	f.handBack(runs...)
	require.Len(t, f.PendingIDs(), 2)
}
