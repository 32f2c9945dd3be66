package execute

import (
	"testing"

	"github.com/qrtz-go/qrtz/run"

	"github.com/stretchr/testify/require"
)

// A packet locks whole rows: runs with much data are claimed one by one, those with little together.
func TestAClaimOfPendingRunsLocksLittleData(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	var light, heavy []int64
	for range 6 {
		heavy = append(heavy, f.pending())
		light = append(light, f.pending())
	}
	for _, id := range heavy {
		f.exec(`UPDATE QRTZ_RUN SET JOB_DATA = CONCAT('"', REPEAT('x', 3000000), '"') WHERE ID = ?`, id)
	}
	claimAll := func(ids []int64) {
		for claimed := 0; claimed < len(ids); {
			got, err := f.store.runs.ClaimPending(t.Context(), who, f.pendingOf(f.store, ids...))
			require.NoError(t, err)
			require.NotEmpty(t, got.Runs)
			claimed += len(got.Runs)
		}
	}
	tokens := func() int64 {
		return f.count(`SELECT COUNT(DISTINCT CLAIM_TOKEN) FROM QRTZ_RUN WHERE CLAIM_TOKEN IS NOT NULL`)
	}
	claimAll(light)
	require.EqualValues(t, 1, tokens(), "one packet for all")
	claimAll(heavy)
	require.EqualValues(t, 1+6, tokens(), "a packet each")
}

// So are the ends of runs: each statement that takes a run back, or ends it, has little data under its locks.
func TestWhatEndsRunsLocksLittleData(t *testing.T) {
	f := newTables(t)
	f.exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	who := f.join("n1")
	db, counter := f.openWithFaults()
	store := newStore(db)
	claimed := func() (runs []run.Run) {
		t.Helper()
		f.exec(`DELETE FROM QRTZ_RUN`)
		for range 6 {
			f.exec(`UPDATE QRTZ_RUN SET JOB_DATA = CONCAT('"', REPEAT('x', 3000000), '"') WHERE ID = ?`, f.pending())
			f.pending()
		}
		for len(runs) < 12 {
			more := f.claimWaiting(who, f.ids(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'PENDING'`)...)
			require.NotEmpty(t, more)
			runs = append(runs, more...)
		}
		return runs
	}
	for name, end := range map[string]func(runs []run.Run) error{
		"results": func(runs []run.Run) error {
			var results []run.Result
			for _, r := range runs {
				results = append(results, run.Result{Run: r, State: run.Succeeded, Progress: -1})
			}
			_, err := store.runs.Complete(t.Context(), results)
			return err
		},
		"a hand-back": func(runs []run.Run) error {
			_, err := store.runs.HandBack(t.Context(), runs)
			return err
		},
		"a hand-back of a claim in doubt": func(runs []run.Run) error {
			var pending []run.PendingRun
			for _, r := range runs {
				pending = append(pending, run.PendingRun{ID: r.ID, Fence: r.Fence, Token: r.Token, OwnData: r.OwnData})
			}
			_, err := store.runs.HandBackPending(t.Context(), who, pending)
			return err
		},
		"a burial": func([]run.Run) error {
			lost, err := store.runs.Lose(t.Context(), who.ID, "its node died")
			require.Len(t, lost, 12)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			runs := claimed()
			counter.updates.Store(0)
			require.NoError(t, end(runs))
			require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
			require.GreaterOrEqual(t, counter.updates.Load(), int64(6), "one for each run with much data")
		})
	}
}

func TestLightBatches(t *testing.T) {
	const much = run.PacketData / 2
	var batches [][]int64
	for b := range run.Light([]int64{1, much, much, 2, 3 * much, 1, 1, 1, 1}, 3, func(n int64) int64 { return n }) {
		batches = append(batches, b)
	}
	require.Equal(t, [][]int64{{1, much}, {much, 2}, {3 * much}, {1, 1, 1}, {1}}, batches)
}
