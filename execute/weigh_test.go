package execute

import (
	"testing"

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
			got, err := f.store.ClaimPending(t.Context(), who, f.pendingOf(f.store, ids...))
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
