package qrtz_test

import (
	"context"
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
