package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

// naps records when a run began and, half a second later, when it ended. A killed process's statement continues
// in the server until it ends.
const naps = `{"statement": "INSERT INTO RECORD SELECT :execute_id, :fire_time, :attempt, :node, :now, SLEEP(0.5) * 0 + CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000 AS SIGNED)"}`

// atWork waits until a node has begun a run that is to be recovered, and returns its id.
func (c *cluster) atWork() (node string) {
	c.t.Helper()
	c.eventually("a node begins a run of a job with recovery", 20*time.Second, func() bool {
		return c.db.QueryRowContext(c.t.Context(), `SELECT R.HOST_IP FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
			WHERE R.STATE = 'RUNNING' AND J.RECOVERY = 1 AND J.HISTORY = 'ALL' AND R.CLAIMED_AT BETWEEN ? AND ?`,
			time.Now().Add(-250*time.Millisecond).UnixMilli(), time.Now().Add(-20*time.Millisecond).UnixMilli()).Scan(&node) == nil
	})
	return node
}

// Every rule at once, while one of three processes is killed and another one frozen until it is taken for dead.
func TestRulesUnderKillAndFreeze(t *testing.T) {
	c := newCluster(t, testdb.DSN(t))
	c.exec(`ALTER TABLE RECORD ADD COLUMN FINISHED_AT BIGINT`)
	start := time.Now().Add(2 * time.Second)
	end := start.Add(span(t, 30*time.Second))
	for _, rules := range []string{
		`OVERLAP = 'SKIP'`, `OVERLAP = 'QUEUE', QUEUE_LIMIT = 3`, `OVERLAP = 'QUEUE', RECOVERY = 1`, `OVERLAP = 'SKIP', RECOVERY = 1, HISTORY = 'FAILED'`,
		`OVERLAP = 'QUEUE', HISTORY = 'NONE'`, `HISTORY = 'NONE'`, `HISTORY = 'NONE', RECOVERY = 1`, `HISTORY = 'FAILED', RECOVERY = 1`, `ATTEMPTS = 3, BACKOFF = 100, RECOVERY = 1`,
		`MAX_RUNNING = 2, RECOVERY = 1`, `OVERLAP = 'SKIP', MAX_RUNNING = 2`, `MAX_RUNNING = 1, HISTORY = 'NONE'`,
	} {
		c.exec(`INSERT INTO QRTZ_JOB (APPLICATION, STATE, JOB_CLASS, JOB_DATA) VALUES ('e2e', 'EXECUTING', 'sql', ?)`, naps)
		c.exec(`UPDATE QRTZ_JOB SET ` + rules + ` ORDER BY ID DESC LIMIT 1`)
		for i := range 3 { // together at the rate at which the naps just do not fit
			from := start.Add(time.Duration(i) * 470 * time.Millisecond).UnixMilli()
			c.exec(`INSERT INTO QRTZ_EXECUTE (PID, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, NEXT_FIRE_TIME, START_TIME, END_TIME)
				SELECT MAX(ID), 'SIMPLE', 'EXECUTING', -1, 1400, ?, ?, ? FROM QRTZ_JOB`, from, from, end.UnixMilli())
		}
	}
	quick := []string{"--poll", "1s", "--misfire-interval", "2s", "--misfire-after", "60s", "--node-timeout", "5s"}
	workers := map[string]*worker{"n1": c.worker("n1", quick...), "n2": c.worker("n2", quick...), "n3": c.worker("n3", quick...)}
	c.wait(time.Until(start.Add(end.Sub(start) / 4)))
	killed := c.atWork()
	workers[killed].kill()
	c.wait(6 * time.Second)
	frozen := c.atWork()
	workers[frozen].signal(syscall.SIGSTOP)
	c.wait(8 * time.Second)
	workers[frozen].signal(syscall.SIGCONT)
	c.worker(killed, quick...)
	c.completed(end)

	report := c.check(start, end)
	require.Zero(t, report.Overlap)
	require.NotZero(t, report.Skipped, "by overlap rules")
	require.NotZero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE RECOVERS IS NOT NULL AND STATE = 'SUCCEEDED'`))
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.RECOVERY = 1 AND R.STATE = 'LOST'
		AND J.HISTORY = 'ALL' AND NOT EXISTS (SELECT 1 FROM QRTZ_RUN N WHERE N.RECOVERS = R.ID)`), "what is lost is recovered")
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
		WHERE J.HISTORY <> 'ALL' AND R.STATE = 'SUCCEEDED'`), "nothing is kept that is not to be")
	t.Logf("%d runs were lost, %d recovered", c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'LOST'`), c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE RECOVERS IS NOT NULL`))
}
