package qrtz_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

const digits = `(SELECT 0 AS D UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
	UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)`

// A node claims what is due within seconds of its start, however much is to be tidied up: jobs added by SQL whose state
// is to be derived, schedules that fired every second while all nodes were down, one whose START_TIME is in seconds.
func TestJoiningWaitsForNoHousekeeping(t *testing.T) {
	c := newCluster(t)
	began := make(chan time.Time, 100)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "first", func(context.Context, *qrtz.Run, struct{}) error { began <- time.Now(); return nil })
		qrtz.Handle(s, "old", func(context.Context, *qrtz.Run, struct{}) error { return nil })
	})
	const jobs, behind = 20_000, 200
	c.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS)
		SELECT 1001 + A.D + 10 * B.D + 100 * E.D + 1000 * F.D + 10000 * G.D, 'test', IF(G.D = 0 AND F.D = 0 AND E.D < 2, 'old', 'none')
		  FROM ` + digits + ` A, ` + digits + ` B, ` + digits + ` E, ` + digits + ` F, ` + digits + ` G WHERE G.D < 2`)
	c.exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, NEXT_FIRE_TIME)
		SELECT ID, 'test', 'SIMPLE', 'EXECUTING', -1, 3600000, (UNIX_TIMESTAMP() + 86400) * 1000 FROM QRTZ_JOB WHERE JOB_CLASS = 'none'`)
	c.exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, CRON, START_TIME, NEXT_FIRE_TIME)
		SELECT ID, 'test', 'CRON', 'EXECUTING', -1, '* * * * * ?', 0, (UNIX_TIMESTAMP() - 5 * 86400) * 1000 FROM QRTZ_JOB WHERE JOB_CLASS = 'old'`)
	c.exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, NEXT_FIRE_TIME)
		SELECT MIN(ID), 'test', 'SIMPLE', 'EXECUTING', -1, 60000, 100000000000, 100000000000 FROM QRTZ_JOB WHERE JOB_CLASS = 'old'`)
	once(t, s, "first", nil)
	require.Equal(t, behind, c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE CRON IS NOT NULL`))

	started := time.Now()
	c.start(s)
	select {
	case at := <-began:
		require.Less(t, at.Sub(started), 5*time.Second)
		t.Logf("its first run began %s after its start", at.Sub(started).Round(time.Millisecond))
	case <-time.After(10 * time.Second):
		require.Fail(t, "nothing ran")
	}
	c.eventually("all states to be derived", 30*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_JOB WHERE ID > 1000 AND STATE = 'EXECUTING'`) == jobs
	})
	t.Logf("all states were derived %s after its start", time.Since(started).Round(time.Millisecond))
}

func TestWhatIsStuckIsTold(t *testing.T) {
	c := newCluster(t)
	cfg := quick("n1")
	var mu sync.Mutex
	told := map[string]qrtz.Event{}
	cfg.Hooks.Stuck = func(e qrtz.Event) {
		mu.Lock()
		defer mu.Unlock()
		_, again := told[e.Class]
		require.False(t, again, "once an hour")
		told[e.Class] = e
	}
	s := c.open(cfg)
	c.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS) VALUES (5, 'test', 'nowhere'), (6, 'other', 'tick')`)
	c.exec(`INSERT INTO QRTZ_EXECUTE (ID, PID, APPLICATION, JOB_TYPE, STATE, REPEAT_INTERVAL) VALUES (50, 5, 'test', 'SIMPLE', 'EXECUTING', 1000)`)
	c.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID) VALUES (60, 'test', 6)`)
	c.start(s)
	c.eventually("both", 10*time.Second, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) == 2
	})
	time.Sleep(3 * time.Second) // further passes
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, int64(50), told["nowhere"].ExecuteID)
	require.Equal(t, "no live node has a handler for its class", told["nowhere"].Message)
	require.Equal(t, int64(60), told["tick"].RunID)
	require.Equal(t, "its job belongs to another app", told["tick"].Message)
	require.Equal(t, "PENDING", c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = 60`))
}
