package execute

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

// What goes wrong after a claim has been committed must not look like a refusal of the claim: carried out again, it finds
// nothing to win, and the runs of the first time are forgotten.

func TestALockMetAfterALargeClaimLosesNoneOfItsRuns(t *testing.T) {
	for _, rule := range []Overlap{OverlapSkip, OverlapQueue} {
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
