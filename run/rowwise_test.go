package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALockedRunDelaysOnlyItsOwnResult(t *testing.T) {
	f := newTables(t)
	results := resultsOf(f.claim(f.Join("n1"), 1, f.AddMany(90)...).Runs)
	var locked []int64
	for _, r := range []Result{results[0], results[40], results[41]} {
		locked = append(locked, r.Run.ID)
	}
	end := f.Holding(`UPDATE QRTZ_RUN SET PROGRESS = 1 WHERE ID IN (?, ?, ?)`, locked[0], locked[1], locked[2])
	defer end()
	began := time.Now()
	done, err := f.store.Complete(t.Context(), results)
	require.NoError(t, err)
	require.Less(t, time.Since(began), 5*time.Second)
	require.Len(t, done.Locked, 3)
	require.Equal(t, int64(3), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
	began = time.Now()
	again, err := f.store.Complete(t.Context(), done.Locked)
	require.NoError(t, err)
	require.Len(t, again.Locked, 3)
	require.Less(t, time.Since(began), 500*time.Millisecond, "it looks before it waits")
	end()
	again, err = f.store.Complete(t.Context(), again.Locked)
	require.NoError(t, err)
	require.Empty(t, again.Locked)
	require.Zero(t, again.Late)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
}

// A lock on an entry of an index is on no row that could be skipped.
func TestALockedOverlapKeyDelaysFewResults(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	job, schedule := f.AddExclusive("QUEUE", 10)
	exclusive := f.claim(who, 1, schedule).Runs
	runs := append(exclusive, f.claim(who, 1, f.AddMany(60)...).Runs...)
	end := f.Holding(`INSERT IGNORE INTO QRTZ_RUN (APPLICATION, JOB_ID, OVERLAP_KEY) VALUES ('a', 999, ?)`, job)
	defer end()
	var results []Result
	for _, r := range runs {
		results = append(results, Result{Run: r, State: Succeeded, Progress: -1})
	}
	began := time.Now()
	done, err := f.store.Complete(t.Context(), results)
	require.NoError(t, err)
	require.Less(t, time.Since(began), 5*time.Second)
	require.NotEmpty(t, done.Locked)
	require.Equal(t, exclusive[0].ID, done.Locked[0].Run.ID)
	for range 5 {
		if len(done.Locked) == 1 {
			break
		}
		done, err = f.store.Complete(t.Context(), done.Locked)
		require.NoError(t, err)
	}
	require.Len(t, done.Locked, 1)
	end()
	done, err = f.store.Complete(t.Context(), done.Locked)
	require.NoError(t, err)
	require.Empty(t, done.Locked)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
}
