package qrtz_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// off throws a switch and returns when it had committed.
func (c *cluster) off(statement string) time.Time {
	c.t.Helper()
	c.exec(statement)
	return time.Now()
}

// nothingClaimedAfter checks promise 4 against the rows: no claim after the switch committed. A row of fires that were
// skipped is no claim.
func (c *cluster) nothingClaimedAfter(t time.Time, condition string, args ...any) {
	c.t.Helper()
	require.Zero(c.t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE <> 'SKIPPED' AND CLAIMED_AT > ? AND `+condition,
		append([]any{t.UnixMilli()}, args...)...), "claims after the switch")
}

func TestAppOffStopsClaimsAndOnResumesWithoutABurst(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	c.node("n2")
	ticking(t, n.Scheduler, 20, 200*time.Millisecond)
	c.ran(100, 10*time.Second, all)

	off := c.off(`UPDATE QRTZ_APP SET STATE = 'N'`)
	c.eventually("nodes are stopped by the app", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE STATE = 'N' AND STOPPED_BY_APP = 1`) == 2
	})
	c.eventually("schedules move on", 5*time.Second, func() bool {
		return time.Since(off) > 4*time.Second && // longer than MisfireAfter
			c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE NEXT_FIRE_TIME > ?`, off.Add(2*time.Second).UnixMilli()) == 20
	})
	c.nothingClaimedAfter(off, `TRUE`)

	onAgain := time.Now()
	c.exec(`UPDATE QRTZ_APP SET STATE = 'Y'`)
	c.ran(100, 5*time.Second, dueAfter(onAgain))
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE STATE = 'Y' AND STOPPED_BY_APP = 0`))
	c.nothingFrom(off, onAgain)
}

// nothingFrom checks that what was due while something was off neither ran nor counts as a misfire.
func (c *cluster) nothingFrom(off, on time.Time) {
	c.t.Helper()
	// Fires may have been claimed up to a second before their time.
	require.Zero(c.t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE FIRE_TIME > ? AND FIRE_TIME < ?`,
		off.Add(time.Second).UnixMilli(), on.UnixMilli()), "fires of the time spent off")
	// What was due just before the switch and not yet claimed is owed, and becomes a misfire.
	require.Zero(c.t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND COALESCE(LAST_FIRE_TIME, FIRE_TIME) > ?`,
		off.UnixMilli()), "misfires")
}

func TestNodeOffLeavesItsFiresToTheOthers(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	c.node("n2")
	ticking(t, n.Scheduler, 20, 200*time.Millisecond)
	c.ran(100, 10*time.Second, all)

	off := c.off(`UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_IP = 'n1'`)
	c.ran(200, 10*time.Second, on("n2", off))
	c.nothingClaimedAfter(off, `HOST_IP = 'n1'`)
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED'`))

	c.exec(`UPDATE QRTZ_NODE SET STATE = 'Y' WHERE HOST_IP = 'n1'`)
	c.ran(20, 5*time.Second, on("n1", off))
}

func TestTheOnlyNodeOffIsNoMisfire(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	ticking(t, n.Scheduler, 20, 200*time.Millisecond)
	c.ran(100, 10*time.Second, all)

	off := c.off(`UPDATE QRTZ_NODE SET STATE = 'N'`)
	c.eventually("longer than MisfireAfter", 6*time.Second, func() bool { return time.Since(off) > 4*time.Second })
	c.nothingClaimedAfter(off, `TRUE`)
	onAgain := time.Now()
	c.exec(`UPDATE QRTZ_NODE SET STATE = 'Y'`)
	c.ran(100, 5*time.Second, dueAfter(onAgain))
	c.nothingFrom(off, onAgain)
}

func TestANodeThatIsOffCanBeStoppedAndStaysOff(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	ticking(t, n.Scheduler, 1, 200*time.Millisecond)
	c.ran(5, 5*time.Second, all)
	off := c.off(`UPDATE QRTZ_NODE SET STATE = 'N'`)
	n.halt()

	again := c.node("n1")
	c.eventually("the node is back", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE HOST_IP = 'n1' AND INSTANCE IS NOT NULL`) == 1
	})
	again.halt()
	require.Equal(t, "N", c.text(`SELECT STATE FROM QRTZ_NODE`))
	c.nothingClaimedAfter(off, `TRUE`)
}

func TestPausedByHandAndResumedByHand(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	ticking(t, n.Scheduler, 10, 100*time.Millisecond)
	c.ran(100, 10*time.Second, all)

	off := c.off(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED'`)
	c.eventually("job is paused", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_JOB`) == "PAUSED" })
	c.eventually("longer than MisfireAfter", 6*time.Second, func() bool { return time.Since(off) > 4*time.Second })
	onAgain := time.Now()
	c.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING'`)
	c.ran(100, 5*time.Second, dueAfter(onAgain))
	c.nothingFrom(off, onAgain)
	c.eventually("job is active", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_JOB`) == "EXECUTING" })
}
