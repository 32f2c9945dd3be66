package qrtz_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// addJob adds a job from a SQL console, with the columns of version 1.3.
func (c *cluster) addJob(class string) int64 {
	c.t.Helper()
	id, err := c.exec(`INSERT INTO QRTZ_JOB (APPLICATION, STATE, JOB_CLASS, JOB_DATA, JOB_DESCRIPTION, UPDATE_TIME)
		VALUES ('test', 'EXECUTING', ?, '{}', 'by hand', 0)`, class).LastInsertId()
	require.NoError(c.t, err)
	return id
}

// addExecute adds an execute from a SQL console, with columns of version 1.3: it does not name its app.
func (c *cluster) addExecute(job int64, kind, cron string, every time.Duration, count int, start, next, end int64) int64 {
	c.t.Helper()
	id, err := c.exec(`INSERT INTO QRTZ_EXECUTE (PID, JOB_TYPE, STATE, CRON, ZONE_ID, REPEAT_COUNT, REPEAT_INTERVAL, NEXT_FIRE_TIME,
		HOST_IP, HOST_NAME, START_TIME, END_TIME) VALUES (?, ?, 'EXECUTING', ?, 'UTC', ?, ?, ?, 'console', 'console', ?, ?)`,
		job, kind, cron, count, every.Milliseconds(), next, start, end).LastInsertId()
	require.NoError(c.t, err)
	return id
}

func (c *cluster) state(execute int64) string {
	return c.text(`SELECT STATE FROM QRTZ_EXECUTE WHERE ID = ?`, execute)
}

func (c *cluster) waitForState(execute int64, state string) {
	c.t.Helper()
	c.eventually("state "+state, 10*time.Second, func() bool { return c.state(execute) == state })
}

func TestAFiniteScheduleRunsAllItsFiresAndCompletes(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	c.node("n2")
	job := c.addJob("tick")
	start := time.Now().Add(time.Second).UnixMilli()
	counted := c.addExecute(job, "SIMPLE", "", 100*time.Millisecond, 5, start, start, -1)
	ended := c.addExecute(job, "SIMPLE", "", 100*time.Millisecond, -1, start, start, start+700) // its last fire is exactly then
	once := c.addExecute(job, "SIMPLE", "", 0, 1, start, start, -1)
	none := c.addExecute(job, "SIMPLE", "", 100*time.Millisecond, 0, start, start, -1)

	for execute, runs := range map[int64]int{counted: 5, ended: 8, once: 1, none: 0} {
		c.waitForState(execute, "COMPLETE")
		c.eventually("all runs succeeded", 5*time.Second, func() bool {
			return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE EXECUTE_ID = ? AND STATE = 'SUCCEEDED'`, execute) == runs
		})
	}
	c.eventually("the job is complete", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_JOB`) == "COMPLETE" })
}

func TestAnExecuteInsertedOneSecondAheadRunsOnTime(t *testing.T) {
	c := newCluster(t)
	cfg := quick("n1")
	cfg.PollInterval, cfg.NodeTimeout, cfg.MisfireInterval, cfg.MisfireAfter = 0, 0, 0, 0 // the defaults
	c.start(c.open(cfg))
	c.eventually("the node is there", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NOT NULL`) == 1
	})
	job := c.addJob("tick")
	for range 5 {
		at := time.Now().Add(time.Second).UnixMilli()
		execute := c.addExecute(job, "SIMPLE", "", time.Hour, -1, at, at, -1)
		c.ran(1, 3*time.Second, func(f fire) bool { return f.ExecuteID == execute })
	}
	for _, f := range c.fires() {
		require.Less(t, f.StartedAt.Sub(f.FireTime), time.Second)
	}
}

func TestAClassWithoutAHandlerIsLeftAlone(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	at := time.Now().UnixMilli()
	unknown := c.addExecute(c.addJob("elsewhere"), "SIMPLE", "", time.Second, -1, at, at, -1)
	known := c.addExecute(c.addJob("tick"), "SIMPLE", "", 100*time.Millisecond, 60, at, at, -1)
	c.waitForState(known, "COMPLETE") // which takes longer than MisfireAfter
	require.Equal(t, "EXECUTING", c.state(unknown))
	require.Equal(t, int(at), c.count(`SELECT NEXT_FIRE_TIME FROM QRTZ_EXECUTE WHERE ID = ?`, unknown))
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE EXECUTE_ID = ?`, unknown))
}

func TestABadScheduleIsAnErrorUntilItIsCorrected(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	job := c.addJob("tick")
	at := time.Now().UnixMilli()
	bad := c.addExecute(job, "CRON", "0 0 25 * * ?", 0, -1, at, at, -1)
	c.waitForState(bad, "ERROR")
	require.Contains(t, c.text(`SELECT STATE_REASON FROM QRTZ_EXECUTE WHERE ID = ?`, bad), `hours: "25"`)
	c.eventually("the job is in error", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_JOB`) == "ERROR" })

	c.exec(`UPDATE QRTZ_EXECUTE SET CRON = '* * * * * ?' WHERE ID = ?`, bad)
	c.ran(1, 5*time.Second, func(f fire) bool { return f.ExecuteID == bad })
	require.Equal(t, "EXECUTING", c.state(bad))
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE_REASON IS NOT NULL`))
}

func TestMisfirePolicies(t *testing.T) {
	c := newCluster(t)
	job := c.addJob("tick")
	start := time.Now().Add(-10 * time.Second).UnixMilli() // eleven fires are missed, up to now
	end := time.Now().UnixMilli()
	executes := map[string]int64{}
	for _, policy := range []string{"FIRE_ONCE", "SKIP", "CATCH_UP"} {
		executes[policy] = c.addExecute(job, "SIMPLE", "", time.Second, -1, start, start, end)
		c.exec(`UPDATE QRTZ_EXECUTE SET MISFIRE = ?, CATCH_UP_LIMIT = 4 WHERE ID = ?`, policy, executes[policy])
	}
	c.node("n1")
	for policy, runs := range map[string]int{"FIRE_ONCE": 1, "SKIP": 0, "CATCH_UP": 4} {
		execute := executes[policy]
		c.waitForState(execute, "COMPLETE")
		c.eventually(policy, 5*time.Second, func() bool {
			return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE EXECUTE_ID = ? AND STATE = 'SUCCEEDED'`, execute) == runs
		})
		require.Equal(t, 11-runs, c.count(`SELECT SUM(FIRE_COUNT) FROM QRTZ_RUN WHERE EXECUTE_ID = ? AND STATE = 'SKIPPED'`, execute), policy)
		require.Equal(t, 11, c.count(`SELECT TIME_TRIGGERED FROM QRTZ_EXECUTE WHERE ID = ?`, execute), policy)
	}
	// What ran are the latest fires.
	require.Equal(t, 4, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED' AND EXECUTE_ID = ? AND FIRE_TIME > ?`,
		executes["CATCH_UP"], start+6500))
}

func TestDeclareIsIdempotent(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	job := qrtz.Job{Name: "report", Class: "tick", Data: map[string]int{"n": 1}, Schedules: []qrtz.Schedule{
		{Name: "night"}, {Name: "often"},
	}}
	job.Schedules[0] = qrtz.Cron("0 0 2 * * ?", "Europe/Berlin")
	job.Schedules[0].Name = "night"
	job.Schedules[1] = qrtz.Every(time.Hour)
	job.Schedules[1].Name = "often"
	snapshot := func() string {
		return c.text(`SELECT CONCAT(GROUP_CONCAT(CONCAT_WS(',', E.ID, E.STATE, E.CRON, E.NEXT_FIRE_TIME, E.START_TIME, E.CHANGED_AT) ORDER BY E.ID SEPARATOR '; '), ' | ',
			(SELECT CONCAT_WS(',', COUNT(*), MAX(ID), MAX(JOB_DATA), MAX(UPDATE_TIME)) FROM QRTZ_JOB)) FROM QRTZ_EXECUTE E`)
	}
	require.NoError(t, s.Declare(t.Context(), job))
	first := snapshot()
	require.NoError(t, s.Declare(t.Context(), job))
	require.Equal(t, first, snapshot(), "the second start changes nothing")

	c.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE NAME = 'night'`)
	job.Schedules[0] = qrtz.Cron("0 0 3 * * ?", "Europe/Berlin")
	job.Schedules[0].Name = "night"
	require.NoError(t, s.Declare(t.Context(), job))
	require.Equal(t, "0 0 3 * * ?", c.text(`SELECT CRON FROM QRTZ_EXECUTE WHERE NAME = 'night'`))
	require.Equal(t, "PAUSED", c.text(`SELECT STATE FROM QRTZ_EXECUTE WHERE NAME = 'night'`), "an operator's pause stays")
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	require.Equal(t, 3, time.UnixMilli(int64(c.count(`SELECT NEXT_FIRE_TIME FROM QRTZ_EXECUTE WHERE NAME = 'night'`))).In(berlin).Hour())

	job.Schedules = job.Schedules[:1]
	require.NoError(t, s.Declare(t.Context(), job))
	require.Equal(t, "COMPLETE", c.text(`SELECT STATE FROM QRTZ_EXECUTE WHERE NAME = 'often'`))
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE`))

	job.Schedules = append(job.Schedules, qrtz.Every(time.Hour))
	require.ErrorContains(t, s.Declare(t.Context(), job), `schedule 2 of 2 has no name`)
	job.Schedules[1].Name = "often"
	require.NoError(t, s.Declare(t.Context(), job))
	require.Equal(t, "EXECUTING", c.text(`SELECT STATE FROM QRTZ_EXECUTE WHERE NAME = 'often'`))
}

func TestDeclareRefusesWhatCannotWork(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	good := qrtz.Job{Name: "good", Class: "tick", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour)}}
	for want, job := range map[string]qrtz.Job{
		`a job needs a name`:      {Class: "tick"},
		`day-of-week`:             {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 2 ? * MON-FRI/2", "")}},
		`Europe/Berlin`:           {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 2 * * ?", "Europe/Berln")}},
		`REPEAT_INTERVAL`:         {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(0)}},
		`want whole milliseconds`: {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Microsecond)}},
		`misfire policy "NEVER"`:  {Name: "bad", Schedules: []qrtz.Schedule{{Misfire: "NEVER"}}},
		`unsupported type`:        {Name: "bad", Data: make(chan int)},
		`JOB_TYPE ""`:             {Name: "bad", Schedules: []qrtz.Schedule{{}}},
	} {
		require.ErrorContains(t, s.Declare(t.Context(), good, job), want)
		require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_JOB`), "nothing is half-written")
	}
}
