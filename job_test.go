package qrtz_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

func TestHistoryKeepsWhatItsJobWants(t *testing.T) {
	c := newCluster(t)
	rows := make(chan int, 10) // of a job, as its handler sees them
	cfg := quick("n1")
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "mixed", func(_ context.Context, run *qrtz.Run, fail bool) error {
			rows <- c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ?`, run.JobID)
			if fail {
				return errors.New("as asked")
			}
			return nil
		})
	})
	for name, history := range map[string]qrtz.History{"a": qrtz.HistoryAll, "f": qrtz.HistoryFailed, "n": qrtz.HistoryNone} {
		for _, fail := range []bool{true, false} {
			job := qrtz.Job{Name: name, Class: "mixed", Data: fail, Options: qrtz.Options{History: history}, Schedules: []qrtz.Schedule{qrtz.At(time.Now())}}
			if fail {
				job.Name += "!"
			}
			require.NoError(t, s.Declare(t.Context(), job))
		}
	}
	n := c.start(s)
	seen := map[int]int{}
	for range 6 {
		seen[<-rows]++
	}
	n.halt()
	require.Equal(t, map[int]int{0: 2, 1: 4}, seen, "NONE writes no row at all")
	require.Equal(t, "a SUCCEEDED, a! FAILED, f! FAILED", c.text(
		`SELECT GROUP_CONCAT(J.NAME, ' ', R.STATE ORDER BY J.NAME SEPARATOR ', ') FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID`))
}

func TestRunNowBySQL(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	data := map[int64]string{}
	open := func(id string) *qrtz.Scheduler {
		return c.open(quick(id), func(s *qrtz.Scheduler) {
			qrtz.Handle(s, "print", func(_ context.Context, run *qrtz.Run, what json.RawMessage) error {
				c.record(run)
				mu.Lock()
				defer mu.Unlock()
				data[run.ID] = string(what)
				return nil
			})
		})
	}
	s := open("n1")
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "print", Data: "the job's"}))
	c.start(s)
	c.start(open("n2"))
	c.eventually("both have joined", 5*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NOT NULL`) == 2 })
	job := c.count(`SELECT ID FROM QRTZ_JOB`)
	for i, own := range []any{nil, `"its own"`} {
		asked := time.Now()
		done := c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, JOB_DATA) VALUES ('test', ?, ?)`, job, own)
		id, err := done.LastInsertId()
		require.NoError(t, err)
		c.ran(i+1, within, all)
		f := c.fires()[i]
		require.Equal(t, id, f.ID)
		require.Zero(t, f.ScheduleID)
		require.WithinDuration(t, asked, f.FireTime, within, "it was due when it was first seen")
		c.eventually("it has ended", within, func() bool { return c.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, id) == "SUCCEEDED" })
		mu.Lock()
		require.Equal(t, []string{`"the job's"`, `"its own"`}[i], data[id])
		mu.Unlock()
	}
}

// crowd counts how many runs of a handler go at once, anywhere in the cluster.
type crowd struct{ now, most atomic.Int32 }

func (w *crowd) enter() { w.most.Store(max(w.most.Load(), w.now.Add(1))) }

func (w *crowd) leave() { w.now.Add(-1) }

// slow is a handler that takes much longer than the time between fires.
func (c *cluster) slow(w *crowd) func(*qrtz.Scheduler) {
	return func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "slow", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			w.enter()
			defer w.leave()
			c.record(run)
			select {
			case <-ctx.Done():
			case <-time.After(250 * time.Millisecond):
			}
			return nil
		})
	}
}

// crowded has three nodes run a job that is slower than its rate, and returns how many runs went at once.
func crowded(t *testing.T, c *cluster, rule qrtz.Overlap, prepare string) int32 {
	t.Helper()
	if prepare != "" {
		c.exec(prepare)
	}
	var w crowd
	var nodes []*testNode
	for i := range 3 {
		nodes = append(nodes, c.start(c.open(patient(fmt.Sprint("n", i)), c.slow(&w))))
	}
	job := qrtz.Job{Name: "slow", Options: qrtz.Options{Overlap: rule, QueueLimit: 2}}
	for i := range 3 { // each may have an owner of its own
		every := qrtz.Every(150 * time.Millisecond)
		every.Name = fmt.Sprint(i)
		job.Schedules = append(job.Schedules, every)
	}
	require.NoError(t, nodes[0].Declare(t.Context(), job))
	c.ran(8, 15*time.Second, all)
	for _, n := range nodes {
		n.halt()
	}
	return w.most.Load()
}

func TestOnlyOneRunAtATime(t *testing.T) {
	for _, rule := range []qrtz.Overlap{qrtz.OverlapSkip, qrtz.OverlapQueue} {
		t.Run(string(rule), func(t *testing.T) {
			c := newCluster(t)
			require.Equal(t, int32(1), crowded(t, c, rule, ""))
			skipped := `SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND FINISHED_AT IS NOT NULL AND MESSAGE LIKE 'overlap: %'`
			require.GreaterOrEqual(t, c.count(skipped), 5)
			require.Equal(t, c.count(skipped), c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED'`), "each with its reason")
			require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE E WHERE TIME_TRIGGERED <> (SELECT COUNT(*) FROM QRTZ_RUN R WHERE R.EXECUTE_ID = E.ID)`),
				"each fire has its row")
		})
	}
}

func TestMaxRunningHoldsInTheWholeCluster(t *testing.T) {
	c := newCluster(t)
	var w crowd
	var nodes []*testNode
	for i := range 3 {
		nodes = append(nodes, c.start(c.open(patient(fmt.Sprint("n", i)), c.slow(&w))))
	}
	job := qrtz.Job{Name: "slow", Options: qrtz.Options{MaxRunning: 2}}
	for i := range 3 {
		every := qrtz.Every(150 * time.Millisecond)
		every.Name, every.Count = fmt.Sprint(i), 4
		job.Schedules = append(job.Schedules, every)
	}
	require.NoError(t, nodes[0].Declare(t.Context(), job))
	for range 3 {
		_, err := nodes[0].Enqueue(t.Context(), "slow", nil)
		require.NoError(t, err)
	}
	c.ran(15, 30*time.Second, all)
	for _, n := range nodes {
		n.halt()
	}
	require.Equal(t, int32(2), w.most.Load())
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE <> 'SUCCEEDED'`), "what is beyond it was pending, not skipped")
}

// It is the unique key that makes it so, not timing.
func TestWithoutTheKeyRunsOverlap(t *testing.T) {
	c := newCluster(t)
	require.Greater(t, crowded(t, c, qrtz.OverlapSkip, `ALTER TABLE QRTZ_RUN DROP KEY QRTZ_RUN_OVERLAP, ADD KEY QRTZ_RUN_OVERLAP (OVERLAP_KEY, LINE_JOB, LINE_AT)`), int32(1))
}

func TestAllowLetsThemRunBesideEachOther(t *testing.T) {
	require.Greater(t, crowded(t, newCluster(t), qrtz.OverlapAllow, ""), int32(1))
}

func TestTheQueueRunsTheNewestInOrderAfterwards(t *testing.T) {
	c := newCluster(t)
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	hold := func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "hold", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
			c.record(run)
			<-release
			return nil
		})
	}
	n := c.start(c.open(patient("n1"), hold))
	c.start(c.open(patient("n2"), hold))
	c.start(c.open(patient("n3"), hold))
	t.Cleanup(letGo)
	every := qrtz.Every(200 * time.Millisecond)
	every.Count = 9
	job := qrtz.Job{Name: "hold", Options: qrtz.Options{Overlap: qrtz.OverlapQueue, QueueLimit: 3}, Schedules: []qrtz.Schedule{every}}
	require.NoError(t, n.Declare(t.Context(), job))
	c.eventually("all fires have come", 10*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_EXECUTE`) == "COMPLETE" })
	c.eventually("all but the newest three are skipped", 10*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND MESSAGE LIKE '%QUEUE_LIMIT%'`) == 5
	})
	require.Len(t, c.fires(), 1)
	letGo()
	c.ran(4, 10*time.Second, all)
	first := c.fires()[0].FireTime
	for i, f := range c.fires()[1:] {
		require.Equal(t, first.Add(time.Duration(6+i)*200*time.Millisecond).UnixMilli(), f.FireTime.UnixMilli(), "the newest three, in order")
	}
}

// A schedule faster than a claim's lead is not taken to overlap itself: short runs all go.
func TestShortRunsOfAFastExclusiveScheduleDoNotSkipEachOther(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	ticking(t, n.Scheduler, 300, time.Second) // a crowd, which is claimed up to a second early
	require.NoError(t, n.Declare(t.Context(), qrtz.Job{
		Name: "alone", Class: "tick", Schedules: []qrtz.Schedule{qrtz.Every(200 * time.Millisecond)}, Options: qrtz.Options{Overlap: qrtz.OverlapSkip},
	}))
	job := c.count(`SELECT ID FROM QRTZ_JOB WHERE NAME = 'alone'`)
	c.ran(20, 15*time.Second, func(f fire) bool { return f.JobID == int64(job) })
	skipped := c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE JOB_ID = ? AND STATE = 'SKIPPED'`, job)
	require.LessOrEqual(t, skipped, 2, "a busy machine may hold up a run for 200 ms")
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
		c.ran(1, 3*time.Second, func(f fire) bool { return f.ScheduleID == execute })
	}
	for _, f := range c.fires() {
		require.Less(t, f.StartedAt.Sub(f.FireTime), within)
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
	c.ran(1, 5*time.Second, func(f fire) bool { return f.ScheduleID == bad })
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
		`a job needs a name`:        {Class: "tick"},
		`day-of-week`:               {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 2 ? * MON-FRI/2", "")}},
		`Europe/Berlin`:             {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 2 * * ?", "Europe/Berln")}},
		`Every(0s): want at`:        {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(0, qrtz.Times(1))}},
		`Every(-1s): want at`:       {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(-time.Second)}},
		`want whole milliseconds`:   {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Millisecond + time.Microsecond)}},
		`rate (963635h`:             {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(110*365*24*time.Hour + 35*time.Hour)}},
		`At: the zero time`:         {Name: "bad", Schedules: []qrtz.Schedule{qrtz.At(time.Time{})}},
		`Starting: the zero`:        {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour, qrtz.Starting(time.Time{}))}},
		`Ending: the zero`:          {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour, qrtz.Ending(time.Time{}))}},
		`End (1970-`:                {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour, qrtz.Starting(time.Unix(0, 0)), qrtz.Ending(time.Unix(0, 0)))}},
		`Start (1970-`:              {Name: "bad", Schedules: []qrtz.Schedule{qrtz.At(time.Unix(1, 0))}},
		`Times(0): want at`:         {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour, qrtz.Times(0))}},
		`Count (-2) must be at`:     {Name: "bad", Schedules: []qrtz.Schedule{{Count: -2}}},
		`CatchUpLimit (-2)`:         {Name: "bad", Schedules: []qrtz.Schedule{{CatchUpLimit: -2}}},
		`CatchUpLimit (1001)`:       {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour, qrtz.CatchingUp(1001))}},
		`CatchingUp(0): want`:       {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour, qrtz.CatchingUp(0))}},
		`the data has 65536`:        {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour, qrtz.WithData(strings.Repeat("x", 65534)))}},
		`data: json: unsupp`:        {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour, qrtz.WithData(make(chan int)))}},
		`KeepFor (-1ns) must`:       {Name: "bad", Options: qrtz.Options{KeepFor: -1}},
		`Timeout (-1ns) must`:       {Name: "bad", Options: qrtz.Options{Timeout: -1}},
		`Backoff (-1s) must`:        {Name: "bad", Options: qrtz.Options{Backoff: -time.Second}},
		`Backoff (2562047h`:         {Name: "bad", Options: qrtz.Options{Backoff: qrtz.Forever}},
		`Attempts (-2) must`:        {Name: "bad", Options: qrtz.Options{Attempts: -2}},
		`QueueLimit (-2) must`:      {Name: "bad", Options: qrtz.Options{QueueLimit: -2}},
		`KeepRuns (-2) must`:        {Name: "bad", Options: qrtz.Options{KeepRuns: -2}},
		`misfire policy "NEVER"`:    {Name: "bad", Schedules: []qrtz.Schedule{{Misfire: "NEVER"}}},
		`unsupported type`:          {Name: "bad", Data: make(chan int)},
		`make it with Cron, Every`:  {Name: "bad", Schedules: []qrtz.Schedule{{}}},
		`Every(1.5ms): want whole`:  {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(1500 * time.Microsecond)}},
		`Count of 2147483648: want`: {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour, qrtz.Times(math.MaxInt32+1))}},
		`Attempts (2147483648)`:     {Name: "bad", Options: qrtz.Options{Attempts: math.MaxInt32 + 1}},
		`QueueLimit (2147483648)`:   {Name: "bad", Options: qrtz.Options{QueueLimit: math.MaxInt32 + 1}},
		`KeepRuns (2147483648)`:     {Name: "bad", Options: qrtz.Options{KeepRuns: math.MaxInt32 + 1}},
		`option 0 is nil`:           {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour, nil)}},
		`" " begins or ends with`:   {Name: " "},
		`"bad " begins or ends`:     {Name: "bad "},
		`"b\xff" is not UTF-8`:      {Name: "b\xff"},
		`class "b " begins or`:      {Name: "bad", Class: "b "},
		`schedule "s ": the name "`: {Name: "bad", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour, qrtz.Named("s "))}},
	} {
		require.ErrorContains(t, s.Declare(t.Context(), good, job), want)
		require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_JOB`), "nothing is half-written")
	}
}
