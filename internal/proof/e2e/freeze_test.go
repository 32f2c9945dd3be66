package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

// freezesEnv says how often TestAFrozenProcessHoldsUpNobody freezes a process, if not four times: it takes 4 seconds each time.
const freezesEnv = "QRTZ_E2E_FREEZES"

// A process that claims all the time is frozen at random moments, some of which lie within its transactions. Until it is
// thawed, the other node starts its fires on time and is not fenced, and an operator's switch does not wait.
func TestAFrozenProcessHoldsUpNobody(t *testing.T) {
	tries, err := strconv.Atoi(os.Getenv(freezesEnv))
	if err != nil || tries < 1 {
		tries = 4
	}
	c := newCluster(t, testdb.DSN(t))
	c.ticking(400, time.Now().Add(2*time.Second))
	frozen := c.worker("frozen")
	c.worker("healthy")
	t.Cleanup(func() { frozen.signal(syscall.SIGCONT) })
	c.eventually("both run", 30*time.Second, func() bool {
		return c.count(`SELECT COUNT(DISTINCT HOST_IP) FROM QRTZ_RUN WHERE FINISHED_AT IS NOT NULL`) == 2
	})
	c.wait(6 * time.Second) // a poll with both of them, by which they have divided the executes
	instance := c.count(`SELECT INSTANCE FROM QRTZ_NODE WHERE HOST_IP = 'healthy'`)
	for range tries {
		c.wait(time.Second + rand.N(100*time.Millisecond))
		frozen.signal(syscall.SIGSTOP)
		at := time.Now()
		for _, statement := range []string{
			`UPDATE QRTZ_APP SET STATE = 'Y' WHERE APPLICATION = 'e2e'`,
			`UPDATE QRTZ_NODE SET STATE = 'Y' WHERE APPLICATION = 'e2e' AND HOST_IP = 'healthy'`,
			`UPDATE QRTZ_NODE SET STATE = 'Y' WHERE APPLICATION = 'e2e' AND HOST_IP = 'frozen'`,
		} {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			_, err := c.db.ExecContext(ctx, statement)
			cancel()
			assert.NoError(t, err, statement)
			assert.Less(t, time.Since(began), 2*time.Second, statement)
		}
		c.wait(time.Until(at.Add(3 * time.Second)))
		c.startedEachSecond(at, at.Add(3*time.Second))
		frozen.signal(syscall.SIGCONT)
		if t.Failed() {
			return
		}
	}
	require.Equal(t, instance, c.count(`SELECT INSTANCE FROM QRTZ_NODE WHERE HOST_IP = 'healthy'`), "it was never fenced")
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'LOST' AND HOST_IP = 'healthy'`))
}

// ticking adds n executes of 1 s that do nothing, their phases spread.
func (c *cluster) ticking(n int, start time.Time) {
	c.t.Helper()
	c.exec(`INSERT INTO QRTZ_JOB (APPLICATION, STATE, JOB_CLASS, UPDATE_TIME) VALUES ('e2e', 'EXECUTING', 'noop', 0)`)
	for i := range n {
		from := start.Add(time.Duration(i) * time.Second / time.Duration(n)).UnixMilli()
		c.exec(`INSERT INTO QRTZ_EXECUTE (PID, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, NEXT_FIRE_TIME, START_TIME)
			SELECT MAX(ID), 'SIMPLE', 'EXECUTING', -1, 1000, ?, ? FROM QRTZ_JOB`, from, from)
	}
}

// startedEachSecond sees that the healthy node started runs in each second between two times, except the first, for which
// the server may wait before it ends an idle transaction; and none more than two and a half seconds after its time.
func (c *cluster) startedEachSecond(from, until time.Time) {
	c.t.Helper()
	c.wait(500 * time.Millisecond) // until their results are written
	for second := from.Add(time.Second); second.Before(until); second = second.Add(time.Second) {
		n := c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE HOST_IP = 'healthy' AND STARTED_AT BETWEEN ? AND ?`, second.UnixMilli(), second.Add(time.Second).UnixMilli())
		assert.Greater(c.t, n, 50, "started in the second from %s after the freeze", second.Sub(from))
	}
	late := c.count(`SELECT COALESCE(MAX(STARTED_AT - FIRE_TIME), 0) FROM QRTZ_RUN WHERE HOST_IP = 'healthy' AND STARTED_AT BETWEEN ? AND ?`,
		from.UnixMilli(), until.UnixMilli())
	assert.Less(c.t, late, 2500, "milliseconds late")
}
