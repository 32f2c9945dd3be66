package execute

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// What goes wrong after a claim has been committed must not look like a refusal of the claim: carried out again, it finds
// nothing to win, and the runs of the first time are forgotten.

func TestALockMetAfterALargeClaimLosesNoneOfItsRuns(t *testing.T) {
	for _, rule := range []string{"SKIP", "QUEUE"} {
		t.Run(rule, func(t *testing.T) {
			f := newTables(t)
			_, e := f.exclusive(rule, 10)
			who := f.Join("n1")
			going := f.claim(who, 1, e).Runs
			require.Len(t, going, 1)
			defer f.Holding(`DELETE FROM QRTZ_RUN WHERE ID = ?`, going[0].ID)() // holds the overlap key, too
			f.AddMany(carefulBatch + 50)
			won, _ := f.store.Claim(t.Context(), who, claims(f.due(noon), 1))
			require.Len(t, won.Runs, carefulBatch+50)
			require.Equal(t, int64(carefulBatch+50), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND ID <> ?`, going[0].ID))
		})
	}
}

func TestATableLockedAfterTheCommitPutsTheClaimInDoubt(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	f.AddMany(carefulBatch + 50)
	due := f.due(noon)
	release := f.Holding(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE) VALUES ('a', ?, ?, ?, 'PENDING')`,
		f.Job, due[7].ID, noon.UnixMilli()) // holds the packet up where it has read QRTZ_JOB
	claimed := make(chan Applied)
	go func() {
		won, err := f.store.Claim(context.Background(), who, claims(due, 1))
		if err != nil && !schema.Retryable(err) {
			claimed <- won
		}
		close(claimed)
	}()
	time.Sleep(300 * time.Millisecond)
	operator, err := f.Connx(t.Context())
	require.NoError(t, err)
	locked := make(chan error)
	go func() {
		_, err := operator.ExecContext(context.Background(), `LOCK TABLES QRTZ_JOB WRITE`)
		locked <- err
	}()
	time.Sleep(200 * time.Millisecond)
	release()
	require.NoError(t, <-locked)
	won := <-claimed
	_, err = operator.ExecContext(t.Context(), `UNLOCK TABLES`)
	require.NoError(t, err)
	require.NoError(t, operator.Close())
	require.Equal(t, int64(carefulBatch+50), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
	require.Len(t, won.InDoubt, carefulBatch+50)
	f.handBackFires(f.store, who, won.InDoubt)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
}

// What a job's history rule says is read once more after the COMMIT. Whatever has become of it meanwhile, the fires that were won
// are started, and by no other node.
func TestAHistoryRuleThatChangesDuringAClaimLosesNoFire(t *testing.T) {
	for _, fires := range []int{1, 3} {
		for name, change := range map[string]string{
			"its runs are to have rows":         `UPDATE QRTZ_JOB SET HISTORY = 'ALL', ATTEMPTS = 3, RECOVERY = 1`,
			"its runs must be alone":            `UPDATE QRTZ_JOB SET OVERLAP = 'SKIP'`,
			"nor can a run be inserted by then": `ALTER TABLE QRTZ_RUN ADD CHECK (FIRE_TIME < 1)`,
		} {
			t.Run(fmt.Sprint(fires, " fires, ", name), func(t *testing.T) {
				f := newTables(t)
				db, faults := f.OpenWithFaults()
				store := newStore(db)
				f.Exec(`UPDATE QRTZ_JOB SET HISTORY = 'NONE'`)
				f.AddMany(2)
				var changed error
				faults.Committed = func() {
					_, err := f.DB.Exec(`UPDATE QRTZ_JOB SET HISTORY = 'ALL'`)
					_, err2 := f.DB.Exec(change)
					changed = errors.Join(err, err2)
				}
				won, err := store.Claim(t.Context(), f.Join("n1"), claims(f.due(noon), fires))
				require.NoError(t, err)
				require.NoError(t, changed)
				require.Len(t, won.Runs, 2*fires)
				for _, r := range won.Runs {
					require.Zero(t, r.ID)
					require.Equal(t, r.Options.WithoutRow(), r.Options, "a run without a row cannot be retried, nor recovered")
				}
				require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
			})
		}
	}
}

// A person has turned an execute back: fires that have a run already are not started again, others of the same claim are.
func TestAFireThatHasARunIsNotStartedAgain(t *testing.T) {
	for _, fires := range []int{1, 3} {
		for _, history := range []run.History{run.HistoryAll, run.HistoryNone} {
			t.Run(fmt.Sprint(fires, " fires, ", history), func(t *testing.T) {
				f := newTables(t)
				id := f.Add()
				f.Exec(`UPDATE QRTZ_JOB SET HISTORY = ?`, history)
				f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE) VALUES ('a', ?, ?, ?, 'SUCCEEDED')`, f.Job, id, noon.UnixMilli())
				won := f.claim(f.Join("n1"), fires, f.read(id))
				require.Len(t, won.Moved, 1)
				require.Len(t, won.Runs, fires-1)
				require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE FIRE_TIME = ? AND STATE = 'SUCCEEDED'`, noon.UnixMilli()))
			})
		}
	}
}

// A fire that has its run keeps it, and does not get in the way of the rest of the batch.
func TestAnExecuteTurnedBackBySQLRunsNoFireTwice(t *testing.T) {
	f := newTables(t)
	back, other := f.Add(), f.Add()
	who := f.Join("n1")
	f.claim(who, 2, f.due(noon)...)
	f.Exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = ?, PREV_FIRE_TIME = -1 WHERE ID = ?`, noon.UnixMilli(), back)

	won := f.claim(who, 3, f.due(at(2))...)
	require.Len(t, won.Moved, 2)
	fires := map[int64][]int64{}
	for _, r := range won.Runs {
		fires[r.ExecuteID] = append(fires[r.ExecuteID], r.FireTime.UnixMilli()-noon.UnixMilli())
	}
	require.Equal(t, map[int64][]int64{back: {2000}, other: {2000, 3000, 4000}}, fires)
	require.Equal(t, int64(8), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// CATCH_UP may leave more runs than one statement takes.
func TestManyRunsInOneMove(t *testing.T) {
	f := newTables(t)
	f.AddMany(30)
	cfg, err := mysql.ParseDSN(f.DSN)
	require.NoError(t, err)
	cfg.InterpolateParams = false // then a statement takes 65535 parameters
	db, err := sqlx.Open("mysql", cfg.FormatDSN())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	store := newStore(db)
	f.Exec(`UPDATE QRTZ_EXECUTE SET MISFIRE = 'CATCH_UP', CATCH_UP_LIMIT = 5000`)
	var moves []Move
	for _, e := range f.due(noon) {
		moves = append(moves, e.MisfireMove(at(1999)))
	}
	done, err := store.Move(t.Context(), f.Join("n1"), Executing, moves)
	require.NoError(t, err)
	require.Len(t, done.Moved, 30)
	require.Empty(t, done.Runs)
	require.Equal(t, int64(30000), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND FIRE_COUNT = 1 AND FINISHED_AT IS NULL`))
	require.Equal(t, int64(30), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND FIRE_COUNT = 1000 AND FINISHED_AT IS NOT NULL
		AND LAST_FIRE_TIME = ?`, at(999).UnixMilli()))
}

// The run of an exclusive job is started by a second packet, whose answer may get lost as well.
func TestTheStartOfAnExclusiveRunThatGotNoAnswerIsHandedBack(t *testing.T) {
	f := newTables(t)
	db, faults := f.OpenWithFaults()
	store := newStore(db)
	_, e := f.exclusive("SKIP", 1)
	who := f.Join("n1")
	faults.LoseAnswer.Store(2)
	won, err := store.Claim(t.Context(), who, claims([]*Execute{e}, 1))
	require.ErrorIs(t, err, schema.ErrCommitUnknown)
	require.Len(t, won.Moved, 1, "the claim itself was answered")
	require.Empty(t, won.Runs)
	require.Len(t, won.PendingInDoubt, 1)
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND OVERLAP_KEY IS NOT NULL`))
	again, err := store.runs.HandBackPending(t.Context(), who, won.PendingInDoubt)
	require.NoError(t, err)
	require.Empty(t, again)
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND OVERLAP_KEY IS NULL`))
	require.Len(t, f.claimPending(f.Join("n2"), f.PendingIDs()...), 1)
}

func TestExclusiveJobsNeverOverlap(t *testing.T) {
	f := newTables(t)
	overlaps, started, conflicts := raceExclusive(t, f, 200, 4, 0)
	require.Zero(t, overlaps)
	require.Greater(t, started, 200)
	t.Logf("%d runs; %d deadlocks and lock wait timeouts, all resolved", started, conflicts)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL`))
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE E WHERE TIME_TRIGGERED <> (SELECT COUNT(*) FROM QRTZ_RUN R WHERE R.EXECUTE_ID = E.ID)`),
		"each fire has its row")
}

// It is the unique key that makes it so.
func TestExclusiveJobsOverlapWithoutTheKey(t *testing.T) {
	f := newTables(t)
	f.Exec(`ALTER TABLE QRTZ_RUN DROP KEY QRTZ_RUN_OVERLAP, ADD KEY QRTZ_RUN_OVERLAP (OVERLAP_KEY, LINE_JOB, LINE_AT)`)
	overlaps := 0
	for races := 0; races < 20 && overlaps == 0; races++ { // on a busy machine a race may go well by luck
		overlaps, _, _ = raceExclusive(t, f, 40, 4, 0)
	}
	require.NotZero(t, overlaps)
}

func TestNoMoreRunsOfAJobGoThanMayAtATime(t *testing.T) {
	f := newTables(t)
	overlaps, started, conflicts := raceExclusive(t, f, 60, 8, 2)
	require.Zero(t, overlaps)
	require.Greater(t, started, 60)
	t.Logf("%d runs; %d deadlocks and lock wait timeouts, all resolved", started, conflicts)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL`))
	require.NotZero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE OVERLAP_SLOT = 1`))
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE OVERLAP_SLOT > 1`))
}

func TestMoreRunsOfAJobGoWithoutTheKey(t *testing.T) {
	f := newTables(t)
	f.Exec(`ALTER TABLE QRTZ_RUN DROP KEY QRTZ_RUN_OVERLAP, ADD KEY QRTZ_RUN_OVERLAP (OVERLAP_KEY, LINE_JOB, LINE_AT)`)
	overlaps, _, _ := raceExclusive(t, f, 10, 8, 2)
	require.NotZero(t, overlaps)
}

// raceExclusive has eight instances race for the fires of many jobs of which only most runs may go at a time, or one if that is
// 0, and finish what they get. It returns how often a job had more, as the winners saw it, and the conflicts the server reported.
func raceExclusive(t *testing.T, f *tables, jobs, rounds, most int) (overlaps, started int, conflicts int64) {
	t.Helper()
	db, faults := f.OpenWithFaults()
	store := newStore(db)
	for i := range jobs {
		job, _ := f.exclusive([]string{"SKIP", "QUEUE", "ALLOW"}[i%(2+min(most, 1))], 2)
		f.Exec(`UPDATE QRTZ_JOB SET MAX_RUNNING = ? WHERE ID = ?`, most, job)
		for range 3 { // four schedules each, so that no row of QRTZ_EXECUTE decides the race
			f.AddTo(job)
		}
	}
	var mu sync.Mutex
	running := map[int64]int{}
	var racers sync.WaitGroup
	for range 8 {
		who := f.JoinAnother()
		racers.Go(func() {
			for range rounds {
				read, err := store.Due(context.Background(), time.UnixMilli(1), at(1000), nil, func(int64, string) bool { return true })
				if !assert.NoError(t, err) {
					return
				}
				rand.Shuffle(len(read), func(i, j int) { read[i], read[j] = read[j], read[i] })
				read = read[:len(read)/3]
				var won Applied
				err = schema.Again(context.Background(), func() error { // a claim that gives up is tried again, as the poller does
					won, err = store.Claim(context.Background(), who, claims(read, 1))
					return err
				})
				if !assert.NoError(t, err) {
					return
				}
				pending, _ := store.runs.Pending(context.Background(), []string{"tick"}, at(10_000_000), 100)
				var waited run.Claimed
				err = schema.Again(context.Background(), func() error {
					waited, err = store.runs.ClaimPending(context.Background(), who, pending)
					return err
				})
				if !assert.NoError(t, err) {
					return
				}
				var results []run.Result
				mu.Lock()
				for _, r := range append(won.Runs, waited.Runs...) {
					started++
					if running[r.JobID]++; running[r.JobID] > max(most, 1) {
						overlaps++
					}
					results = append(results, run.Result{Run: r, State: run.Succeeded, Started: at(1), Finished: at(2)})
				}
				mu.Unlock()
				time.Sleep(5 * time.Millisecond) // while they go
				mu.Lock()
				for _, r := range results {
					running[r.Run.JobID]--
				}
				mu.Unlock()
				if _, err := store.runs.Complete(context.Background(), results); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	racers.Wait()
	return overlaps, started, faults.Conflicts.Load()
}

// A move tells the rows that it leaves of what is skipped, and the names that belong to it.
func TestASkippedFireKnowsItsRow(t *testing.T) {
	f := newTables(t)
	f.Exec(`UPDATE QRTZ_JOB SET NAME = 'report' WHERE ID = ?`, f.Job)
	who := f.Join("n1")
	missed, mixed := f.Add(), f.Add()
	f.Exec(`UPDATE QRTZ_EXECUTE SET NAME = CONCAT('s', ID), MISFIRE = 'SKIP' WHERE ID = ?`, missed)
	moves := []Move{f.read(missed).MisfireMove(at(5)), f.read(mixed).MisfireMove(at(5))}
	f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE) VALUES ('a', ?, ?, ?, 'SUCCEEDED')`, f.Job, mixed, noon.UnixMilli())
	applied, err := f.store.Move(t.Context(), who, Executing, moves)
	require.NoError(t, err)
	require.Len(t, applied.Skipped, 2)
	one, taken := applied.Skipped[0], applied.Skipped[1]
	require.Equal(t, []string{"report", fmt.Sprintf("s%d", missed)}, []string{one.Job, one.Schedule})
	require.Equal(t, f.Count(`SELECT ID FROM QRTZ_RUN WHERE EXECUTE_ID = ? AND STATE = 'SKIPPED'`, missed), one.RunID)
	require.Equal(t, noon, one.FireTime)
	require.Equal(t, []int64{mixed, 0}, []int64{taken.ExecuteID, taken.RunID}, "another run has its row")
}

// A fire that is claimed is in the zone of its schedule, and knows its names, the first as the later ones.
func TestAClaimedFireKnowsItsNamesAndItsZone(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	id := f.Add()
	f.Exec(`UPDATE QRTZ_JOB SET NAME = 'report' WHERE ID = ?`, f.Job)
	f.Exec(`UPDATE QRTZ_EXECUTE SET NAME = 'daily', JOB_TYPE = 'CRON', CRON = '* * * * * ?', ZONE_ID = 'Asia/Tokyo' WHERE ID = ?`, id)
	e := f.read(id)
	for i := range 3 {
		won := f.claim(who, 1, e)
		require.Len(t, won.Runs, 1)
		r := won.Runs[0]
		require.Equal(t, []string{"report", "daily"}, []string{r.Job, r.Schedule})
		require.Equal(t, fmt.Sprintf("2030-06-01T21:00:%02d+09:00", i), r.FireTime.Format(time.RFC3339))
		e = won.Moved[0]
	}
}

func TestAFireBringsTheDataOfItsSchedule(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	with, without := f.Add(), f.Add()
	f.Exec(`UPDATE QRTZ_EXECUTE SET JOB_DATA = '"its own"' WHERE ID = ?`, with)
	for _, fires := range []int{1, 3} {
		for _, history := range []string{"ALL", "NONE"} {
			f.Exec(`UPDATE QRTZ_JOB SET HISTORY = ?`, history)
			won := f.claim(who, fires, f.read(with), f.read(without))
			require.Len(t, won.Runs, 2*fires)
			for _, r := range won.Runs {
				want := map[int64]string{with: `"its own"`, without: `{"n":1}`}[r.ExecuteID]
				require.Equal(t, want, string(r.Data))
				require.Equal(t, int64(len(want)), r.DataSize)
			}
		}
	}
}
