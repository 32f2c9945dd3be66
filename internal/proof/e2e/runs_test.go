package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

// quick makes a worker notice within three seconds what takes half a minute by default.
var quick = []string{"--node-timeout", "3s", "--poll", "1s", "--misfire-interval", "1s", "--misfire-after", "20s"}

// noticed is how long it takes until another node starts a dead node's run again: NodeTimeout, a misfire interval and its
// lateness, a sweep, and what a busy machine takes.
const noticed = 3*time.Second + 2*time.Second + time.Second + 2*time.Second

// once adds a job of a class that fires once, now, and returns its id.
func (c *cluster) once(class, data, options string) int {
	c.t.Helper()
	c.exec(`INSERT INTO QRTZ_JOB (APPLICATION, STATE, JOB_CLASS, JOB_DATA, UPDATE_TIME) VALUES ('e2e', 'EXECUTING', ?, ?, 0)`, class, data)
	job := c.count(`SELECT MAX(ID) FROM QRTZ_JOB`)
	if options != "" {
		c.exec(fmt.Sprintf(`UPDATE QRTZ_JOB SET %s WHERE ID = %d`, options, job))
	}
	now := time.Now().UnixMilli()
	c.exec(`INSERT INTO QRTZ_EXECUTE (PID, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, NEXT_FIRE_TIME, START_TIME) VALUES (?, 'SIMPLE', 'EXECUTING', 1, 1000, ?, ?)`,
		job, now, now)
	return job
}

func (c *cluster) text(query string, args ...any) (s string) {
	c.t.Helper()
	require.NoError(c.t, c.db.QueryRowContext(c.t.Context(), query, args...).Scan(&s))
	return s
}

// running waits until a job has a run that goes, and returns where.
func (c *cluster) running(job int) (node string) {
	c.t.Helper()
	c.eventually("it runs", 10*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ? AND STATE = 'RUNNING'`, job) == 1
	})
	return c.text(`SELECT HOST_IP FROM QRTZ_RUN WHERE JOB_ID = ? AND STATE = 'RUNNING'`, job)
}

// joined waits until n workers have been alive for long enough to judge others.
func (c *cluster) joined(n int) {
	c.t.Helper()
	c.eventually("workers have joined", 10*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NOT NULL AND HEARTBEAT_AT > JOINED_AT + 2500`) == n
	})
}

// A killed process's run is started again elsewhere if its job asks for recovery, and only recorded if it does not.
func TestRunsOfAKilledProcess(t *testing.T) {
	c := newCluster(t, testdb.DSN(t))
	workers := map[string]*worker{"n1": c.worker("n1", quick...), "n2": c.worker("n2", quick...)}
	c.joined(2)
	// The first attempt takes a minute, the second none: it records what it is.
	statement := `{"statement": "INSERT INTO RECORD SELECT :execute_id, :fire_time, :attempt, CONCAT(:node, IF(:attempt = 1, SLEEP(60), '')), :now"}`
	c.exec(`UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_IP = 'n2'`)
	recovered, not := c.once("sql", statement, "RECOVERY = 1"), c.once("sleep", `{"ms": 60000}`, "")
	const victim = "n1"
	require.Equal(t, victim, c.running(recovered))
	require.Equal(t, victim, c.running(not))
	c.exec(`UPDATE QRTZ_NODE SET STATE = 'Y'`)

	workers[victim].kill()
	killed := time.Now()
	attempts := `SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ? AND STATE = ?`
	c.eventually("the run is recovered", noticed, func() bool { return c.count(attempts, recovered, "SUCCEEDED") == 1 })
	t.Logf("recovered after %s", time.Since(killed).Round(100*time.Millisecond))
	require.Equal(t, 1, c.count(`
SELECT COUNT(*) FROM QRTZ_RUN A JOIN QRTZ_RUN B ON B.RECOVERS = A.ID
 WHERE A.JOB_ID = ? AND A.STATE = 'LOST' AND A.HOST_IP = ? AND A.FINISHED_AT IS NOT NULL AND A.MESSAGE LIKE 'its node died%'
   AND B.ATTEMPT = 2 AND B.FIRE_TIME = A.FIRE_TIME AND B.HOST_IP <> A.HOST_IP AND B.FENCE > A.FENCE AND B.STATE = 'SUCCEEDED'`, recovered, victim))
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM RECORD WHERE ATTEMPT = 2 AND NODE <> ?`, victim))
	require.Equal(t, 1, c.count(attempts, not, "LOST"))
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ?`, not), "without RECOVERY it stays lost")
}

// A process that is frozen for longer than NodeTimeout loses its run to another, cannot write its result when it wakes
// up, and joins again.
func TestAFrozenProcessCannotWriteItsResult(t *testing.T) {
	c := newCluster(t, testdb.DSN(t))
	workers := map[string]*worker{"n1": c.worker("n1", quick...), "n2": c.worker("n2", quick...)}
	c.joined(2)
	job := c.once("sleep", `{"ms": 7000}`, "RECOVERY = 1")
	victim := c.running(job)
	old := c.count(`SELECT INSTANCE FROM QRTZ_NODE WHERE HOST_IP = ?`, victim)
	workers[victim].signal(syscall.SIGSTOP)
	c.eventually("another runs it", noticed, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND HOST_IP <> ? AND ATTEMPT = 2 AND RECOVERS IS NOT NULL`, victim) == 1
	})
	c.wait(2 * time.Second) // until the handler would have ended
	workers[victim].signal(syscall.SIGCONT)
	c.eventually("it joins again", 10*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE HOST_IP = ? AND INSTANCE <> ?`, victim, old) == 1
	})
	c.eventually("the second attempt ends", 15*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED' AND ATTEMPT = 2`) == 1
	})
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'LOST' AND ATTEMPT = 1 AND HOST_IP = ?`, victim))
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
	require.True(t, workers[victim].alive())
}

// A process killed while it has the only run of a job does not leave the job locked.
func TestAKilledProcessLeavesNoLock(t *testing.T) {
	c := newCluster(t, testdb.DSN(t))
	workers := map[string]*worker{"n1": c.worker("n1", quick...), "n2": c.worker("n2", quick...)}
	c.joined(2)
	job := c.once("sleep", `{"ms": 60000}`, "OVERLAP = 'SKIP'")
	c.exec(`UPDATE QRTZ_EXECUTE SET REPEAT_COUNT = -1`)
	victim := c.running(job)
	c.eventually("fires are skipped", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ? AND STATE = 'SKIPPED' AND MESSAGE LIKE 'overlap: %'`, job) >= 2
	})
	workers[victim].kill()
	c.eventually("the next fire after LOST runs", noticed+time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ? AND STATE = 'RUNNING' AND HOST_IP <> ?`, job, victim) == 1
	})
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'LOST' AND OVERLAP_KEY IS NULL`))
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL`))
}
