package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

func TestOnlyItsInstanceHandsARunBack(t *testing.T) {
	f := newTables(t)
	who, other := f.Join("n1"), f.Join("n2")
	r := f.claim(who, 1, f.Add()).Runs[0]
	others, earlier := r, r
	others.Instance = other.ID
	earlier.Token++
	f.handBack(others)
	f.handBack(earlier)
	require.Equal(t, "RUNNING", f.RunState(r.ID), "neither does an earlier claim of its own")
	f.handBack()
	f.handBack(r, Run{ID: 12345})
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND INSTANCE IS NULL AND HOST_IP IS NULL AND CLAIMED_AT IS NULL`))
}

// One locked row keeps no other run from being handed back.
func TestALockedRunIsHandedBackLater(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	runs := f.claim(who, 1, f.AddMany(3)...).Runs
	operator := f.MustBegin()
	defer func() { _ = operator.Rollback() }()
	operator.MustExec(`UPDATE QRTZ_RUN SET MESSAGE = 'x' WHERE ID = ?`, runs[1].ID)
	again, err := f.store.HandBack(t.Context(), append(runs, Run{ID: 12345, Token: 1}))
	require.NoError(t, err)
	require.Equal(t, runs[1:2], again)
	require.Len(t, f.PendingIDs(), 2)
	inDoubt := []PendingRun{{ID: runs[0].ID, fence: runs[0].Fence + 1}, {ID: runs[1].ID, token: runs[1].Token, fence: runs[1].Fence}}
	left, err := f.store.HandBackPending(t.Context(), who, inDoubt)
	require.NoError(t, err)
	require.Equal(t, inDoubt[1:], left)
	require.NoError(t, operator.Rollback())
	f.handBack(again...)
	require.Len(t, f.PendingIDs(), 3)
}

func TestAPendingRunWhoseClaimGotNoAnswerIsHandedBack(t *testing.T) {
	f := newTables(t)
	db, faults := f.OpenWithFaults()
	store := newStore(db)
	who, run := f.Join("n1"), f.AddPending()
	faults.LoseAnswer.Store(1)
	claimed, err := store.ClaimPending(t.Context(), who, f.pending(run))
	require.ErrorIs(t, err, schema.ErrCommitUnknown)
	require.Empty(t, claimed.Runs)
	require.Equal(t, "RUNNING", f.RunState(run))
	f.handBackPending(who, claimed.InDoubt...)
	require.Equal(t, "PENDING", f.RunState(run))
	again := f.claimPending(who, run)
	require.Len(t, again, 1)
	f.handBackPending(who, claimed.InDoubt...)
	require.Equal(t, "RUNNING", f.RunState(run), "a hand-back that is made again leaves a later claim of the same instance alone")
}

func TestARunWithoutARowIsHandedBack(t *testing.T) {
	f := newTables(t)
	f.Exec(`UPDATE QRTZ_JOB SET HISTORY = 'NONE'`)
	won := []Run{{JobID: f.Job, ExecuteID: f.Add(), FireTime: at(1)}, {JobID: f.Job, ExecuteID: f.Add(), FireTime: at(2)}}
	require.NoError(t, f.store.LeaveForOthers(t.Context(), won))
	require.NoError(t, f.store.LeaveForOthers(t.Context(), nil))
	again := f.claimPending(f.Join("n2"), f.PendingIDs()...)
	require.Len(t, again, 2)
	for i := range again {
		require.Equal(t, won[i].FireTime.UnixMilli(), again[i].FireTime.UnixMilli())
		require.Equal(t, won[i].ExecuteID, again[i].ExecuteID)
		require.Greater(t, again[i].Fence, won[i].Fence)
	}
	f.succeed(again...)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// A claim in doubt may still be under way when it is given up. It then wins nothing.
func TestAClaimThatArrivesAfterItWasGivenUpWinsNothing(t *testing.T) {
	f := newTables(t)
	who, pending := f.Join("n1"), f.pending(f.AddPending())
	f.handBackPending(who, pending...)
	claimed, err := f.store.ClaimPending(t.Context(), who, pending)
	require.NoError(t, err)
	require.Empty(t, claimed.Runs)
	require.Len(t, f.claimPending(who, f.PendingIDs()...), 1)
}
