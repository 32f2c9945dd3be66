package execute

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

func TestAClaimWhoseCommitGotNoAnswerIsHandedBackOnce(t *testing.T) {
	for name, committed := range map[string]bool{"it did commit": true, "it did not": false} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			db, faults := f.OpenWithFaults()
			store := newStore(db)
			f.AddMany(3)
			who := f.Join("n1")
			moves := claims(f.due(noon), 2)
			if committed {
				faults.LoseAnswer.Store(1)
			} else {
				faults.Refuse.Store(1)
			}
			won, err := store.Claim(t.Context(), who, moves)
			require.ErrorIs(t, err, schema.ErrCommitUnknown)
			require.Empty(t, won.Runs)
			require.Len(t, won.InDoubt, len(moves))

			other := f.Join("n2")
			if committed {
				_, err = store.HandBackFires(t.Context(), other, tokenOf(moves, 1))
				require.NoError(t, err, "another claim does not")
			}
			pending := `SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND INSTANCE IS NULL AND HOST_IP IS NULL`
			require.Zero(t, f.Count(pending))
			f.handBackFires(store, who, moves)
			if !committed {
				require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
				require.Len(t, f.claim(other, 2, f.due(noon)...).Runs, 6, "the fires are free")
				return
			}
			require.Equal(t, int64(6), f.Count(pending))
			require.Len(t, f.claimPending(other, f.PendingIDs()...), 6)
			f.handBackFires(store, who, moves)
			require.Equal(t, int64(6), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND INSTANCE = ?`, other.ID), "once is enough")
		})
	}
}

// A claim in doubt that did not commit may have been won by others meanwhile. To give it up changes nothing of theirs.
func TestGivingUpAClaimLeavesLaterOnesAlone(t *testing.T) {
	f := newTables(t)
	db, faults := f.OpenWithFaults()
	store := newStore(db)
	f.AddMany(3)
	f.claim(f.Join("n3"), 1, f.due(noon)[1:]...) // so that two have a token before the claim in doubt, and one has none
	who, other := f.Join("n1"), f.Join("n2")
	due := f.due(at(5))
	moves := claims(due, 1)
	faults.Refuse.Store(1)
	_, err := store.Claim(t.Context(), who, moves)
	require.ErrorIs(t, err, schema.ErrCommitUnknown)
	late := slices.Clone(moves)
	planned := f.claim(other, 1, due[:2]...).Moved
	require.Len(t, planned, 2)
	f.handBackFires(store, who, moves)
	f.handBackFires(store, who, moves)
	require.Len(t, f.claim(other, 1, planned...).Runs, 2, "their next fires, as they expect them")
	update, args := store.guardedUpdate(claiming(who), late[2].token, "", late)
	f.Exec(update, args...)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE CLAIM_TOKEN = ?`, late[2].token), "the claim in doubt arrives too late for any")
}

// With HistoryNone a fire leaves no row. It is told by its claim's token, and handed back once.
func TestAClaimWithoutRowsWhoseCommitGotNoAnswer(t *testing.T) {
	for name, committed := range map[string]bool{"it did commit": true, "it did not": false} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			db, faults := f.OpenWithFaults()
			store := newStore(db)
			f.Exec(`UPDATE QRTZ_JOB SET HISTORY = 'NONE'`)
			f.AddMany(2)
			who := f.Join("n1")
			moves := claims(f.due(noon), 2)
			if committed {
				faults.LoseAnswer.Store(1)
			} else {
				faults.Refuse.Store(1)
			}
			_, err := store.Claim(t.Context(), who, moves)
			require.ErrorIs(t, err, schema.ErrCommitUnknown)
			require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
			f.handBackFires(store, who, moves)
			if !committed {
				require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
				require.Len(t, f.claim(who, 2, f.due(noon)...).Runs, 4)
				return
			}
			runs := f.claimPending(who, f.PendingIDs()...)
			require.Len(t, runs, 4)
			f.succeed(runs...)
			f.handBackFires(store, who, moves)
			require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`), "once is enough")
		})
	}
}

// tokenOf are moves as another attempt would have tried them.
func tokenOf(moves []Move, token int64) []Move {
	other := slices.Clone(moves)
	for i := range other {
		other[i].token = token
	}
	return other
}

func TestALockedRunKeepsNoOtherFireFromBeingHandedBack(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	f.AddMany(5)
	moves := claims(f.due(noon), 2)
	won, err := f.store.Claim(t.Context(), who, moves)
	require.NoError(t, err)
	require.Len(t, won.Runs, 10)
	release := f.Holding(`UPDATE QRTZ_RUN SET MESSAGE = 'x' WHERE ID = ?`, won.Runs[2].ID)
	again, err := f.store.HandBackFires(t.Context(), who, moves)
	require.NoError(t, err)
	require.Len(t, again, 1)
	require.Equal(t, won.Runs[2].ExecuteID, again[0].Execute.ID)
	require.Equal(t, int64(8), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
	release()
	f.handBackFires(f.store, who, again)
	require.Equal(t, int64(10), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
}

// A claim in doubt may still be under way when it is given up. It then wins nothing.
func TestAClaimThatArrivesAfterItWasGivenUpWinsNothing(t *testing.T) {
	f := newTables(t)
	f.AddMany(3)
	who := f.Join("n1")
	moves := claims(f.due(noon), 1)
	f.handBackFires(f.store, who, moves)
	won, err := f.store.Claim(t.Context(), who, moves)
	require.NoError(t, err)
	require.Empty(t, won.Moved)
	require.Len(t, f.claim(who, 1, f.due(noon)...).Runs, 3, "read again, they are free")
}
