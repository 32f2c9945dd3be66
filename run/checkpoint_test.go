package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/node"
)

// Whatever ends an attempt, the next one has what it saved.
func TestACheckpointGoesToTheNextAttempt(t *testing.T) {
	saved := `{"page":7,"of":"` + strings.Repeat("ä", 30_000) + `"}`
	for name, end := range map[string]func(*tables, node.Instance, Run){
		"a retry": func(f *tables, _ node.Instance, r Run) {
			_, err := f.store.Complete(f.T.Context(), []Result{failed(r, at(30))})
			require.NoError(f.T, err)
		},
		"a recovery": func(f *tables, who node.Instance, _ Run) {
			_, err := f.store.Lose(f.T.Context(), who.ID, "its node died")
			require.NoError(f.T, err)
		},
		"an interruption": func(f *tables, _ node.Instance, r Run) {
			_, err := f.store.Complete(f.T.Context(), []Result{interruptedNow(r)})
			require.NoError(f.T, err)
		},
		"by request": func(f *tables, _ node.Instance, r Run) {
			_, err := f.store.Complete(f.T.Context(), []Result{{Run: r, State: Failed, Started: at(1), Finished: at(2), Progress: -1}})
			require.NoError(f.T, err)
			tx, err := f.Beginx()
			require.NoError(f.T, err)
			_, err = f.store.Retry(f.T.Context(), tx, at(30), r.ID)
			require.NoError(f.T, err)
			require.NoError(f.T, tx.Commit())
		},
		"a hand-back": func(f *tables, _ node.Instance, r Run) { f.handBack(r) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
			who := f.Join("n1")
			r := f.claim(who, 1, f.Add()).Runs[0]
			require.Zero(t, r.Saved)
			found, err := f.store.Load(t.Context(), r)
			require.NoError(t, err)
			require.Nil(t, found)
			for range 2 { // what is the same already is saved, too
				require.NoError(t, f.store.Save(t.Context(), r, []byte(saved)))
			}
			require.Equal(t, saved, f.Text(`SELECT CHECKPOINT FROM QRTZ_RUN WHERE ID = ?`, r.ID), "at once")
			end(f, who, r)
			next := f.claimPending(f.Join("n2"), f.PendingIDs()...)[0]
			require.Equal(t, int64(len(saved)), next.Saved)
			require.Equal(t, next.Saved, next.weight(), "it counts like data of its own")
			found, err = f.store.Load(t.Context(), next)
			require.NoError(t, err)
			require.Equal(t, saved, string(found))

			require.ErrorIs(t, f.store.Save(t.Context(), r, []byte(`{}`)), node.ErrFenced)
			_, err = f.store.Load(t.Context(), r)
			require.ErrorIs(t, err, node.ErrFenced)
			tx, err := f.Beginx()
			require.NoError(t, err)
			require.ErrorIs(t, f.store.SaveIn(t.Context(), tx.Tx, "n1", r, []byte(`{}`)), node.ErrFenced)
			require.NoError(t, f.store.SaveIn(t.Context(), tx.Tx, "n2", next, []byte(`{"page":8}`)))
			require.NoError(t, f.store.SaveIn(t.Context(), tx.Tx, "n2", next, []byte(`{"page":8}`)))
			require.Equal(t, saved, f.Text(`SELECT CHECKPOINT FROM QRTZ_RUN WHERE ID = ?`, next.ID), "not before the commit")
			require.NoError(t, tx.Commit())
			require.Equal(t, `{"page":8}`, f.Text(`SELECT CHECKPOINT FROM QRTZ_RUN WHERE ID = ?`, next.ID))
			f.succeed(next)
			require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ID = ? AND CHECKPOINT IS NULL`, next.ID), "not needed any more")
		})
	}
}

// Runs with checkpoints are ended and recovered a few at a time, as those with data of their own are: the server reads and copies each.
func TestLargeCheckpointsMakeSmallBatches(t *testing.T) {
	f := newTables(t)
	f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	who := f.Join("n1")
	runs := f.claim(who, 1, f.AddMany(200)...).Runs
	f.Exec(`UPDATE QRTZ_RUN SET CHECKPOINT = ?`, `"`+strings.Repeat("x", MaxCheckpoint-2)+`"`)
	sizes, err := f.store.dataSizes(t.Context(), []int64{runs[0].ID})
	require.NoError(t, err)
	require.Equal(t, int64(MaxCheckpoint), sizes[runs[0].ID])
	results := make([]Result, len(runs))
	for i, r := range runs {
		r.Saved = MaxCheckpoint
		results[i] = failed(r, at(30))
	}
	require.Len(t, bounded(results), 4, "of at most 4 MiB")
	began := time.Now()
	_, err = f.store.Complete(t.Context(), results)
	require.NoError(t, err)
	t.Log(fmt.Sprint("retried in ", time.Since(began).Round(time.Millisecond)))
	require.Equal(t, int64(200), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND LENGTH(CHECKPOINT) = ?`, MaxCheckpoint))
}
