package qrtz_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// However many runs of a job are pending that has no slot free, the runs of others start.
func TestALimitedBacklogHidesNoOther(t *testing.T) {
	c := newCluster(t)
	cfg := patient("n1")
	cfg.DSN = c.dsn
	release, ran := make(chan struct{}), make(chan struct{}, 1)
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "report", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		})
		qrtz.Handle(s, "mail", func(context.Context, *qrtz.Run, struct{}) error {
			ran <- struct{}{}
			return nil
		})
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "report", Options: qrtz.Options{MaxRunning: 1}}, qrtz.Job{Name: "mail"}))
	reports := make([]qrtz.Request, 7000)
	for i := range reports {
		reports[i].Job = "report"
	}
	_, err := s.EnqueueMany(t.Context(), reports)
	require.NoError(t, err)
	n := c.start(s)
	c.eventually("one goes", 10*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`) == 1 })
	c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, AVAILABLE_AT)
		SELECT APPLICATION, ID, UNIX_TIMESTAMP() * 1000 FROM QRTZ_JOB WHERE NAME = 'mail'`)
	arrives(t, ran, 5*time.Second)
	c.exec(`UPDATE QRTZ_RUN SET STATE = 'CANCELLED' WHERE STATE = 'PENDING'`)
	close(release)
	n.halt()
}
