package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qrtz-go/qrtz/internal/proof/check"
)

// account is what handlers say who started a fire, n seconds after t0, on time.
func account(fires ...float64) []check.Start {
	starts := make([]check.Start, len(fires))
	for i, f := range fires {
		starts[i] = check.Start{ExecuteID: 1, FireTime: time.UnixMilli(at(f)), StartedAt: time.UnixMilli(at(f)), Node: "node-1"}
	}
	return starts
}

// TestRowsThatHistoryDoesNotKeep leaves rows of the fires 1 and 2 only; the job's options and the account vary.
func TestRowsThatHistoryDoesNotKeep(t *testing.T) {
	for _, c := range []struct {
		name, set              string
		record                 []check.Start
		run, untraced, missing int
	}{
		{"all are kept", `HISTORY = 'ALL'`, nil, 2, 0, 3},
		{"failed, no account", `HISTORY = 'FAILED'`, nil, 2, 3, 0},
		{"none, no account", `HISTORY = 'NONE'`, nil, 2, 3, 0},
		{"failed, the handlers did it", `HISTORY = 'FAILED'`, account(0, 1, 2, 3, 4), 5, 0, 0},
		{"none, the handlers did it", `HISTORY = 'NONE'`, account(0, 1, 2, 3, 4), 5, 0, 0},
		{"failed, no handler did one", `HISTORY = 'FAILED'`, account(0, 1, 2, 3), 4, 0, 1},
		{"none, no handler did one: it may have been claimed by a node that died", `HISTORY = 'NONE'`, account(0, 1, 2, 3), 4, 1, 0},
		{"none, with a row while it goes", `HISTORY = 'NONE', RECOVERY = 1`, account(0, 1, 2, 3), 4, 0, 1},
		{"cleaned by age", `KEEP_FOR = 1000`, nil, 2, 3, 0},
		{"cleaned by number", `KEEP_RUNS = 2`, nil, 2, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.exec(`DELETE FROM QRTZ_RUN WHERE FIRE_TIME NOT IN (?, ?)`, at(1), at(2))
			w.exec(`UPDATE QRTZ_JOB SET ` + c.set)
			r := w.check(func(o *check.Options) { o.Record = told(c.record) })
			assert.Equal(t, []int{5, c.run, c.untraced, c.missing}, []int{r.Expected, r.Run, r.Untraced, r.Missing})
			assert.Equal(t, c.missing == 0, r.Ok())
		})
	}
}

// told hands an account over as check.Options.Record wants it.
func told(record []check.Start) func() ([]check.Start, error) {
	return func() ([]check.Start, error) { return record, nil }
}

func TestAnAccountIsJudgedWithoutRowsToo(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_JOB SET HISTORY = 'NONE'`)
	w.exec(`DELETE FROM QRTZ_RUN`)
	record := account(0, 1, 1, 2, 3, 4, 4.5)
	record[3].StartedAt = record[3].FireTime.Add(-time.Millisecond)
	record[4].Node = "ghost"
	r := w.check(func(o *check.Options) { o.Record = told(record) })
	assert.Equal(t, []int{5, 1, 1, 1, 0, 1}, []int{r.Run, r.Double, r.Early, r.NoNode, r.NoRun, r.Unscheduled})
}

func TestALaterAttemptOfWhichNoRowIsKept(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_JOB SET HISTORY = 'FAILED', RECOVERY = 1`)
	w.exec(`DELETE FROM QRTZ_RUN WHERE FIRE_TIME <> ?`, at(2))
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'LOST'`)
	record := append(account(0, 1, 2, 3, 4), account(2)...)
	record[5].Attempt = 2
	r := w.check(func(o *check.Options) { o.Record = told(record) })
	assert.True(t, r.Ok())
	assert.Equal(t, []int{5, 0}, []int{r.Run, r.Lost})
}

func TestFurtherAttemptsAreNoDoubles(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'FAILED' WHERE FIRE_TIME = ?`, at(1))
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'LOST' WHERE FIRE_TIME = ?`, at(2))
	w.run(at(1), 2, "FAILED", 100)
	w.run(at(1), 3, "SUCCEEDED", 200)
	w.run(at(2), 2, "SUCCEEDED", 9000)
	record := append(account(0, 1, 2, 3, 4), account(1, 1, 2)...)
	record[5].Attempt, record[6].Attempt, record[7].Attempt = 2, 3, 2
	r := w.check(func(o *check.Options) { o.Record = told(record) })
	assert.True(t, r.Ok())
	assert.Equal(t, []int{5, 5, 0}, []int{r.Expected, r.Run, r.Double})
}

func TestFiresSkippedByAnOverlapRule(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_JOB SET OVERLAP = 'QUEUE'`)
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'SKIPPED', HOST_IP = NULL, INSTANCE = NULL, STARTED_AT = NULL, FINISHED_AT = CLAIMED_AT
		WHERE FIRE_TIME IN (?, ?)`, at(1), at(2))
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'FAILED' WHERE FIRE_TIME = ?`, at(3))
	w.run(at(3), 2, "SKIPPED", 0)
	w.exec(`UPDATE QRTZ_RUN SET STARTED_AT = NULL WHERE ATTEMPT = 2`)
	r := w.check()
	assert.True(t, r.Ok())
	assert.Equal(t, []int{5, 3, 2}, []int{r.Expected, r.Run, r.Skipped})
}

func TestASkippedAttemptAfterOneOfWhichNoRowIsKept(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_JOB SET OVERLAP = 'QUEUE', HISTORY = 'NONE', ATTEMPTS = 2`)
	w.exec(`DELETE FROM QRTZ_RUN`)
	w.run(at(1), 2, "SKIPPED", 0)
	w.exec(`UPDATE QRTZ_RUN SET STARTED_AT = NULL`)
	r := w.check(func(o *check.Options) { o.Record = told(account(0, 1, 2, 3, 4)) })
	assert.True(t, r.Ok())
	assert.Equal(t, []int{5, 0, 0}, []int{r.Run, r.Skipped, r.Unscheduled})
}

func TestCancelledRunsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'CANCELLED', HOST_IP = NULL, INSTANCE = NULL, STARTED_AT = NULL WHERE FIRE_TIME = ?`, at(1))
	r := w.check()
	assert.True(t, r.Ok())
	assert.Equal(t, []int{5, 4, 1}, []int{r.Expected, r.Run, r.Cancelled})
}

// TestOverlapsAreFound lets each run go for half a second.
func TestOverlapsAreFound(t *testing.T) {
	for _, c := range []struct {
		name, set, rule string
		most, want      int
	}{
		{"one after the other", `FIRE_COUNT = 1`, "QUEUE", 0, 0},
		{"one goes into the next", `FINISHED_AT = FIRE_TIME + 1500`, "QUEUE", 0, 1},
		{"one goes over all that follow", `FINISHED_AT = FIRE_TIME + 60000`, "SKIP", 0, 3},
		{"as it may", `FINISHED_AT = FIRE_TIME + 1500`, "ALLOW", 0, 0},
		{"by less than clocks are good for", `FINISHED_AT = FIRE_TIME + 1008`, "SKIP", 0, 0},
		{"it still runs", `STATE = 'RUNNING', FINISHED_AT = NULL`, "SKIP", 0, 3},
		{"two may go, and one goes over all that follow", `FINISHED_AT = FIRE_TIME + 60000`, "SKIP", 2, 0},
		{"more than one may not", `FINISHED_AT = FIRE_TIME + 60000`, "ALLOW", 1, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.exec(`UPDATE QRTZ_JOB SET OVERLAP = ?, MAX_RUNNING = ?`, c.rule, c.most)
			w.exec(`UPDATE QRTZ_RUN SET FINISHED_AT = FIRE_TIME + 500`)
			w.exec(`UPDATE QRTZ_RUN SET `+c.set+` WHERE FIRE_TIME = ?`, at(1))
			r := w.check()
			assert.Equal(t, c.want, r.Overlap)
			assert.Equal(t, c.want == 0, r.Ok())
		})
	}
}

// Each run lasts two and a half seconds, and one begins each second: three go at a time.
func TestMoreRunsThanMayGoAreFound(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_RUN SET FINISHED_AT = FIRE_TIME + 2500`)
	for most, want := range map[int]int{1: 4, 2: 3, 3: 0} {
		w.exec(`UPDATE QRTZ_JOB SET MAX_RUNNING = ?`, most)
		assert.Equal(t, want, w.check().Overlap, "%d may go", most)
	}
}

func TestRunsByHandOverlapToo(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_JOB SET OVERLAP = 'SKIP'`)
	w.exec(`UPDATE QRTZ_RUN SET FINISHED_AT = FIRE_TIME + 500`)
	w.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE, HOST_IP, INSTANCE, STARTED_AT, FINISHED_AT)
		VALUES ('a', 1, ?, 'SUCCEEDED', 'node-1', 7, ?, ?)`, at(1.2), at(1.2), at(1.4))
	assert.Equal(t, 1, w.check().Overlap)
}

func TestOverlapsByTheHandlersAccount(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_JOB SET OVERLAP = 'SKIP'`)
	w.exec(`CREATE TABLE DONE (EXECUTE_ID BIGINT, FIRE_TIME BIGINT, ATTEMPT INT, NODE VARCHAR(50), STARTED_AT BIGINT, FINISHED_AT BIGINT)`)
	for s := range 5 {
		w.exec(`INSERT INTO DONE VALUES (1, ?, 1, 'node-1', ?, ?)`, at(float64(s)), at(float64(s)), at(float64(s)+0.5))
	}
	table := func(o *check.Options) { o.RecordTable = "DONE" }
	assert.True(t, w.check(table).Ok())
	w.exec(`UPDATE DONE SET FINISHED_AT = ? WHERE FIRE_TIME = ?`, at(2.2), at(1))
	assert.Equal(t, 1, w.check(table).Overlap)
	w.exec(`UPDATE DONE SET FINISHED_AT = NULL WHERE FIRE_TIME = ?`, at(1))
	assert.True(t, w.check(table).Ok(), "a run that was killed has no end")
}

// A node's clock that was measured over a slow connection is behind: its start is not taken for earlier than its claim.
func TestARunBeginsNotBeforeItsClaim(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_JOB SET OVERLAP = 'QUEUE'`)
	w.exec(`UPDATE QRTZ_RUN SET FINISHED_AT = FIRE_TIME + 900`)
	w.exec(`UPDATE QRTZ_RUN SET FINISHED_AT = ? WHERE FIRE_TIME = ?`, at(2.5), at(1))
	w.exec(`UPDATE QRTZ_RUN SET STARTED_AT = ?, CLAIMED_AT = ? WHERE FIRE_TIME = ?`, at(2.4), at(2.5), at(2))
	assert.True(t, w.check().Ok())
	w.exec(`UPDATE QRTZ_RUN SET CLAIMED_AT = ? WHERE FIRE_TIME = ?`, at(2.4), at(2))
	assert.Equal(t, 1, w.check().Overlap)
}

// Of five fires 2 and 3 were passed over, for the app was off; 1 ran, though it was due in the same time. So 4, 5 and 6 are left,
// also for who looks at no fire before 5.
func TestALimitedNumberOfFiresIsCountedFromTheBeginning(t *testing.T) {
	w := newWorld(t)
	w.exec(`DELETE FROM QRTZ_RUN WHERE FIRE_TIME IN (?, ?)`, at(2), at(3))
	w.run(at(5), 1, "SUCCEEDED", 3)
	w.run(at(6), 1, "SUCCEEDED", 3)
	off := func(o *check.Options) {
		o.Off = []check.Span{{From: time.UnixMilli(at(0.5)), Until: time.UnixMilli(at(3.5))}}
	}
	since := func(o *check.Options) { o.From = time.UnixMilli(at(5)) }
	all, late := w.check(off), w.check(off, since)
	assert.True(t, all.Ok())
	assert.True(t, late.Ok())
	assert.Equal(t, []int{5, 2}, []int{all.Expected, late.Expected})
}

func TestWhatNobodyIsHeldTo(t *testing.T) {
	w := newWorld(t)
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'FAILED'`)
	w.exec(`UPDATE QRTZ_RUN SET STATE = 'PENDING', STARTED_AT = NULL WHERE FIRE_TIME = ?`, at(4))
	record := append(account(0, 1, 2, 3, 4), account(0.5, 4)...)
	record[5].ExecuteID = 99                                                                     // that is no longer stored
	record[4].StartedAt, record[6].FireTime = time.Now().Add(time.Hour), time.UnixMilli(at(4.5)) // after the rows were read
	record[6].StartedAt = record[4].StartedAt
	assert.True(t, w.check(func(o *check.Options) { o.Record = told(record) }).Ok())
}
