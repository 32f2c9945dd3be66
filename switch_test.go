package qrtz_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heldAhead has a node carry ten schedules, one after another a tenth of a second apart, and returns when fires are claimed that are
// not due for a while.
func (c *cluster) heldAhead() {
	c.t.Helper()
	job := c.addJob("tick")
	first := time.Now().Truncate(time.Second).Add(3 * time.Second)
	for i := range 10 {
		at := first.Add(time.Duration(i) * 100 * time.Millisecond).UnixMilli()
		c.addExecute(job, "SIMPLE", "", 5*time.Second, -1, at, at, 0)
	}
	c.eventually("fires are claimed in company", 10*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND FIRE_TIME > ?`, time.Now().Add(400*time.Millisecond).UnixMilli()) > 2
	})
}

// startedAfter are the starts on a node after a switch, given as much time as a look at the switches takes on a busy machine.
func (c *cluster) startedAfter(off time.Time) (n int) {
	for _, f := range c.fires() {
		if f.seen.After(off.Add(100 * time.Millisecond)) {
			n++
		}
	}
	return n
}

func TestNothingThatIsHeldStartsAfterTheSwitch(t *testing.T) {
	for _, what := range []string{"APP", "NODE"} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t)
			c.start(c.open(patient("n1")))
			c.heldAhead()
			off := c.off(fmt.Sprintf(`UPDATE QRTZ_%s SET STATE = 'N'`, what))
			held := c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE FIRE_TIME > ?`, off.Add(200*time.Millisecond).UnixMilli())
			require.Positive(t, held)
			c.eventually("what was held is handed back", 5*time.Second, func() bool {
				return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND ATTEMPT = 1 AND FIRE_TIME > ?`,
					off.Add(200*time.Millisecond).UnixMilli()) == held
			})
			time.Sleep(1500 * time.Millisecond)
			require.Zero(t, c.startedAfter(off))
			c.nothingClaimedAfter(off, `TRUE`)
			c.exec(fmt.Sprintf(`UPDATE QRTZ_%s SET STATE = 'Y'`, what))
			c.eventually("and runs when it is on again", 10*time.Second, func() bool {
				return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('PENDING', 'RUNNING')`) == 0 &&
					c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED' AND ATTEMPT = 1`) >= 10
			})
			require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('LOST', 'SKIPPED')`))
		})
	}
}

func TestOthersRunWhatANodeThatIsSwitchedOffHasHeld(t *testing.T) {
	c := newCluster(t)
	c.start(c.open(patient("n1")))
	c.heldAhead()
	c.start(c.open(patient("n2")))
	c.ran(10, 10*time.Second, all)
	c.eventually("fires are claimed in company", 10*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND HOST_IP = 'n1' AND FIRE_TIME > ?`, time.Now().Add(300*time.Millisecond).UnixMilli()) > 0
	})
	off := c.off(`UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_IP = 'n1'`)
	c.ran(20, 10*time.Second, all)
	for _, f := range c.fires() {
		require.False(t, f.Node == "n1" && f.seen.After(off.Add(100*time.Millisecond)), "started on the node that is off")
	}
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('LOST', 'SKIPPED')`))
}
