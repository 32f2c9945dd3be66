package run

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A packet locks whole rows: runs with much data are claimed one by one, those with little together.
func TestAClaimOfPendingRunsLocksLittleData(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	var light, heavy []int64
	for range 6 {
		heavy = append(heavy, f.AddPending())
		light = append(light, f.AddPending())
	}
	for _, id := range heavy {
		f.Exec(`UPDATE QRTZ_RUN SET JOB_DATA = CONCAT('"', REPEAT('x', 3000000), '"') WHERE ID = ?`, id)
	}
	claimAll := func(ids []int64) {
		for claimed := 0; claimed < len(ids); {
			got, err := f.store.ClaimPending(t.Context(), who, f.pending(ids...))
			require.NoError(t, err)
			require.NotEmpty(t, got.Runs)
			claimed += len(got.Runs)
		}
	}
	tokens := func() int64 {
		return f.Count(`SELECT COUNT(DISTINCT CLAIM_TOKEN) FROM QRTZ_RUN WHERE CLAIM_TOKEN IS NOT NULL`)
	}
	claimAll(light)
	require.EqualValues(t, 1, tokens(), "one packet for all")
	claimAll(heavy)
	require.EqualValues(t, 1+6, tokens(), "a packet each")
}

// So are the ends of runs: each statement that takes a run back, or ends it, has little data under its locks.
func TestWhatEndsRunsLocksLittleData(t *testing.T) {
	f := newTables(t)
	f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	who := f.Join("n1")
	db, counter := f.OpenWithFaults()
	store := newStore(db)
	claimed := func() (runs []Run) {
		t.Helper()
		f.Exec(`DELETE FROM QRTZ_RUN`)
		for range 6 {
			f.Exec(`UPDATE QRTZ_RUN SET JOB_DATA = CONCAT('"', REPEAT('x', 3000000), '"') WHERE ID = ?`, f.AddPending())
			f.AddPending()
		}
		for len(runs) < 12 {
			more := f.claimPending(who, f.IDs(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'PENDING'`)...)
			require.NotEmpty(t, more)
			runs = append(runs, more...)
		}
		return runs
	}
	for name, end := range map[string]func(runs []Run) error{
		"results": func(runs []Run) error {
			var results []Result
			for _, r := range runs {
				results = append(results, Result{Run: r, State: Succeeded, Progress: -1})
			}
			_, err := store.Complete(t.Context(), results)
			return err
		},
		"a hand-back": func(runs []Run) error {
			_, err := store.HandBack(t.Context(), runs)
			return err
		},
		"a hand-back of a claim in doubt": func(runs []Run) error {
			var pending []PendingRun
			for _, r := range runs {
				pending = append(pending, PendingRun{ID: r.ID, fence: r.Fence, token: r.Token, ownData: r.ownData})
			}
			_, err := store.HandBackPending(t.Context(), who, pending)
			return err
		},
		"the death of their node": func([]Run) error {
			lost, err := store.Lose(t.Context(), who.ID, "its node died")
			require.Len(t, lost, 12)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			runs := claimed()
			counter.Updates.Store(0)
			require.NoError(t, end(runs))
			require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
			require.GreaterOrEqual(t, counter.Updates.Load(), int64(6), "one for each run with much data")
		})
	}
}

func TestLightBatches(t *testing.T) {
	const much = packetData / 2
	var batches [][]int64
	for b := range light([]int64{1, much, much, 2, 3 * much, 1, 1, 1, 1}, 3, func(n int64) int64 { return n }) {
		batches = append(batches, b)
	}
	require.Equal(t, [][]int64{{1, much}, {much, 2}, {3 * much}, {1, 1, 1}, {1}}, batches)
}
