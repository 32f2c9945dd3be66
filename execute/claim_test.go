package execute

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/run"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"
)

func TestAClaimMovesTheRowAndLeavesItsRuns(t *testing.T) {
	f := newTables(t)
	f.addMany(3)
	who := f.join("n1")
	won := f.claim(who, 2, f.due(noon)...)
	require.Len(t, won.Moved, 3)
	require.Len(t, won.Runs, 6)
	require.True(t, slices.IsSortedFunc(won.Runs, run.ByFireTime))
	for _, r := range won.Runs {
		require.Equal(t, run.Run{
			ID: r.ID, JobID: f.job, ExecuteID: r.ExecuteID, Class: "tick", Data: []byte(`{"n":1}`), DataSize: 7, Options: run.Defaults(),
			FireTime: r.FireTime, Attempt: 1, Fence: 1, Instance: who.ID, Token: r.Token,
		}, r)
		require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ID = ? AND EXECUTE_ID = ? AND FIRE_TIME = ? AND STATE = 'RUNNING'
			AND INSTANCE = ? AND HOST_IP = 'n1' AND FENCE = 1 AND CLAIMED_AT IS NOT NULL AND FINISHED_AT IS NULL`,
			r.ID, r.ExecuteID, r.FireTime.UnixMilli(), who.ID))
	}
	require.Equal(t, int64(3), f.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE = 'EXECUTING' AND PREV_FIRE_TIME = ? AND NEXT_FIRE_TIME = ?
		AND TIME_TRIGGERED = 2 AND HOST_IP = 'n1' AND HOST_NAME = 'host'`, at(1).UnixMilli(), at(2).UnixMilli()))

	next := f.claim(who, 1, won.Moved...)
	require.Len(t, next.Runs, 3, "what a claim returns can be claimed again without reading it")
	require.Equal(t, int64(2), next.Runs[0].Fence, "the fence grows with every claim")
}

func TestTheLastFireCompletesTheExecute(t *testing.T) {
	f := newTables(t)
	id := f.add()
	f.exec(`UPDATE QRTZ_EXECUTE SET REPEAT_COUNT = 2, CHANGED_AT = '2020-01-01'`)
	won := f.claim(f.join("n1"), 1, f.read(id))
	require.Equal(t, "2020-01-01 00:00:00.000", f.text(`SELECT CAST(CHANGED_AT AS CHAR) FROM QRTZ_EXECUTE`), "a claim is no change")
	won = f.claim(f.join("n1"), 1, won.Moved...)
	require.Len(t, won.Runs, 1)
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE = 'COMPLETE' AND NEXT_FIRE_TIME IS NULL AND TIME_TRIGGERED = 2
		AND CHANGED_AT > '2025-01-01'`), "completing it is")
	f.exec(`UPDATE QRTZ_EXECUTE SET CHANGED_AT = '2020-01-01'`)
	f.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED'`)
	require.NotEqual(t, "2020", f.text(`SELECT CAST(YEAR(CHANGED_AT) AS CHAR) FROM QRTZ_EXECUTE`), "so is what a person writes")
}

func TestNothingIsHalfWritten(t *testing.T) {
	f := newTables(t)
	f.addMany(2)
	f.exec(`ALTER TABLE QRTZ_RUN ADD CONSTRAINT NO_RUNS CHECK (FIRE_TIME < 0)`)
	won, err := f.store.Claim(t.Context(), f.join("n1"), claims(f.due(noon), 1))
	require.ErrorContains(t, err, "refuses the next state of all of 2 executes")
	require.Empty(t, won.Moved)
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE NEXT_FIRE_TIME <> ? OR FENCE <> 0 OR STATE <> 'EXECUTING'`, noon.UnixMilli()))
}

// What the server refuses for the sake of one row costs the others nothing.
func TestARowThatCannotBeMovedStandsAlone(t *testing.T) {
	f := newTables(t)
	f.addMany(20)
	read := f.due(noon)
	f.exec(`ALTER TABLE QRTZ_RUN ADD CONSTRAINT NOT_THAT CHECK (EXECUTE_ID <> ?)`, read[13].ID)
	who := f.join("n1")
	won := f.claim(who, 1, read...)
	require.Len(t, won.Moved, 19)
	require.Len(t, won.Runs, 19)
	require.Len(t, won.Refused, 1)
	require.Equal(t, read[13].ID, won.Refused[0].Execute.ID)
	require.Equal(t, read[13].ID, f.count(`SELECT ID FROM QRTZ_EXECUTE WHERE STATE = 'ERROR' AND STATE_REASON LIKE '%NOT_THAT%'`))

	broken, err := f.store.Broken(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, broken, 1)
	require.ErrorContains(t, broken[0].Problem, "has not been changed since", "it is not tried again and again")
	f.exec(`UPDATE QRTZ_EXECUTE SET FENCE = 5, CHANGED_AT = CHANGED_AT + INTERVAL 1 SECOND WHERE STATE = 'ERROR'`)
	broken, err = f.store.Broken(t.Context(), 0, 10)
	require.NoError(t, err)
	require.NoError(t, broken[0].Problem)
}

func TestCountersStayWhereTheirColumnsEnd(t *testing.T) {
	f := newTables(t)
	f.dropChecks()
	f.addMany(3)
	who := f.join("n1")
	f.exec(`UPDATE QRTZ_EXECUTE SET TIME_TRIGGERED = 9223372036854775807 WHERE ID = ?`, f.due(noon)[0].ID)
	f.exec(`UPDATE QRTZ_EXECUTE SET FENCE = 9223372036854775807 WHERE ID = ?`, f.due(noon)[1].ID)
	won := f.claim(who, 1, f.due(noon)...)
	require.Len(t, won.Runs, 3)
	require.Len(t, f.claim(who, 1, won.Moved...).Runs, 3)
	for _, id := range []int64{f.pending(), f.pending()} {
		f.exec(`UPDATE QRTZ_RUN SET FENCE = 9223372036854775807, ATTEMPT = 2147483647 WHERE ID = ?`, id)
	}
	runs := f.claimWaiting(who, f.allIDs()...)
	require.Len(t, runs, 2)
	f.handBack(f.store, runs)
	require.Len(t, f.allIDs(), 2)
}

// One row that somebody holds locked delays only itself.
func TestALockedRowIsLeftForTheNextClaim(t *testing.T) {
	for name, n := range map[string]int{"a small batch": 20, "a large batch": 300} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.addMany(n)
			who := f.join("n1")
			read := f.due(noon)
			locked := read[7]
			operator := f.MustBegin()
			defer func() { _ = operator.Rollback() }()
			operator.MustExec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE ID = ?`, locked.ID)
			for range 2 { // a large batch meets the lock once, and knows it then
				began := time.Now()
				won := f.claim(who, 1, read...)
				require.Len(t, won.Runs, n-1)
				require.Less(t, time.Since(began), 2500*time.Millisecond)
				read = append(won.Moved, locked)
			}
			require.NoError(t, operator.Rollback())
			require.Len(t, f.claim(who, 1, locked).Runs, 1)
		})
	}
}

func TestALockedPendingRunIsLeftForTheNextClaim(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	f.addMany(5)
	won := f.claim(who, 1, f.due(noon)...)
	f.handBack(f.store, won.Runs)
	operator := f.MustBegin()
	defer func() { _ = operator.Rollback() }()
	operator.MustExec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE ID = ?`, won.Runs[1].ExecuteID)
	operator.MustExec(`UPDATE QRTZ_RUN SET MESSAGE = 'x' WHERE ID = ?`, won.Runs[3].ID)
	began := time.Now()
	require.Len(t, f.claimWaiting(who, f.allIDs()...), 3)
	require.Less(t, time.Since(began), time.Second)
	require.NoError(t, operator.Rollback())
	require.Len(t, f.claimWaiting(who, f.allIDs()...), 2)
}

// What the server refuses for the sake of one pending run costs the others nothing.
func TestAPendingRunThatCannotBeClaimedStandsAlone(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	var ids []int64
	for range 20 {
		ids = append(ids, f.pending())
	}
	f.exec(fmt.Sprintf(`CREATE TRIGGER NOT_THAT BEFORE UPDATE ON QRTZ_RUN FOR EACH ROW
		IF NEW.ID = %d AND NEW.STATE = 'RUNNING' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not that'; END IF`, ids[13]))
	claimed, err := f.store.runs.ClaimPending(t.Context(), who, f.pendingOf(f.store, ids...))
	require.NoError(t, err)
	require.Len(t, claimed.Runs, 19)
	require.Len(t, claimed.Refused, 1)
	require.Equal(t, ids[13], f.count(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'FAILED' AND MESSAGE LIKE '%not that%'`))
}

// A row with the greatest ID leaves no room for others. Nothing is claimed then, and nothing is passed over.
func TestWithoutAnIDNothingIsClaimed(t *testing.T) {
	f := newTables(t)
	f.addMany(3)
	who := f.join("n1")
	read := f.due(noon)
	f.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, STATE, FINISHED_AT) VALUES (9223372036854775807, 'a', ?, 'SUCCEEDED', 1)`, f.job)
	for _, n := range []int{1, 3} {
		won, err := f.store.Claim(t.Context(), who, claims(read[:n], 1))
		require.ErrorContains(t, err, "QRTZ_RUN has no ID left")
		require.Empty(t, won.Moved)
	}
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE FENCE <> 0 OR STATE <> 'EXECUTING'`))
	f.exec(`DELETE FROM QRTZ_RUN WHERE ID >= 9000000000000000000`)
	f.exec(`ALTER TABLE QRTZ_RUN AUTO_INCREMENT = 1`)
	require.Len(t, f.claim(who, 1, read...).Runs, 3)
}

// One locked row keeps no other run from being handed back.
func TestALockedRunIsHandedBackLater(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	f.addMany(3)
	runs := f.claim(who, 1, f.due(noon)...).Runs
	operator := f.MustBegin()
	defer func() { _ = operator.Rollback() }()
	operator.MustExec(`UPDATE QRTZ_RUN SET MESSAGE = 'x' WHERE ID = ?`, runs[1].ID)
	again, err := f.store.runs.HandBack(t.Context(), append(runs, run.Run{ID: 12345, Token: 1}))
	require.NoError(t, err)
	require.Equal(t, runs[1:2], again)
	require.Len(t, f.allIDs(), 2)
	inDoubt := []run.PendingRun{{ID: runs[0].ID, Fence: runs[0].Fence + 1}, {ID: runs[1].ID, Token: runs[1].Token, Fence: runs[1].Fence}}
	left, err := f.store.runs.HandBackPending(t.Context(), who, inDoubt)
	require.NoError(t, err)
	require.Equal(t, inDoubt[1:], left)
	require.NoError(t, operator.Rollback())
	f.handBack(f.store, again)
	require.Len(t, f.allIDs(), 3)
}

// A claim in doubt may still be under way when it is given up. It then wins nothing.
func TestAClaimThatArrivesAfterItWasGivenUpWinsNothing(t *testing.T) {
	f := newTables(t)
	f.addMany(3)
	who := f.join("n1")
	moves := claims(f.due(noon), 1)
	f.handBackFires(f.store, who, moves)
	won, err := f.store.Claim(t.Context(), who, moves)
	require.NoError(t, err)
	require.Empty(t, won.Moved)
	require.Len(t, f.claim(who, 1, f.due(noon)...).Runs, 3, "read again, they are free")

	run := f.pendingOf(f.store, f.pending())
	f.handBackPending(f.store, who, run)
	claimed, err := f.store.runs.ClaimPending(t.Context(), who, run)
	require.NoError(t, err)
	require.Empty(t, claimed.Runs)
	require.Len(t, f.claimWaiting(who, f.allIDs()...), 1)
}

// TIME_TRIGGERED set back by SQL gives a finite schedule its fires again.
func TestACountThatWasSetBackIsRespected(t *testing.T) {
	f := newTables(t)
	id := f.add()
	f.exec(`UPDATE QRTZ_EXECUTE SET REPEAT_COUNT = 2, TIME_TRIGGERED = 1`)
	read := f.read(id)
	f.exec(`UPDATE QRTZ_EXECUTE SET TIME_TRIGGERED = 0`)
	who := f.join("n1")
	require.Empty(t, f.claim(who, 1, read).Moved, "what was read before")
	won := f.claim(who, 1, f.read(id))
	require.Equal(t, Executing, won.Moved[0].State)
}

// Whatever changes between read and claim loses the claim of that row, and of no other; and is no error.
func TestAClaimIsLostWhenItsRowHasChanged(t *testing.T) {
	for _, change := range []string{
		`STATE = 'PAUSED'`, `STATE = 'ERROR'`, `STATE = 'COMPLETE'`, `STATE = 'INIT'`,
		`PREV_FIRE_TIME = 0`, `PREV_FIRE_TIME = NULL`, `NEXT_FIRE_TIME = NEXT_FIRE_TIME + 1`, `NEXT_FIRE_TIME = NULL`,
		`CRON = '0 0 2 * * ?'`, `ZONE_ID = 'Europe/Berlin'`, `JOB_TYPE = 'CRON'`, `REPEAT_COUNT = 7`, `REPEAT_COUNT = NULL`,
		`REPEAT_INTERVAL = 2000`, `TIME_TRIGGERED = 5`, `CLAIM_TOKEN = 5`, `START_TIME = START_TIME - 1`, `END_TIME = START_TIME + 5000`,
	} {
		t.Run(change, func(t *testing.T) {
			f := newTables(t)
			changed, same := f.add(), f.add()
			read := f.due(noon)
			f.exec(`UPDATE QRTZ_EXECUTE SET `+change+` WHERE ID = ?`, changed)
			won := f.claim(f.join("n1"), 1, read...)
			require.Len(t, won.Moved, 1)
			require.Equal(t, same, won.Moved[0].ID)
			require.Len(t, won.Runs, 1)
			require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE EXECUTE_ID = ?`, changed))
			require.Zero(t, f.count(`SELECT FENCE FROM QRTZ_EXECUTE WHERE ID = ?`, changed))
		})
	}
}

func TestAClaimNeedsAppNodeAndInstance(t *testing.T) {
	for name, lose := range map[string]string{
		"app off":            `UPDATE QRTZ_APP SET STATE = 'N'`,
		"node off":           `UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_IP = 'n1'`,
		"another instance":   `UPDATE QRTZ_NODE SET INSTANCE = 99 WHERE HOST_IP = 'n1'`,
		"buried":             `UPDATE QRTZ_NODE SET INSTANCE = NULL WHERE HOST_IP = 'n1'`,
		"no node":            `DELETE FROM QRTZ_NODE WHERE HOST_IP = 'n1'`,
		"no app":             `DELETE FROM QRTZ_APP`,
		"node of other apps": `UPDATE QRTZ_NODE SET APPLICATION = 'b' WHERE HOST_IP = 'n1'`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.add()
			who, other := f.join("n1"), f.join("n2")
			f.exec(lose)
			require.Empty(t, f.claim(who, 1, f.due(noon)...).Moved)
			require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
			repaired, err := f.store.Move(t.Context(), who, Executing, []Move{f.due(noon)[0].MoveTo(at(5))})
			require.NoError(t, err)
			if name == "app off" || name == "node off" || name == "no app" {
				require.Len(t, repaired.Moved, 1, "a node that is off still repairs")
			} else {
				require.Empty(t, repaired.Moved)
			}
			if name == "app off" || name == "no app" {
				return
			}
			require.Len(t, f.claim(other, 1, f.due(at(10))...).Runs, 1)
		})
	}
}

// A fire that has its run keeps it, and does not get in the way of the rest of the batch.
func TestAnExecuteTurnedBackByHandRunsNoFireTwice(t *testing.T) {
	f := newTables(t)
	back, other := f.add(), f.add()
	who := f.join("n1")
	f.claim(who, 2, f.due(noon)...)
	f.exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = ?, PREV_FIRE_TIME = -1 WHERE ID = ?`, noon.UnixMilli(), back)

	won := f.claim(who, 3, f.due(at(2))...)
	require.Len(t, won.Moved, 2)
	fires := map[int64][]int64{}
	for _, r := range won.Runs {
		fires[r.ExecuteID] = append(fires[r.ExecuteID], r.FireTime.UnixMilli()-noon.UnixMilli())
	}
	require.Equal(t, map[int64][]int64{back: {2000}, other: {2000, 3000, 4000}}, fires)
	require.Equal(t, int64(8), f.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// Instances race for the same rows. What they are told they won must be each fire once, and what the tables say.
func TestEachFireIsClaimedOnce(t *testing.T) {
	const instances, executes, rounds = 8, 200, 6
	f := newTables(t)
	f.addMany(executes)
	db, faults := f.openWithFaults()
	store := newStore(db)
	type key struct{ execute, fire int64 }
	var mu sync.Mutex
	winners := map[key]int64{}
	runs := map[int64]key{}
	var racers sync.WaitGroup
	for range instances {
		who := f.join(string(rune('a' + f.last.Load())))
		racers.Go(func() {
			for range rounds {
				read, err := store.Due(context.Background(), time.UnixMilli(1), at(rounds*10), nil, func(int64, string) bool { return true })
				if !noError(t, err) {
					return
				}
				rand.Shuffle(len(read), func(i, j int) { read[i], read[j] = read[j], read[i] })
				won, err := store.Claim(context.Background(), who, claims(read, 2))
				if !noError(t, err) {
					return
				}
				mu.Lock()
				for _, r := range won.Runs {
					k := key{r.ExecuteID, r.FireTime.UnixMilli()}
					if other, ok := winners[k]; ok {
						t.Errorf("%v was won by %d and %d", k, other, who.ID)
					}
					winners[k], runs[r.ID] = who.ID, k
				}
				mu.Unlock()
			}
		})
	}
	racers.Wait()
	require.GreaterOrEqual(t, len(winners), executes*2*rounds)
	require.Equal(t, int64(len(winners)), f.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
	var rows []struct {
		ID        int64 `db:"ID"`
		ExecuteID int64 `db:"EXECUTE_ID"`
		FireTime  int64 `db:"FIRE_TIME"`
		Instance  int64 `db:"INSTANCE"`
	}
	require.NoError(t, f.Select(&rows, `SELECT ID, EXECUTE_ID, FIRE_TIME, INSTANCE FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
	require.Len(t, rows, len(winners))
	for _, r := range rows {
		k := key{r.ExecuteID, r.FireTime}
		require.Equal(t, k, runs[r.ID])
		require.Equal(t, winners[k], r.Instance)
	}
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE E WHERE TIME_TRIGGERED <> FENCE * 2 OR NEXT_FIRE_TIME <> START_TIME + TIME_TRIGGERED * 1000
		OR TIME_TRIGGERED <> (SELECT COUNT(*) FROM QRTZ_RUN R WHERE R.EXECUTE_ID = E.ID)`), "none missing, none between")
	require.Zero(t, faults.conflicts.Load(), "batches in order of id do not deadlock")
}

func noError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// CATCH_UP may leave more runs than one statement takes.
func TestManyRunsInOneMove(t *testing.T) {
	f := newTables(t)
	f.addMany(30)
	cfg, err := mysql.ParseDSN(f.dsn)
	require.NoError(t, err)
	cfg.InterpolateParams = false // then a statement takes 65535 parameters
	db, err := sqlx.Open("mysql", cfg.FormatDSN())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	store := newStore(db)
	f.exec(`UPDATE QRTZ_EXECUTE SET MISFIRE = 'CATCH_UP', CATCH_UP_LIMIT = 5000`)
	var moves []Move
	for _, e := range f.due(noon) {
		moves = append(moves, e.MisfireMove(at(1999)))
	}
	done, err := store.Move(t.Context(), f.join("n1"), Executing, moves)
	require.NoError(t, err)
	require.Len(t, done.Moved, 30)
	require.Empty(t, done.Runs)
	require.Equal(t, int64(30000), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND FIRE_COUNT = 1 AND FINISHED_AT IS NULL`))
	require.Equal(t, int64(30), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND FIRE_COUNT = 1000 AND FINISHED_AT IS NOT NULL
		AND LAST_FIRE_TIME = ?`, at(999).UnixMilli()))
}
