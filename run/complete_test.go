package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

func failed(r Run, again time.Time) Result {
	return Result{Run: r, State: Failed, Started: at(1), Finished: at(2), Message: "no paper", Progress: -1, RetryAt: again}
}

// results are of all kinds: kept, deleted, and tried again.
func resultsOf(runs []Run) (results []Result) {
	for i, r := range runs {
		result := Result{Run: r, State: Succeeded, Started: at(1), Finished: at(2), Message: fmt.Sprint("done ", i), Progress: -1}
		switch i % 3 {
		case 1:
			result.Run.Options.History = HistoryFailed
		case 2:
			result = failed(r, at(30))
		}
		results = append(results, result)
	}
	return results
}

func TestOnlyItsInstanceWritesAResult(t *testing.T) {
	f := newTables(t)
	who, other := f.Join("n1"), f.Join("n2")
	runs := f.claim(who, 1, f.AddMany(4)...).Runs
	result := func(r Run, instance int64, state State, message string) Result {
		r.Instance = instance
		return Result{Run: r, State: state, Started: at(1), Finished: at(2), Message: message}
	}
	f.Exec(`UPDATE QRTZ_RUN SET STATE = 'LOST' WHERE ID = ?`, runs[2].ID)
	late, err := f.store.Complete(t.Context(), []Result{
		result(runs[3], who.ID, Failed, "no paper"),
		result(runs[2], who.ID, Succeeded, ""),
		result(runs[1], other.ID, Succeeded, ""),
		result(runs[0], who.ID, Succeeded, ""),
	})
	require.NoError(t, err)
	require.Equal(t, 2, late.Late)
	for i, state := range []string{"SUCCEEDED", "RUNNING", "LOST", "FAILED"} {
		require.Equal(t, state, f.RunState(runs[i].ID))
	}
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE MESSAGE = 'no paper' AND STARTED_AT = ? AND FINISHED_AT = ?`,
		at(1).UnixMilli(), at(2).UnixMilli()))
	late, err = f.store.Complete(t.Context(), []Result{result(runs[0], who.ID, Failed, "twice")})
	require.NoError(t, err)
	require.Equal(t, 1, late.Late)
	require.Equal(t, "SUCCEEDED", f.RunState(runs[0].ID))
}

func TestARetryIsANewAttemptOfTheSameFire(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	r := f.claim(who, 1, f.Add()).Runs[0]
	late, err := f.store.Complete(t.Context(), []Result{failed(r, at(30))})
	require.NoError(t, err)
	require.Zero(t, late)
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'FAILED' AND MESSAGE = 'no paper' AND ATTEMPT = 1`))
	second := f.IDs(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'PENDING' AND ATTEMPT = 2 AND EXECUTE_ID = ? AND FIRE_TIME = ? AND AVAILABLE_AT = ?
		AND INSTANCE IS NULL AND RECOVERS IS NULL`, r.ExecuteID, r.FireTime.UnixMilli(), at(30).UnixMilli())
	require.Len(t, second, 1)
	again := f.claimPending(who, second...)
	require.Equal(t, 2, again[0].Attempt)
	require.Greater(t, again[0].Fence, r.Fence)

	late, err = f.store.Complete(t.Context(), []Result{failed(r, at(30))})
	require.NoError(t, err)
	require.Equal(t, 1, late.Late, "the same result once more")
	require.Equal(t, int64(2), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// A COMMIT without an answer neither loses the attempt nor makes two.
func TestAResultAndItsRetryAreOneTransaction(t *testing.T) {
	for name, history := range map[string]History{"kept": HistoryAll, "not kept": HistoryNone} {
		for what, committed := range map[string]bool{"it did commit": true, "it did not": false} {
			t.Run(name+", "+what, func(t *testing.T) {
				f := newTables(t)
				db, faults := f.OpenWithFaults()
				store := newStore(db)
				f.Exec(`UPDATE QRTZ_JOB SET HISTORY = ?, ATTEMPTS = 3`, history)
				r := f.claim(f.Join("n1"), 1, f.Add()).Runs[0]
				if committed {
					faults.LoseAnswer.Store(1)
				} else {
					faults.Refuse.Store(1)
				}
				_, err := store.Complete(t.Context(), []Result{failed(r, at(30))})
				require.ErrorIs(t, err, schema.ErrCommitUnknown)
				_, err = store.Complete(t.Context(), []Result{failed(r, at(30))})
				require.NoError(t, err)
				require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND ATTEMPT = 2`))
				require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
				require.Equal(t, history == HistoryAll, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'FAILED'`) == 1)
			})
		}
	}
}

// An attempt that is there already must not keep the results of its batch from being written, nor runs from being lost.
func TestAnAttemptThatIsThereAlreadyStays(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	runs := f.claim(who, 1, f.AddMany(2)...).Runs
	_, err := f.store.Complete(t.Context(), []Result{failed(runs[0], at(30))})
	require.NoError(t, err)
	f.Exec(`UPDATE QRTZ_RUN SET STATE = 'PENDING' WHERE ID = ?`, runs[0].ID) // by SQL: once more, please
	again := f.claimPending(who, runs[0].ID)
	late, err := f.store.Complete(t.Context(), []Result{failed(again[0], at(40)), failed(runs[1], at(40))})
	require.NoError(t, err)
	require.Zero(t, late)
	require.Equal(t, []int64{30, 40}, f.IDs(`SELECT (AVAILABLE_AT - ?) DIV 1000 FROM QRTZ_RUN WHERE STATE = 'PENDING' ORDER BY ID`, noon.UnixMilli()))

	f.Exec(`UPDATE QRTZ_RUN SET STATE = 'PENDING' WHERE ID = ?`, runs[0].ID)
	f.claimPending(who, runs[0].ID)
	lost, err := f.store.Lose(t.Context(), who.ID, "its node died")
	require.NoError(t, err)
	require.Len(t, lost, 1)
	require.Equal(t, "LOST", f.RunState(runs[0].ID))
}

// Who asked for a run to be cancelled gets neither a first, nor a further, nor a recovered attempt.
func TestACancelledRunIsNotTriedAgain(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	waits := f.asked("")
	f.Exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1`)
	require.Empty(t, f.claimPending(who, waits))
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'CANCELLED' AND FINISHED_AT IS NOT NULL AND MESSAGE <> ''`))

	runs := f.claim(who, 1, f.AddMany(2)...).Runs
	f.Exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1`)
	_, err := f.store.Complete(t.Context(), []Result{failed(runs[0], at(30))})
	require.NoError(t, err)
	_, err = f.store.Lose(t.Context(), who.ID, "its node died")
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1, 1}, f.IDs(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('FAILED', 'LOST', 'CANCELLED') GROUP BY STATE`))
	require.Empty(t, f.PendingIDs())
}

// A result or a lost node ends a run although its job is gone.
func TestAJobDeletedUnderItsRuns(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	runs := f.claim(who, 1, f.AddMany(3)...).Runs
	f.Exec(`DELETE FROM QRTZ_EXECUTE`)
	f.Exec(`DELETE FROM QRTZ_JOB`)
	late, err := f.store.Complete(t.Context(), []Result{failed(runs[0], at(30)), {Run: runs[1], State: Succeeded, Started: at(1), Finished: at(2)}})
	require.NoError(t, err)
	require.Zero(t, late)
	lost, err := f.store.Lose(t.Context(), who.ID, "its node died")
	require.NoError(t, err)
	require.Len(t, lost, 1)
	pending, err := f.store.Pending(t.Context(), []string{"tick"}, at(100), 10)
	require.NoError(t, err)
	require.Empty(t, pending)
}

// A run that the same instance has claimed again is another run: neither results, nor news, nor attempts of the first
// claim are its.
func TestResultsBelongToTheirClaim(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	one := f.asked("")
	first := f.claimPending(who, one)[0]
	f.handBack(first)
	second := f.claimPending(who, one)[0]
	require.Equal(t, first.Instance, second.Instance)
	dropped := Result{Run: first, State: Succeeded, Started: at(1), Finished: at(2)}
	dropped.Run.Options.History = HistoryNone
	for _, r := range []Result{{Run: first, State: Succeeded, Started: at(1), Finished: at(2)}, dropped, failed(first, at(30))} {
		done, err := f.store.Complete(t.Context(), []Result{r})
		require.NoError(t, err)
		require.Equal(t, 1, done.Late)
	}
	_, err := f.store.Attend(t.Context(), []Underway{{Run: first, Started: at(1), Progress: 50, Message: "not mine"}}, nil)
	require.NoError(t, err)
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND PROGRESS IS NULL AND MESSAGE IS NULL`))
	done, err := f.store.Complete(t.Context(), []Result{failed(second, at(30))})
	require.NoError(t, err)
	require.Zero(t, done.Late)
}

// A run without a schedule has no unique key: that the second try finds it no longer RUNNING is what keeps it from a
// second attempt.
func TestARetryWithoutAScheduleThatCommittedUnnoticedIsOne(t *testing.T) {
	for name, steps := range map[string]bool{"in steps": true, "in one packet": false} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			store := f.store
			if steps {
				db, faults := f.OpenWithFaults()
				faults.LoseAnswer.Store(1)
				store = newStore(db)
			}
			r := f.claimPending(f.Join("n1"), f.asked(""))[0]
			done, err := store.Complete(t.Context(), []Result{failed(r, at(30))})
			if steps {
				require.ErrorIs(t, err, schema.ErrCommitUnknown)
			} else { // as if its answer had been lost
				require.NoError(t, err)
				done.Left = []Result{failed(r, at(30))}
				done.Left[0].tried = true
			}
			require.Len(t, done.Left, 1)
			done, err = store.Complete(t.Context(), done.Left)
			require.NoError(t, err)
			require.Zero(t, done.Late, "it was not taken")
			require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ATTEMPT = 2`))
		})
	}
}

// What the database took before it went away is not written again.
func TestWhatAnErrorLeft(t *testing.T) {
	f := newTables(t)
	db, faults := f.OpenWithFaults()
	store := newStore(db)
	results := resultsOf(f.claim(f.Join("n1"), 1, f.AddMany(9)...).Runs)
	faults.Refuse.Store(1) // the only COMMIT is that of the retries
	done, err := store.Complete(t.Context(), results)
	require.Error(t, err)
	require.Len(t, done.Left, 3)
	require.Equal(t, int64(3), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
	done, err = store.Complete(t.Context(), done.Left)
	require.NoError(t, err)
	require.Zero(t, done.Late)
	require.Equal(t, int64(3), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
}

func TestAMillionBytesOfMessagesFitIntoAPacket(t *testing.T) {
	f := newTables(t)
	results := resultsOf(f.claim(f.Join("n1"), 1, f.AddMany(500)...).Runs)
	for i := range results {
		results[i].Message = strings.Repeat("'", 2*MaxMessage)
	}
	for _, batch := range bounded(results) {
		require.LessOrEqual(t, len(batch), 65)
	}
	db := sqlx.MustConnect("mysql", f.DSN+"&maxAllowedPacket=2097152")
	defer func() { _ = db.Close() }()
	done, err := newStore(db).Complete(t.Context(), results)
	require.NoError(t, err)
	require.Zero(t, done.Late)
	require.Empty(t, done.Refused)
}

func TestARefusedMessageCostsTheOthersNothing(t *testing.T) {
	for name, change := range map[string]string{
		"latin1":  `ALTER TABLE QRTZ_RUN MODIFY MESSAGE TEXT CHARACTER SET latin1`,
		"utf8mb3": `ALTER TABLE QRTZ_RUN MODIFY MESSAGE TEXT CHARACTER SET utf8mb3`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.Exec(change)
			f.Exec(`UPDATE QRTZ_JOB SET ATTEMPTS = 3`)
			results := resultsOf(f.claim(f.Join("n1"), 1, f.AddMany(90)...).Runs)
			for _, i := range []int{0, 41, 44, 45} { // 41 and 44 are to be tried again
				results[i].Message = "no paper \U0001F600"
			}
			done, err := f.store.Complete(t.Context(), results)
			require.NoError(t, err)
			require.Zero(t, done.Late)
			require.Len(t, done.Refused, 4)
			require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
			require.Equal(t, int64(30), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`))
			require.Equal(t, int64(30), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'FAILED'`))
			require.Equal(t, int64(30), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND ATTEMPT = 2`))
			require.Equal(t, int64(4), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE MESSAGE LIKE 'no paper ? (in ASCII, since the server refused%'`))
		})
	}
}

func TestWhatTheServerRefusesIsStoredAsFarAsItTakesIt(t *testing.T) {
	for name, c := range map[string]struct {
		refuses string
		result  func(*Result)
		stored  bool
		want    string // of the row
	}{
		"a short column":           {`MODIFY MESSAGE VARCHAR(40)`, func(r *Result) { r.Message = strings.Repeat("x", 41) }, true, "FAILED,-,2"},
		"any message":              {`ADD CHECK (MESSAGE IS NULL)`, func(*Result) {}, true, "FAILED,-,2"},
		"a further attempt":        {`ADD CHECK (ATTEMPT < 2)`, func(*Result) {}, true, "FAILED,no paper (in ASCII,1"},
		"an attempt and a message": {`ADD CHECK (ATTEMPT < 2 AND MESSAGE IS NULL)`, func(*Result) {}, true, "FAILED,-,1"},
		"the state":                {`ADD CHECK (STATE <> 'FAILED')`, func(*Result) {}, false, "RUNNING,-,1"},
		"a progress":               {`ADD CHECK (PROGRESS < 50)`, func(r *Result) { r.Progress = 50 }, true, "FAILED,-,2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.Exec(`ALTER TABLE QRTZ_RUN ` + c.refuses)
			runs := f.claim(f.Join("n1"), 1, f.AddMany(3)...).Runs
			bad := failed(runs[1], at(30))
			c.result(&bad)
			done, err := f.store.Complete(t.Context(), []Result{{Run: runs[0], State: Succeeded}, bad, {Run: runs[2], State: Succeeded}})
			require.NoError(t, err)
			refused := done.Refused
			if strings.Contains(c.refuses, "CHECK (ATTEMPT < 2 AND MESSAGE") || !strings.Contains(c.refuses, "STATE") {
				require.Equal(t, int64(2), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`))
			}
			require.Len(t, refused, 1)
			require.Equal(t, c.stored, refused[0].Stored)
			row := f.Text(`SELECT CONCAT_WS(',', STATE, COALESCE(LEFT(MESSAGE, 18), '-'), (SELECT COUNT(*) FROM QRTZ_RUN R WHERE R.EXECUTE_ID = QRTZ_RUN.EXECUTE_ID))
				FROM QRTZ_RUN WHERE ID = ?`, runs[1].ID)
			require.Equal(t, c.want, row)
		})
	}
}

// An attempt at the limit of its column is the last; nothing fails for it.
func TestAttemptsAtTheirLimit(t *testing.T) {
	const maxFence = 9_000_000_000_000_000_000
	f := newTables(t)
	testdb.DropChecks(t, f.DB.DB)
	who := f.Join("n1")
	runs := f.claim(who, 1, f.AddMany(6)...).Runs
	f.Exec(`UPDATE QRTZ_RUN SET ATTEMPT = 2000000000 WHERE ID IN (?, ?)`, runs[1].ID, runs[4].ID)
	f.Exec(`UPDATE QRTZ_RUN SET RECOVERIES = 2147483647 WHERE ID = ?`, runs[3].ID)
	f.Exec(`UPDATE QRTZ_RUN SET FENCE = ? WHERE ID = ?`, maxFence, runs[5].ID)
	f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	first := failed(runs[0], at(30))
	last, unaware := failed(runs[1], at(30)), failed(runs[1], at(30))
	last.Run.Attempt = maxAttempt
	done, err := f.store.Complete(t.Context(), []Result{first, last, failed(runs[2], at(30))})
	require.NoError(t, err)
	require.Empty(t, done.Refused)
	require.Equal(t, "no paper (no further attempt: ATTEMPT is at its limit)", f.Text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, runs[1].ID))
	require.Equal(t, int64(2), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
	f.Exec(`UPDATE QRTZ_RUN SET STATE = 'RUNNING' WHERE ID = ?`, runs[1].ID)
	_, err = f.store.Complete(t.Context(), []Result{unaware}) // as after a change by SQL
	require.NoError(t, err)
	require.Equal(t, "FAILED", f.RunState(runs[1].ID))

	lost, err := f.store.Lose(t.Context(), who.ID, "its node died")
	require.NoError(t, err)
	require.Len(t, lost, 3)
	require.Contains(t, f.Text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, runs[4].ID), "no further attempt: ATTEMPT is at its limit")
	require.Equal(t, "its node died", f.Text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, runs[3].ID), "recovered too often")
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE RECOVERS = ? AND FENCE = ?`, runs[5].ID, maxFence))
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE RECOVERS IS NOT NULL`))
}
