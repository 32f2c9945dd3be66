package execute

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

// engine is a store with connections of the engine's own: packets, and a short wait for locks.
func (f *tables) engine() *Store {
	f.t.Helper()
	link, err := schema.Dial(f.dsn)
	require.NoError(f.t, err)
	db := link.Pool(4)
	f.t.Cleanup(func() { require.NoError(f.t, db.Close()) })
	return newStore(db)
}

// claimed are runs of as many schedules, claimed by an instance.
func (f *tables) claimed(who node.Instance, n int) []run.Run {
	f.t.Helper()
	f.addMany(n)
	runs := f.claim(who, 1, f.due(noon)...).Runs
	require.Len(f.t, runs, n)
	return runs
}

// results are of all kinds: kept, deleted, and tried again.
func resultsOf(runs []run.Run) (results []run.Result) {
	for i, r := range runs {
		result := run.Result{Run: r, State: run.Succeeded, Started: at(1), Finished: at(2), Message: fmt.Sprint("done ", i), Progress: -1}
		switch i % 3 {
		case 1:
			result.Run.Options.History = run.HistoryFailed
		case 2:
			result = failed(r, at(30))
		}
		results = append(results, result)
	}
	return results
}

// holding keeps a transaction open that has carried out a statement.
func (f *tables) holding(statement string, args ...any) (end func()) {
	f.t.Helper()
	tx, err := f.BeginTxx(context.Background(), nil)
	require.NoError(f.t, err)
	_, err = tx.Exec(statement, args...)
	require.NoError(f.t, err)
	return func() { _ = tx.Rollback() }
}

func TestARefusedMessageCostsTheOthersNothing(t *testing.T) {
	for name, change := range map[string]string{
		"latin1":  `ALTER TABLE QRTZ_RUN MODIFY MESSAGE TEXT CHARACTER SET latin1`,
		"utf8mb3": `ALTER TABLE QRTZ_RUN MODIFY MESSAGE TEXT CHARACTER SET utf8mb3`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			store := f.engine()
			f.exec(change)
			f.exec(`UPDATE QRTZ_JOB SET ATTEMPTS = 3`)
			results := resultsOf(f.claimed(f.join("n1"), 90))
			for _, i := range []int{0, 41, 44, 45} { // 41 and 44 are to be tried again
				results[i].Message = "no paper \U0001F600"
			}
			done, err := store.runs.Complete(t.Context(), results)
			require.NoError(t, err)
			require.Zero(t, done.Late)
			require.Len(t, done.Refused, 4)
			require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
			require.Equal(t, int64(30), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`))
			require.Equal(t, int64(30), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'FAILED'`))
			require.Equal(t, int64(30), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND ATTEMPT = 2`))
			require.Equal(t, int64(4), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE MESSAGE LIKE 'no paper ? (in ASCII, since the server refused%'`))
		})
	}
}

func TestWhatTheServerRefusesIsStoredAsFarAsItTakesIt(t *testing.T) {
	for name, c := range map[string]struct {
		refuses string
		result  func(*run.Result)
		stored  bool
		want    string // of the row
	}{
		"a short column":           {`MODIFY MESSAGE VARCHAR(40)`, func(r *run.Result) { r.Message = strings.Repeat("x", 41) }, true, "FAILED,-,2"},
		"any message":              {`ADD CHECK (MESSAGE IS NULL)`, func(*run.Result) {}, true, "FAILED,-,2"},
		"a further attempt":        {`ADD CHECK (ATTEMPT < 2)`, func(*run.Result) {}, true, "FAILED,no paper (in ASCII,1"},
		"an attempt and a message": {`ADD CHECK (ATTEMPT < 2 AND MESSAGE IS NULL)`, func(*run.Result) {}, true, "FAILED,-,1"},
		"the state":                {`ADD CHECK (STATE <> 'FAILED')`, func(*run.Result) {}, false, "RUNNING,-,1"},
		"a progress":               {`ADD CHECK (PROGRESS < 50)`, func(r *run.Result) { r.Progress = 50 }, true, "FAILED,-,2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			store := f.engine()
			f.exec(`ALTER TABLE QRTZ_RUN ` + c.refuses)
			runs := f.claimed(f.join("n1"), 3)
			bad := failed(runs[1], at(30))
			c.result(&bad)
			done, err := store.runs.Complete(t.Context(), []run.Result{{Run: runs[0], State: run.Succeeded}, bad, {Run: runs[2], State: run.Succeeded}})
			require.NoError(t, err)
			refused := done.Refused
			if strings.Contains(c.refuses, "CHECK (ATTEMPT < 2 AND MESSAGE") || !strings.Contains(c.refuses, "STATE") {
				require.Equal(t, int64(2), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`))
			}
			require.Len(t, refused, 1)
			require.Equal(t, c.stored, refused[0].Stored)
			row := f.text(`SELECT CONCAT_WS(',', STATE, COALESCE(LEFT(MESSAGE, 18), '-'), (SELECT COUNT(*) FROM QRTZ_RUN R WHERE R.EXECUTE_ID = QRTZ_RUN.EXECUTE_ID))
				FROM QRTZ_RUN WHERE ID = ?`, runs[1].ID)
			require.Equal(t, c.want, row)
		})
	}
}

// An attempt at the limit of its column is the last; nothing fails for it.
func TestAttemptsAtTheirLimit(t *testing.T) {
	const maxFence = 9_000_000_000_000_000_000
	f := newTables(t)
	f.dropChecks()
	store := f.engine()
	who := f.join("n1")
	runs := f.claimed(who, 6)
	f.exec(`UPDATE QRTZ_RUN SET ATTEMPT = 2000000000 WHERE ID IN (?, ?)`, runs[1].ID, runs[4].ID)
	f.exec(`UPDATE QRTZ_RUN SET RECOVERIES = 2147483647 WHERE ID = ?`, runs[3].ID)
	f.exec(`UPDATE QRTZ_RUN SET FENCE = ? WHERE ID = ?`, maxFence, runs[5].ID)
	f.exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	first := failed(runs[0], at(30))
	last, unaware := failed(runs[1], at(30)), failed(runs[1], at(30))
	last.Run.Attempt = run.MaxAttempt
	done, err := store.runs.Complete(t.Context(), []run.Result{first, last, failed(runs[2], at(30))})
	require.NoError(t, err)
	require.Empty(t, done.Refused)
	require.Equal(t, "no paper (no further attempt: ATTEMPT is at its limit)", f.text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, runs[1].ID))
	require.Equal(t, int64(2), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
	f.exec(`UPDATE QRTZ_RUN SET STATE = 'RUNNING' WHERE ID = ?`, runs[1].ID)
	_, err = store.runs.Complete(t.Context(), []run.Result{unaware}) // as after a change by SQL
	require.NoError(t, err)
	require.Equal(t, "FAILED", f.runState(runs[1].ID))

	lost, err := store.runs.Lose(t.Context(), who.ID, "its node died")
	require.NoError(t, err)
	require.Len(t, lost, 3)
	require.Contains(t, f.text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, runs[4].ID), "no further attempt: ATTEMPT is at its limit")
	require.Equal(t, "its node died", f.text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, runs[3].ID), "recovered too often")
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE RECOVERS = ? AND FENCE = ?`, runs[5].ID, maxFence))
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE RECOVERS IS NOT NULL`))
}

func TestALockedRunDelaysOnlyItsOwnResult(t *testing.T) {
	f := newTables(t)
	store := f.engine()
	results := resultsOf(f.claimed(f.join("n1"), 90))
	var locked []int64
	for _, r := range []run.Result{results[0], results[40], results[41]} {
		locked = append(locked, r.Run.ID)
	}
	end := f.holding(`UPDATE QRTZ_RUN SET PROGRESS = 1 WHERE ID IN (?, ?, ?)`, locked[0], locked[1], locked[2])
	defer end()
	began := time.Now()
	done, err := store.runs.Complete(t.Context(), results)
	require.NoError(t, err)
	require.Less(t, time.Since(began), 5*time.Second)
	require.Len(t, done.Locked, 3)
	require.Equal(t, int64(3), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
	began = time.Now()
	again, err := store.runs.Complete(t.Context(), done.Locked)
	require.NoError(t, err)
	require.Len(t, again.Locked, 3)
	require.Less(t, time.Since(began), 500*time.Millisecond, "it looks before it waits")
	end()
	again, err = store.runs.Complete(t.Context(), again.Locked)
	require.NoError(t, err)
	require.Empty(t, again.Locked)
	require.Zero(t, again.Late)
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
}

// A lock on an entry of an index is on no row that could be skipped.
func TestALockedOverlapKeyDelaysFewResults(t *testing.T) {
	f := newTables(t)
	store := f.engine()
	who := f.join("n1")
	job, schedule := f.exclusive(run.OverlapQueue, 10)
	exclusive := f.claim(who, 1, schedule).Runs
	runs := append(exclusive, f.claimed(who, 60)...)
	end := f.holding(`INSERT IGNORE INTO QRTZ_RUN (APPLICATION, JOB_ID, OVERLAP_KEY) VALUES ('a', 999, ?)`, job)
	defer end()
	var results []run.Result
	for _, r := range runs {
		results = append(results, run.Result{Run: r, State: run.Succeeded, Progress: -1})
	}
	began := time.Now()
	done, err := store.runs.Complete(t.Context(), results)
	require.NoError(t, err)
	require.Less(t, time.Since(began), 5*time.Second)
	require.NotEmpty(t, done.Locked)
	require.Equal(t, exclusive[0].ID, done.Locked[0].Run.ID)
	for range 5 {
		if len(done.Locked) == 1 {
			break
		}
		done, err = store.runs.Complete(t.Context(), done.Locked)
		require.NoError(t, err)
	}
	require.Len(t, done.Locked, 1)
	end()
	done, err = store.runs.Complete(t.Context(), done.Locked)
	require.NoError(t, err)
	require.Empty(t, done.Locked)
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
}

// A run that the same instance has claimed again is another run: neither results, nor news, nor attempts of the first
// claim are its.
func TestResultsBelongToTheirClaim(t *testing.T) {
	f := newTables(t)
	store := f.engine()
	who := f.join("n1")
	one := f.byHand(f.job, "")
	first := f.claimWaiting(who, one)[0]
	f.handBack(f.store, []run.Run{first})
	second := f.claimWaiting(who, one)[0]
	require.Equal(t, first.Instance, second.Instance)
	dropped := run.Result{Run: first, State: run.Succeeded, Started: at(1), Finished: at(2)}
	dropped.Run.Options.History = run.HistoryNone
	for _, r := range []run.Result{{Run: first, State: run.Succeeded, Started: at(1), Finished: at(2)}, dropped, failed(first, at(30))} {
		done, err := store.runs.Complete(t.Context(), []run.Result{r})
		require.NoError(t, err)
		require.Equal(t, 1, done.Late)
	}
	_, err := store.runs.Attend(t.Context(), []run.Underway{{Run: first, Started: at(1), Progress: 50, Message: "not mine"}}, nil)
	require.NoError(t, err)
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND PROGRESS IS NULL AND MESSAGE IS NULL`))
	done, err := store.runs.Complete(t.Context(), []run.Result{failed(second, at(30))})
	require.NoError(t, err)
	require.Zero(t, done.Late)
}

// A run without a schedule has no unique key: that the second try finds it no longer RUNNING is what keeps it from a
// second attempt.
func TestARetryByHandThatCommittedUnnoticedIsOne(t *testing.T) {
	for name, steps := range map[string]bool{"in steps": true, "in one packet": false} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			store := f.engine()
			if steps {
				db, faults := f.openWithFaults()
				faults.loseAnswer.Store(1)
				store = newStore(db)
			}
			r := f.claimWaiting(f.join("n1"), f.byHand(f.job, ""))[0]
			done, err := store.runs.Complete(t.Context(), []run.Result{failed(r, at(30))})
			if steps {
				require.ErrorIs(t, err, schema.ErrCommitUnknown)
			} else { // as if its answer had been lost
				require.NoError(t, err)
				done.Left = []run.Result{failed(r, at(30))}
				done.Left[0].Tried = true
			}
			require.Len(t, done.Left, 1)
			done, err = store.runs.Complete(t.Context(), done.Left)
			require.NoError(t, err)
			require.Zero(t, done.Late, "nobody took it")
			require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ATTEMPT = 2`))
		})
	}
}

// What the database took before it went away is not written again.
func TestWhatAnErrorLeft(t *testing.T) {
	f := newTables(t)
	db, faults := f.openWithFaults()
	store := newStore(db)
	results := resultsOf(f.claimed(f.join("n1"), 9))
	faults.refuse.Store(1) // the only COMMIT is that of the retries
	done, err := store.runs.Complete(t.Context(), results)
	require.Error(t, err)
	require.Len(t, done.Left, 3)
	require.Equal(t, int64(3), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
	done, err = store.runs.Complete(t.Context(), done.Left)
	require.NoError(t, err)
	require.Zero(t, done.Late)
	require.Equal(t, int64(3), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
}

func TestAMillionBytesOfMessagesFitIntoAPacket(t *testing.T) {
	f := newTables(t)
	results := resultsOf(f.claimed(f.join("n1"), 500))
	for i := range results {
		results[i].Message = strings.Repeat("'", 2*run.MaxMessage)
	}
	for _, batch := range run.Bounded(results) {
		require.LessOrEqual(t, len(batch), 65)
	}
	db := sqlx.MustConnect("mysql", f.dsn+"&maxAllowedPacket=2097152")
	defer func() { _ = db.Close() }()
	done, err := newStore(db).runs.Complete(t.Context(), results)
	require.NoError(t, err)
	require.Zero(t, done.Late)
	require.Empty(t, done.Refused)
}

func TestLosingRunsLeavesNoneBehindForAnother(t *testing.T) {
	f := newTables(t)
	store := f.engine()
	who := f.join("n1")
	f.exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	runs := f.claimed(who, 60)
	f.exec(`ALTER TABLE QRTZ_RUN ADD CHECK (RECOVERS <> ` + fmt.Sprint(runs[7].ID) + `)`)
	f.exec(`ALTER TABLE QRTZ_RUN ADD CHECK (NOT (EXECUTE_ID = ` + fmt.Sprint(runs[9].ExecuteID) + ` AND STATE = 'LOST'))`)
	end := f.holding(`UPDATE QRTZ_RUN SET PROGRESS = 1 WHERE ID = ?`, runs[3].ID)
	defer end()
	lost, err := store.runs.Lose(t.Context(), who.ID, "its node died")
	require.ErrorContains(t, err, fmt.Sprintf("1 runs of instance %d cannot be put on record", who.ID))
	require.Len(t, lost, 58, "all but the one that is refused and the one that is locked")
	require.Equal(t, int64(57), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND RECOVERS IS NOT NULL`))
	require.Contains(t, f.text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, runs[7].ID), "its node died (not recovered, since the server refused it")
	end()
	lost, err = store.runs.Lose(t.Context(), who.ID, "its node died")
	require.Error(t, err)
	require.Len(t, lost, 1)
	require.Equal(t, runs[3].ID, lost[0].ID)
	require.Equal(t, "tick", lost[0].Class)
}

func TestNewsOfALockedRunAreLeft(t *testing.T) {
	f := newTables(t)
	store := f.engine()
	f.exec(`ALTER TABLE QRTZ_RUN MODIFY MESSAGE TEXT CHARACTER SET latin1`)
	runs := f.claimed(f.join("n1"), 60)
	var news []run.Underway
	var asked []int64
	for i, r := range runs {
		news, asked = append(news, run.Underway{Run: r, Started: at(1), Progress: i, Message: "going"}), append(asked, r.ID)
	}
	news[5].Message = "going \U0001F600"
	f.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1 WHERE ID = ?`, asked[8])
	end := f.holding(`UPDATE QRTZ_RUN SET PROGRESS = 1 WHERE ID = ?`, asked[3])
	defer end()
	done, err := store.runs.Attend(t.Context(), news, asked)
	require.NoError(t, err)
	require.Equal(t, run.Attended{Cancel: asked[8:9], Unsaid: asked[3:4], Refused: 1}, done)
	require.Equal(t, int64(59), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STARTED_AT IS NOT NULL AND PROGRESS IS NOT NULL`))
	require.Equal(t, int64(58), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE MESSAGE = 'going'`))
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE MESSAGE = 'going ?'`))
}

// A key that cannot be freed now is freed at the next look, and those of other apps are theirs.
func TestALockedOverlapKeyIsFreedLater(t *testing.T) {
	f := newTables(t)
	store := f.engine()
	for i, app := range []string{"a", "a", "b"} {
		f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, STATE, OVERLAP_KEY) VALUES (?, 1, 'SUCCEEDED', ?)`, app, i+1)
	}
	end := f.holding(`UPDATE QRTZ_RUN SET PROGRESS = 1 WHERE OVERLAP_KEY = 2`)
	defer end()
	_, err := store.runs.Abandoned(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{2, 3}, f.ids(`SELECT OVERLAP_KEY FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL ORDER BY 1`))
	end()
	_, err = store.runs.Abandoned(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{3}, f.ids(`SELECT OVERLAP_KEY FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL ORDER BY 1`))
}
