package execute

import (
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

func failed(r run.Run, again time.Time) run.Result {
	return run.Result{Run: r, State: run.Failed, Started: at(1), Finished: at(2), Message: "no paper", Progress: -1, RetryAt: again}
}

// byHand adds a run of a job that belongs to no schedule, as a person does.
func (f *tables) byHand(job int64, data string) int64 {
	f.t.Helper()
	return f.id(f.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, JOB_DATA) VALUES ('a', ?, NULLIF(?, ''))`, job, data))
}

func TestARetryIsANewAttemptOfTheSameFire(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	r := f.claim(who, 1, f.read(f.add())).Runs[0]
	late, err := f.store.runs.Complete(t.Context(), []run.Result{failed(r, at(30))})
	require.NoError(t, err)
	require.Zero(t, late)
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'FAILED' AND MESSAGE = 'no paper' AND ATTEMPT = 1`))
	second := f.ids(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'PENDING' AND ATTEMPT = 2 AND EXECUTE_ID = ? AND FIRE_TIME = ? AND AVAILABLE_AT = ?
		AND INSTANCE IS NULL AND RECOVERS IS NULL`, r.ExecuteID, r.FireTime.UnixMilli(), at(30).UnixMilli())
	require.Len(t, second, 1)
	again := f.claimWaiting(who, second...)
	require.Equal(t, 2, again[0].Attempt)
	require.Greater(t, again[0].Fence, r.Fence)

	late, err = f.store.runs.Complete(t.Context(), []run.Result{failed(r, at(30))})
	require.NoError(t, err)
	require.Equal(t, 1, late.Late, "the same result once more")
	require.Equal(t, int64(2), f.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// A COMMIT without an answer neither loses the attempt nor makes two.
func TestAResultAndItsRetryAreOneTransaction(t *testing.T) {
	for name, history := range map[string]run.History{"kept": run.HistoryAll, "not kept": run.HistoryNone} {
		for what, committed := range map[string]bool{"it did commit": true, "it did not": false} {
			t.Run(name+", "+what, func(t *testing.T) {
				f := newTables(t)
				db, faults := f.openWithFaults()
				store := newStore(db)
				f.exec(`UPDATE QRTZ_JOB SET HISTORY = ?, ATTEMPTS = 3`, history)
				r := f.claim(f.join("n1"), 1, f.read(f.add())).Runs[0]
				if committed {
					faults.loseAnswer.Store(1)
				} else {
					faults.refuse.Store(1)
				}
				_, err := store.runs.Complete(t.Context(), []run.Result{failed(r, at(30))})
				require.ErrorIs(t, err, schema.ErrCommitUnknown)
				_, err = store.runs.Complete(t.Context(), []run.Result{failed(r, at(30))})
				require.NoError(t, err)
				require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND ATTEMPT = 2`))
				require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
				require.Equal(t, history == run.HistoryAll, f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'FAILED'`) == 1)
			})
		}
	}
}

// An attempt that is there already must not keep the results of its batch from being written, nor runs from being lost.
func TestAnAttemptThatIsThereAlreadyStays(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	f.exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	f.addMany(2)
	runs := f.claim(who, 1, f.due(noon)...).Runs
	_, err := f.store.runs.Complete(t.Context(), []run.Result{failed(runs[0], at(30))})
	require.NoError(t, err)
	f.exec(`UPDATE QRTZ_RUN SET STATE = 'PENDING' WHERE ID = ?`, runs[0].ID) // by hand: once more, please
	again := f.claimWaiting(who, runs[0].ID)
	late, err := f.store.runs.Complete(t.Context(), []run.Result{failed(again[0], at(40)), failed(runs[1], at(40))})
	require.NoError(t, err)
	require.Zero(t, late)
	require.Equal(t, []int64{30, 40}, f.ids(`SELECT (AVAILABLE_AT - ?) DIV 1000 FROM QRTZ_RUN WHERE STATE = 'PENDING' ORDER BY ID`, noon.UnixMilli()))

	f.exec(`UPDATE QRTZ_RUN SET STATE = 'PENDING' WHERE ID = ?`, runs[0].ID)
	f.claimWaiting(who, runs[0].ID)
	lost, err := f.store.runs.Lose(t.Context(), who.ID, "its node died")
	require.NoError(t, err)
	require.Len(t, lost, 1)
	require.Equal(t, "LOST", f.runState(runs[0].ID))
}

func TestARunIsRecoveredFiveTimes(t *testing.T) {
	for name, fires := range map[string]func(*tables, node.Instance) run.Run{
		"of a schedule": func(f *tables, who node.Instance) run.Run { return f.claim(who, 1, f.read(f.add())).Runs[0] },
		"by hand": func(f *tables, who node.Instance) run.Run {
			return f.claimWaiting(who, f.byHand(f.job, `{"own":1}`))[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.exec(`UPDATE QRTZ_JOB SET RECOVERY = 1, HISTORY = 'NONE'`)
			who := f.join("n1")
			r := fires(f, who)
			for n := 1; ; n++ {
				lost, err := f.store.runs.Lose(t.Context(), who.ID, "its node died")
				require.NoError(t, err)
				require.Len(t, lost, 1)
				ids := f.allIDs()
				if n == 6 {
					require.Empty(t, ids)
					break
				}
				require.Len(t, ids, 1)
				who = f.join("n1")
				next := f.claimWaiting(who, ids...)[0]
				require.Equal(t, r.ID, next.Recovers)
				require.Equal(t, r.FireTime.UnixMilli(), next.FireTime.UnixMilli(), "the original fire time")
				require.Equal(t, r.Data, next.Data)
				require.Equal(t, r.Attempt+1, next.Attempt)
				require.Greater(t, next.Fence, r.Fence, "who still goes on elsewhere can be told")
				r = next
			}
			require.Equal(t, int64(6), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'LOST'`))
		})
	}
}

func TestFencesGrowWithoutASchedule(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	first := f.claimWaiting(who, f.byHand(f.job, ""))[0]
	f.handBack(f.store, []run.Run{first})
	second := f.claimWaiting(who, first.ID)[0]
	require.Greater(t, second.Fence, first.Fence)
	_, err := f.store.runs.Complete(t.Context(), []run.Result{failed(second, noon)})
	require.NoError(t, err)
	third := f.claimWaiting(who, f.allIDs()...)[0]
	require.Equal(t, 2, third.Attempt)
	require.Greater(t, third.Fence, second.Fence)
}

// Who asked for a run to be cancelled gets neither a first, nor a further, nor a recovered attempt.
func TestACancelledRunIsNotTriedAgain(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	f.exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	waits := f.byHand(f.job, "")
	f.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1`)
	require.Empty(t, f.claimWaiting(who, waits))
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'CANCELLED' AND FINISHED_AT IS NOT NULL AND MESSAGE <> ''`))

	f.addMany(2)
	runs := f.claim(who, 1, f.due(noon)...).Runs
	f.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1`)
	_, err := f.store.runs.Complete(t.Context(), []run.Result{failed(runs[0], at(30))})
	require.NoError(t, err)
	_, err = f.store.runs.Lose(t.Context(), who.ID, "its node died")
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1, 1}, f.ids(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('FAILED', 'LOST', 'CANCELLED') GROUP BY STATE`))
	require.Empty(t, f.allIDs())
}

// A result or a lost node ends a run although its job is gone.
func TestAJobDeletedUnderItsRuns(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	f.addMany(3)
	runs := f.claim(who, 1, f.due(noon)...).Runs
	f.exec(`DELETE FROM QRTZ_EXECUTE`)
	f.exec(`DELETE FROM QRTZ_JOB`)
	late, err := f.store.runs.Complete(t.Context(), []run.Result{failed(runs[0], at(30)), {Run: runs[1], State: run.Succeeded, Started: at(1), Finished: at(2)}})
	require.NoError(t, err)
	require.Zero(t, late)
	lost, err := f.store.runs.Lose(t.Context(), who.ID, "its node died")
	require.NoError(t, err)
	require.Len(t, lost, 1)
	waiting, err := f.store.runs.Pending(t.Context(), []string{"tick"}, at(100), 10)
	require.NoError(t, err)
	require.Empty(t, waiting)
}

func TestNewsOfARunThatHasEndedChangeNothing(t *testing.T) {
	f := newTables(t)
	who, other := f.join("n1"), f.join("n2")
	f.addMany(2)
	runs := f.claim(who, 1, f.due(noon)...).Runs
	_, err := f.store.runs.Complete(t.Context(), []run.Result{{Run: runs[0], State: run.Succeeded, Started: at(1), Finished: at(2), Message: "done", Progress: 100}})
	require.NoError(t, err)
	f.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1 WHERE ID = ?`, runs[1].ID)
	asked := []int64{runs[0].ID, runs[1].ID}
	theirs := runs[1]
	theirs.Instance = other.ID
	attended, err := f.store.runs.Attend(t.Context(), []run.Underway{{Run: runs[0], Started: at(1), Progress: 50, Message: "halfway"}, {Run: theirs, Started: at(1), Progress: 70, Message: "not mine"}}, asked)
	require.NoError(t, err)
	require.Equal(t, asked[1:], attended.Cancel)
	require.Equal(t, "done", f.text(`SELECT MESSAGE FROM QRTZ_RUN WHERE PROGRESS = 100`))
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND PROGRESS IS NULL AND MESSAGE IS NULL`))
	_, err = f.store.runs.Attend(t.Context(), []run.Underway{{Run: runs[1], Started: at(1), Progress: 70, Message: "mine"}}, nil)
	require.NoError(t, err)
	require.Equal(t, at(1).UnixMilli(), f.count(`SELECT STARTED_AT FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND PROGRESS = 70 AND MESSAGE = 'mine'`))
}
