package qrtz_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// A process whose results the server refuses in part goes on; what it cannot store at all is given up.
func TestRefusedResultsStopNothing(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "smiles", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
			run.Progress(50)
			return errors.New("no paper \U0001F600")
		})
		qrtz.Handle(s, "unstorable", func(context.Context, *qrtz.Run, struct{}) error { return nil })
	})
	once(t, s, "smiles", nil)
	once(t, s, "unstorable", nil)
	ticking(t, s, 5, 200*time.Millisecond)
	c.exec(`ALTER TABLE QRTZ_RUN MODIFY MESSAGE TEXT CHARACTER SET latin1`)
	var unstorable int
	require.NoError(t, c.db.QueryRow(`SELECT ID FROM QRTZ_JOB WHERE NAME = 'unstorable'`).Scan(&unstorable))
	c.exec(`ALTER TABLE QRTZ_RUN ADD CONSTRAINT QRTZ_TEST CHECK (JOB_ID <> ` + strconv.Itoa(unstorable) + ` OR STATE <> 'SUCCEEDED')`)
	n := c.start(s)
	c.eventually("the refused result is stored", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'FAILED' AND MESSAGE LIKE 'no paper ? (in ASCII%'`) == 1
	})
	c.ran(100, 10*time.Second, func(f fire) bool { return f.Class == "tick" })
	began := time.Now()
	n.halt()
	require.Less(t, time.Since(began), 5*time.Second, "nor does it hold up the end")
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`), "the one that cannot be stored")
}

// A transaction that an operator leaves open on a run delays that run's result and nothing else.
func TestALockedRunHoldsUpNothingElse(t *testing.T) {
	c := newCluster(t)
	db, err := sql.Open("mysql", c.dsn+"&innodb_lock_wait_timeout=1")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s, err := qrtz.Open(db, quick("n1"))
	require.NoError(t, err)
	began, finish := make(chan *qrtz.Run, 1), make(chan struct{})
	qrtz.Handle(s, "held", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
		began <- run
		<-finish
		return nil
	})
	qrtz.Handle(s, "long", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
		for n := 0; ; n++ {
			run.Progress(n)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	qrtz.Handle(s, "tick", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
		c.record(run)
		return nil
	})
	once(t, s, "held", nil)
	once(t, s, "long", nil)
	ticking(t, s, 5, 200*time.Millisecond)
	n := c.start(s)
	held := (<-began).ID
	tx, err := c.db.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`UPDATE QRTZ_RUN SET MESSAGE = 'mine' WHERE ID = ?`, held)
	require.NoError(t, err)
	close(finish)

	progress := `SELECT COALESCE(MAX(PROGRESS), 0) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = 'long'`
	results := `SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`
	for range 3 {
		before, far := c.count(results), c.count(progress)
		c.eventually("other results are written", 3*time.Second, func() bool { return c.count(results) >= before+25 })
		c.eventually("other runs tell how far they are", 3*time.Second, func() bool { return c.count(progress) > far })
	}
	require.Equal(t, "RUNNING", c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, held))
	require.NoError(t, tx.Rollback())
	c.eventually("the result is written when the lock is gone", 8*time.Second, func() bool {
		return c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, held) == "SUCCEEDED"
	})
	c.exec(`UPDATE QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID SET R.CANCEL_AT = 1 WHERE J.NAME = 'long'`)
	c.eventually("the long run ends", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE PROGRESS > 0 AND STATE = 'RUNNING'`) == 0
	})
	n.halt()
}
