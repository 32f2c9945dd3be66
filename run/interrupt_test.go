package run

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// interruptedNow is the result of a run whose node stops.
func interruptedNow(r Run) Result {
	return Result{Run: r, Started: at(1), Finished: at(2), Progress: -1}.Interrupt("context canceled", at(3))
}

func TestAnInterruptedRunIsHandedOnByTheNodeThatStops(t *testing.T) {
	for name, c := range map[string]struct {
		job  string
		runs int // of an interrupted run that is interrupted again and again
	}{
		"with recovery":           {`RECOVERY = 1`, 6},
		"with attempts":           {`ATTEMPTS = 2`, 6},
		"exclusive":               {`RECOVERY = 1, OVERLAP = 'SKIP'`, 6},
		"with neither":            {`RECOVERY = 0`, 1},
		"of which nothing stays":  {`RECOVERY = 1, HISTORY = 'NONE'`, 0},
		"of which failures stay":  {`RECOVERY = 1, HISTORY = 'FAILED'`, 6},
		"with neither, exclusive": {`OVERLAP = 'QUEUE'`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.Exec(`UPDATE QRTZ_JOB SET ` + c.job)
			r := f.claim(f.Join("n1"), 1, f.Add()).Runs[0]
			for {
				done, err := f.store.Complete(t.Context(), []Result{interruptedNow(r)})
				require.NoError(t, err)
				require.Equal(t, Completed{}, done)
				ids := f.PendingIDs()
				if len(ids) == 0 {
					break
				}
				require.Len(t, ids, 1)
				require.Equal(t, at(3).UnixMilli(), f.Count(`SELECT AVAILABLE_AT FROM QRTZ_RUN WHERE ID = ?`, ids[0]), "at once, without a backoff")
				next := f.claimPending(f.Join("n2"), ids...)[0]
				require.Equal(t, r.ID, next.Recovers)
				require.Equal(t, r.Attempt+1, next.Attempt)
				require.Equal(t, r.Recovered+1, next.Recovered)
				require.Equal(t, 1, next.Spent(), "no attempt has been spent")
				require.Equal(t, r.FireTime.UnixMilli(), next.FireTime.UnixMilli())
				r = next
			}
			require.Equal(t, int64(c.runs), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN
				WHERE STATE = 'LOST' AND OVERLAP_KEY IS NULL AND MESSAGE LIKE 'interrupted: its node stopped before it had ended: context canceled%'`))
			require.Equal(t, int64(c.runs), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
			require.Equal(t, c.runs == 6, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE MESSAGE LIKE '%(not handed on: it has been recovered%'`) == 1)
		})
	}
}

// The cancelling of a run that its node has not yet seen when it stops counts all the same.
func TestAnInterruptedRunThatWasToBeCancelledIsCancelled(t *testing.T) {
	f := newTables(t)
	f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	r := f.claim(f.Join("n1"), 1, f.Add()).Runs[0]
	f.Exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1`)
	_, err := f.store.Complete(t.Context(), []Result{interruptedNow(r)})
	require.NoError(t, err)
	require.Equal(t, "CANCELLED", f.RunState(r.ID))
	require.Empty(t, f.PendingIDs())
}

// What is LOST with its node has cost none of the attempts, whether the node died or stopped.
func TestOnlyFailuresSpendAttempts(t *testing.T) {
	f := newTables(t)
	f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1, ATTEMPTS = 3`)
	who := f.Join("n1")
	r := f.claim(who, 1, f.Add()).Runs[0]
	require.Equal(t, 1, r.Spent())
	next := func() Run { return f.claimPending(f.Join("n1"), f.PendingIDs()...)[0] }

	_, err := f.store.Lose(t.Context(), who.ID, "its node died")
	require.NoError(t, err)
	r = next()
	require.Equal(t, 1, r.Spent())

	_, err = f.store.Complete(t.Context(), []Result{failed(r, at(30))})
	require.NoError(t, err)
	r = next()
	require.Equal(t, 2, r.Spent())

	_, err = f.store.Complete(t.Context(), []Result{interruptedNow(r)})
	require.NoError(t, err)
	r = next()
	require.Equal(t, 2, r.Spent())
	require.Equal(t, 4, r.Attempt)
}
