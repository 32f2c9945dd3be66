package qrtz_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

func TestWhatIsStuckIsTold(t *testing.T) {
	c := newCluster(t)
	cfg := patient("n1")
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
	c.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS) VALUES (7, 'test', 'retired')`)
	c.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, AVAILABLE_AT) VALUES (70, 'test', 7, UNIX_TIMESTAMP(NOW(3)) * 1000)`) // due just now
	began := time.Now()
	c.start(s)
	c.eventually("all", 10*time.Second, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) == 3
	})
	require.Less(t, time.Since(began), cfg.MisfireAfter, "a run need not be a misfire to be told of")
	time.Sleep(3 * time.Second) // further passes
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, int64(50), told["nowhere"].ScheduleID)
	require.Equal(t, "no live node has a handler for its class", told["nowhere"].Message)
	require.Equal(t, int64(70), told["retired"].RunID)
	require.Equal(t, "no live node has a handler for its class", told["retired"].Message)
	require.Equal(t, int64(60), told["tick"].RunID)
	require.Equal(t, "its job belongs to another app", told["tick"].Message)
	require.Equal(t, "PENDING", c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = 60`))
}
