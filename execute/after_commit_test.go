package execute

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/run"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

// What goes wrong after a claim has been committed must not look like a refusal of the claim: carried out again, it finds
// nothing to win, and the runs of the first time are forgotten.

func TestALockMetAfterALargeClaimLosesNoneOfItsRuns(t *testing.T) {
	for _, rule := range []run.Overlap{run.OverlapSkip, run.OverlapQueue} {
		t.Run(string(rule), func(t *testing.T) {
			f := newTables(t)
			_, e := f.exclusive(rule, 10)
			who := f.join("n1")
			going := f.claim(who, 1, e).Runs
			require.Len(t, going, 1)
			defer f.holding(`DELETE FROM QRTZ_RUN WHERE ID = ?`, going[0].ID)() // holds the overlap key, too
			f.addMany(carefulBatch + 50)
			won, _ := f.store.Claim(t.Context(), who, claims(f.due(noon), 1))
			require.Len(t, won.Runs, carefulBatch+50)
			require.Equal(t, int64(carefulBatch+50), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND ID <> ?`, going[0].ID))
		})
	}
}

func TestATableLockedAfterTheCommitPutsTheClaimInDoubt(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	f.addMany(carefulBatch + 50)
	due := f.due(noon)
	release := f.holding(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE) VALUES ('a', ?, ?, ?, 'PENDING')`,
		f.job, due[7].ID, noon.UnixMilli()) // holds the packet up where it has read QRTZ_JOB
	claimed := make(chan Applied)
	go func() {
		won, err := f.store.Claim(context.Background(), who, claims(due, 1))
		if err != nil && !schema.Retryable(err) {
			claimed <- won
		}
		close(claimed)
	}()
	time.Sleep(300 * time.Millisecond)
	operator, err := f.Connx(t.Context())
	require.NoError(t, err)
	locked := make(chan error)
	go func() {
		_, err := operator.ExecContext(context.Background(), `LOCK TABLES QRTZ_JOB WRITE`)
		locked <- err
	}()
	time.Sleep(200 * time.Millisecond)
	release()
	require.NoError(t, <-locked)
	won := <-claimed
	_, err = operator.ExecContext(t.Context(), `UNLOCK TABLES`)
	require.NoError(t, err)
	require.NoError(t, operator.Close())
	require.Equal(t, int64(carefulBatch+50), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
	require.Len(t, won.InDoubt, carefulBatch+50)
	f.handBackFires(f.store, who, won.InDoubt)
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
}

// What a job's history rule says is read once more after the COMMIT. Whatever has become of it meanwhile, the fires that were won
// are started, and by nobody else.
func TestAHistoryRuleThatChangesDuringAClaimLosesNoFire(t *testing.T) {
	for _, fires := range []int{1, 3} {
		for name, change := range map[string]string{
			"its runs are to have rows":         `UPDATE QRTZ_JOB SET HISTORY = 'ALL', ATTEMPTS = 3, RECOVERY = 1`,
			"its runs must be alone":            `UPDATE QRTZ_JOB SET OVERLAP = 'SKIP'`,
			"nor can a run be inserted by then": `ALTER TABLE QRTZ_RUN ADD CHECK (FIRE_TIME < 1)`,
		} {
			t.Run(fmt.Sprint(fires, " fires, ", name), func(t *testing.T) {
				f := newTables(t)
				db, faults := f.openWithFaults()
				store := newStore(db)
				f.exec(`UPDATE QRTZ_JOB SET HISTORY = 'NONE'`)
				f.addMany(2)
				var changed error
				faults.committed = func() {
					_, err := f.Exec(`UPDATE QRTZ_JOB SET HISTORY = 'ALL'`)
					_, err2 := f.Exec(change)
					changed = errors.Join(err, err2)
				}
				won, err := store.Claim(t.Context(), f.join("n1"), claims(f.due(noon), fires))
				require.NoError(t, err)
				require.NoError(t, changed)
				require.Len(t, won.Runs, 2*fires)
				for _, r := range won.Runs {
					require.Zero(t, r.ID)
					require.False(t, r.Options.WritesRow(), "a run without a row cannot be retried, nor recovered")
				}
				require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
			})
		}
	}
}

// Somebody has turned an execute back: fires that have a run already are not started again, others of the same claim are.
func TestAFireThatHasARunIsNotStartedAgain(t *testing.T) {
	for _, fires := range []int{1, 3} {
		for _, history := range []run.History{run.HistoryAll, run.HistoryNone} {
			t.Run(fmt.Sprint(fires, " fires, ", history), func(t *testing.T) {
				f := newTables(t)
				id := f.add()
				f.exec(`UPDATE QRTZ_JOB SET HISTORY = ?`, history)
				f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE) VALUES ('a', ?, ?, ?, 'SUCCEEDED')`, f.job, id, noon.UnixMilli())
				won := f.claim(f.join("n1"), fires, f.read(id))
				require.Len(t, won.Moved, 1)
				require.Len(t, won.Runs, fires-1)
				require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE FIRE_TIME = ? AND STATE = 'SUCCEEDED'`, noon.UnixMilli()))
			})
		}
	}
}
