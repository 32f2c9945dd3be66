package e2e

import (
	"context"
	"database/sql"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

// Three processes, 200 executes at 1 s: one process is killed, one frozen for ten seconds, one started again.
func TestKilledFrozenAndStartedAnew(t *testing.T) {
	c := newCluster(t, testdb.DSN(t))
	start := time.Now().Add(2 * time.Second)
	end := start.Add(span(t, 30*time.Second))
	c.schedule(200, start, end)
	quarter := end.Sub(start) / 4

	c.worker("n1")
	n2, n3 := c.worker("n2"), c.worker("n3")
	before := c.innodb()
	c.wait(time.Until(start.Add(quarter)))
	n3.kill()
	c.wait(quarter / 2)
	n2.signal(syscall.SIGSTOP)
	c.wait(10 * time.Second)
	n2.signal(syscall.SIGCONT)
	c.wait(quarter / 4)
	c.worker("n4")
	c.completed(end)

	report := c.check(start, end)
	require.Zero(t, report.Skipped)
	require.Less(t, report.Lost, 100, "a killed process loses what it had claimed, no more")
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'LOST' AND HOST_IP <> 'n3'`))
	require.NotZero(t, c.count(`SELECT COUNT(*) FROM RECORD WHERE NODE = 'n4'`))
	t.Logf("deadlocks and lock waits: %+v", c.innodb().minus(before))
}

// The database is killed and comes back after a while: no process exits, and all continue.
func TestDatabaseKilledAndRestarted(t *testing.T) {
	server := testdb.Server(t)
	root, err := sql.Open("mysql", server.DSN(""))
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	_, err = root.Exec(`CREATE DATABASE e2e`)
	require.NoError(t, err)
	c := newCluster(t, server.DSN("e2e"))
	start := time.Now().Add(2 * time.Second)
	end := start.Add(span(t, 50*time.Second))
	c.schedule(100, start, end)
	workers := []*worker{c.worker("n1"), c.worker("n2"), c.worker("n3")}

	c.wait(time.Until(start.Add(8 * time.Second)))
	server.Kill()
	c.wait(20 * time.Second)
	require.NoError(t, server.Restart(t.Context()))
	back := time.Now()
	c.eventually("fires run again", 10*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM RECORD WHERE STARTED_AT > ?`, back.UnixMilli()) > 100
	})
	t.Logf("fires ran again %s after the server was back", time.Since(back).Round(time.Millisecond))
	c.completed(end)
	for _, w := range workers {
		require.True(t, w.alive(), "no process exits")
	}
	c.check(start, end)
}

// Clocks that are wrong by half a minute change nothing.
func TestWrongClocks(t *testing.T) {
	c := newCluster(t, testdb.DSN(t))
	start := time.Now().Add(2 * time.Second)
	end := start.Add(span(t, 10*time.Second))
	c.schedule(60, start, end)
	c.worker("slow", "--clock-skew=-30s")
	c.worker("fast", "--clock-skew=30s")
	c.worker("right")
	c.completed(end)
	report := c.check(start, end)
	require.Zero(t, report.Skipped+report.Lost)
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE HOST_IP = 'fast' AND CLOCK_SKEW BETWEEN 29000 AND 31000`))
	require.Equal(t, 3, c.count(`SELECT COUNT(DISTINCT NODE) FROM RECORD`))
}

// A rolling restart hands over what has been claimed and not started.
func TestRollingRestart(t *testing.T) {
	c := newCluster(t, testdb.DSN(t))
	start := time.Now().Add(2 * time.Second)
	end := start.Add(span(t, 15*time.Second))
	c.schedule(200, start, end)
	workers := map[string]*worker{"n1": c.worker("n1"), "n2": c.worker("n2"), "n3": c.worker("n3")}
	c.wait(time.Until(start.Add(3 * time.Second)))
	for id, w := range workers {
		w.stop()
		c.worker(id)
		c.wait(2 * time.Second)
	}
	c.completed(end)
	report := c.check(start, end)
	require.Zero(t, report.Lost+report.Skipped)
	require.Less(t, report.Max, 2*time.Second)
}

// completed waits until every schedule has run its last fire and every run has its result.
func (c *cluster) completed(end time.Time) {
	c.t.Helper()
	c.eventually("schedules complete", time.Until(end)+30*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE <> 'COMPLETE'`) == 0
	})
	defer c.logUnfinished()
	c.eventually("runs finish", 60*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('PENDING', 'RUNNING')`) == 0
	})
}

// logUnfinished says which runs a failed test was waiting for.
func (c *cluster) logUnfinished() {
	if !c.t.Failed() {
		return
	}
	rows, err := c.db.QueryContext(context.Background(), `
SELECT CONCAT_WS(' ', 'run', R.ID, 'of execute', R.EXECUTE_ID, 'fire', R.FIRE_TIME, 'attempt', R.ATTEMPT, R.STATE, 'on', R.HOST_IP, R.INSTANCE,
       'claimed', R.CLAIMED_AT, 'available', R.AVAILABLE_AT, 'key', R.OVERLAP_KEY, 'recovers', R.RECOVERS, J.OVERLAP, J.HISTORY)
  FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE R.STATE IN ('PENDING', 'RUNNING') ORDER BY R.ID LIMIT 20`)
	if err != nil {
		c.t.Log(err)
		return
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err == nil {
			c.t.Log(text)
		}
	}
	if err := rows.Err(); err != nil {
		c.t.Log(err)
	}
}

// innodb are the server's counters of contention.
type innodb struct{ Deadlocks, LockWaits, LockWaitMillis int }

func (c *cluster) innodb() innodb {
	c.t.Helper()
	status := func(name string) (n int) {
		var ignored string
		err := c.db.QueryRow(`SHOW GLOBAL STATUS LIKE '`+name+`'`).Scan(&ignored, &n)
		if err != nil {
			return 0 // this server does not count it
		}
		return n
	}
	return innodb{status("Innodb_deadlocks"), status("Innodb_row_lock_waits"), status("Innodb_row_lock_time")}
}

func (a innodb) minus(b innodb) innodb {
	return innodb{a.Deadlocks - b.Deadlocks, a.LockWaits - b.LockWaits, a.LockWaitMillis - b.LockWaitMillis}
}
