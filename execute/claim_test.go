package execute

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/internal/tabletest"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

func TestAClaimMovesTheRowAndLeavesItsRuns(t *testing.T) {
	f := newTables(t)
	f.AddMany(3)
	who := f.Join("n1")
	won := f.claim(who, 2, f.due(noon)...)
	require.Len(t, won.Moved, 3)
	require.Len(t, won.Runs, 6)
	require.True(t, slices.IsSortedFunc(won.Runs, run.ByFireTime))
	for _, r := range won.Runs {
		require.Equal(t, run.Run{
			ID: r.ID, JobID: f.Job, ExecuteID: r.ExecuteID, Class: "tick", Data: []byte(`{"n":1}`), DataSize: 7, Options: run.Defaults(),
			FireTime: r.FireTime, Attempt: 1, Fence: 1, Instance: who.ID, Token: r.Token,
		}, r)
		require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ID = ? AND EXECUTE_ID = ? AND FIRE_TIME = ? AND STATE = 'RUNNING'
			AND INSTANCE = ? AND HOST_IP = 'n1' AND FENCE = 1 AND CLAIMED_AT IS NOT NULL AND FINISHED_AT IS NULL`,
			r.ID, r.ExecuteID, r.FireTime.UnixMilli(), who.ID))
	}
	require.Equal(t, int64(3), f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE = 'EXECUTING' AND PREV_FIRE_TIME = ? AND NEXT_FIRE_TIME = ?
		AND TIME_TRIGGERED = 2 AND HOST_IP = 'n1' AND HOST_NAME = 'host'`, at(1).UnixMilli(), at(2).UnixMilli()))

	next := f.claim(who, 1, won.Moved...)
	require.Len(t, next.Runs, 3, "what a claim returns can be claimed again without reading it")
	require.Equal(t, int64(2), next.Runs[0].Fence, "the fence grows with every claim")
}

func TestTheLastFireCompletesTheExecute(t *testing.T) {
	f := newTables(t)
	id := f.Add()
	f.Exec(`UPDATE QRTZ_EXECUTE SET REPEAT_COUNT = 2, CHANGED_AT = '2020-01-01'`)
	won := f.claim(f.Join("n1"), 1, f.read(id))
	require.Equal(t, "2020-01-01 00:00:00.000", f.Text(`SELECT CAST(CHANGED_AT AS CHAR) FROM QRTZ_EXECUTE`), "a claim is no change")
	won = f.claim(f.Join("n1"), 1, won.Moved...)
	require.Len(t, won.Runs, 1)
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE = 'COMPLETE' AND NEXT_FIRE_TIME IS NULL AND TIME_TRIGGERED = 2
		AND CHANGED_AT > '2025-01-01'`), "completing it is")
	f.Exec(`UPDATE QRTZ_EXECUTE SET CHANGED_AT = '2020-01-01'`)
	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED'`)
	require.NotEqual(t, "2020", f.Text(`SELECT CAST(YEAR(CHANGED_AT) AS CHAR) FROM QRTZ_EXECUTE`), "so is what a person writes")
}

func TestNothingIsHalfWritten(t *testing.T) {
	f := newTables(t)
	f.AddMany(2)
	f.Exec(`ALTER TABLE QRTZ_RUN ADD CONSTRAINT NO_RUNS CHECK (FIRE_TIME < 0)`)
	won, err := f.store.Claim(t.Context(), f.Join("n1"), claims(f.due(noon), 1))
	require.ErrorContains(t, err, "refuses the next state of all of 2 executes")
	require.Empty(t, won.Moved)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE NEXT_FIRE_TIME <> ? OR FENCE <> 0 OR STATE <> 'EXECUTING'`, noon.UnixMilli()))
}

// What the server refuses for the sake of one row costs the others nothing.
func TestARowThatCannotBeMovedStandsAlone(t *testing.T) {
	f := newTables(t)
	f.AddMany(20)
	read := f.due(noon)
	f.Exec(`ALTER TABLE QRTZ_RUN ADD CONSTRAINT NOT_THAT CHECK (EXECUTE_ID <> ?)`, read[13].ID)
	who := f.Join("n1")
	won := f.claim(who, 1, read...)
	require.Len(t, won.Moved, 19)
	require.Len(t, won.Runs, 19)
	require.Len(t, won.Refused, 1)
	require.Equal(t, read[13].ID, won.Refused[0].Execute.ID)
	require.Equal(t, read[13].ID, f.Count(`SELECT ID FROM QRTZ_EXECUTE WHERE STATE = 'ERROR' AND STATE_REASON LIKE '%NOT_THAT%'`))

	broken, err := f.store.Broken(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, broken, 1)
	require.ErrorContains(t, broken[0].Problem, "has not been changed since", "it is not tried again and again")
	f.Exec(`UPDATE QRTZ_EXECUTE SET FENCE = 5, CHANGED_AT = CHANGED_AT + INTERVAL 1 SECOND WHERE STATE = 'ERROR'`)
	broken, err = f.store.Broken(t.Context(), 0, 10)
	require.NoError(t, err)
	require.NoError(t, broken[0].Problem)
}

func TestCountersStayWhereTheirColumnsEnd(t *testing.T) {
	f := newTables(t)
	testdb.DropChecks(t, f.DB.DB)
	f.AddMany(3)
	who := f.Join("n1")
	f.Exec(`UPDATE QRTZ_EXECUTE SET TIME_TRIGGERED = 9223372036854775807 WHERE ID = ?`, f.due(noon)[0].ID)
	f.Exec(`UPDATE QRTZ_EXECUTE SET FENCE = 9223372036854775807 WHERE ID = ?`, f.due(noon)[1].ID)
	won := f.claim(who, 1, f.due(noon)...)
	require.Len(t, won.Runs, 3)
	require.Len(t, f.claim(who, 1, won.Moved...).Runs, 3)
}

// One row that another transaction holds locked delays only itself.
func TestALockedRowIsLeftForTheNextClaim(t *testing.T) {
	for name, n := range map[string]int{"a small batch": 20, "a large batch": 300} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.AddMany(n)
			who := f.Join("n1")
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

// A row with the greatest ID leaves no room for others. Nothing is claimed then, and nothing is passed over.
func TestWithoutAnIDNothingIsClaimed(t *testing.T) {
	f := newTables(t)
	f.AddMany(3)
	who := f.Join("n1")
	read := f.due(noon)
	f.Exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, STATE, FINISHED_AT) VALUES (9223372036854775807, 'a', ?, 'SUCCEEDED', 1)`, f.Job)
	for _, n := range []int{1, 3} {
		won, err := f.store.Claim(t.Context(), who, claims(read[:n], 1))
		require.ErrorContains(t, err, "QRTZ_RUN has no ID left")
		require.Empty(t, won.Moved)
	}
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE FENCE <> 0 OR STATE <> 'EXECUTING'`))
	f.Exec(`DELETE FROM QRTZ_RUN WHERE ID >= 9000000000000000000`)
	f.Exec(`ALTER TABLE QRTZ_RUN AUTO_INCREMENT = 1`)
	require.Len(t, f.claim(who, 1, read...).Runs, 3)
}

// TIME_TRIGGERED set back by SQL gives a finite schedule its fires again.
func TestACountThatWasSetBackIsRespected(t *testing.T) {
	f := newTables(t)
	id := f.Add()
	f.Exec(`UPDATE QRTZ_EXECUTE SET REPEAT_COUNT = 2, TIME_TRIGGERED = 1`)
	read := f.read(id)
	f.Exec(`UPDATE QRTZ_EXECUTE SET TIME_TRIGGERED = 0`)
	who := f.Join("n1")
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
			changed, same := f.Add(), f.Add()
			read := f.due(noon)
			f.Exec(`UPDATE QRTZ_EXECUTE SET `+change+` WHERE ID = ?`, changed)
			won := f.claim(f.Join("n1"), 1, read...)
			require.Len(t, won.Moved, 1)
			require.Equal(t, same, won.Moved[0].ID)
			require.Len(t, won.Runs, 1)
			require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE EXECUTE_ID = ?`, changed))
			require.Zero(t, f.Count(`SELECT FENCE FROM QRTZ_EXECUTE WHERE ID = ?`, changed))
		})
	}
}

func TestAClaimNeedsAppNodeAndInstance(t *testing.T) {
	for name, lose := range map[string]string{
		"app off":            `UPDATE QRTZ_APP SET STATE = 'N'`,
		"node off":           `UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_IP = 'n1'`,
		"another instance":   `UPDATE QRTZ_NODE SET INSTANCE = 99 WHERE HOST_IP = 'n1'`,
		"declared dead":      `UPDATE QRTZ_NODE SET INSTANCE = NULL WHERE HOST_IP = 'n1'`,
		"no node":            `DELETE FROM QRTZ_NODE WHERE HOST_IP = 'n1'`,
		"no app":             `DELETE FROM QRTZ_APP`,
		"node of other apps": `UPDATE QRTZ_NODE SET APPLICATION = 'b' WHERE HOST_IP = 'n1'`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.Add()
			who, other := f.Join("n1"), f.Join("n2")
			f.Exec(lose)
			require.Empty(t, f.claim(who, 1, f.due(noon)...).Moved)
			require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
			moved, err := f.store.Move(t.Context(), who, Executing, []Move{f.due(noon)[0].MoveTo(at(5))})
			require.NoError(t, err)
			if name == "app off" || name == "node off" || name == "no app" {
				require.Len(t, moved.Moved, 1, "a node that is off still moves executes on")
			} else {
				require.Empty(t, moved.Moved)
			}
			if name == "app off" || name == "no app" {
				return
			}
			require.Len(t, f.claim(other, 1, f.due(at(10))...).Runs, 1)
		})
	}
}

// Instances race for the same rows. What they are told they won must be each fire once, and what the tables say.
func TestEachFireIsClaimedOnce(t *testing.T) {
	const instances, executes, rounds = 8, 200, 6
	f := newTables(t)
	f.AddMany(executes)
	db, faults := f.OpenWithFaults()
	store := newStore(db)
	type key struct{ execute, fire int64 }
	var mu sync.Mutex
	winners := map[key]int64{}
	runs := map[int64]key{}
	var racers sync.WaitGroup
	for range instances {
		who := f.JoinAnother()
		racers.Go(func() {
			for range rounds {
				read, err := store.Due(context.Background(), time.UnixMilli(1), at(rounds*10), nil, func(int64, string) bool { return true })
				if !assert.NoError(t, err) {
					return
				}
				rand.Shuffle(len(read), func(i, j int) { read[i], read[j] = read[j], read[i] })
				won, err := store.Claim(context.Background(), who, claims(read, 2))
				if !assert.NoError(t, err) {
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
	require.Equal(t, int64(len(winners)), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
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
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE E WHERE TIME_TRIGGERED <> FENCE * 2 OR NEXT_FIRE_TIME <> START_TIME + TIME_TRIGGERED * 1000
		OR TIME_TRIGGERED <> (SELECT COUNT(*) FROM QRTZ_RUN R WHERE R.EXECUTE_ID = E.ID)`), "none missing, none between")
	require.Zero(t, faults.Conflicts.Load(), "batches in order of id do not deadlock")
}

// Promise 4: a switch waits for the claim in flight.
func TestASwitchWaitsForTheClaimInFlight(t *testing.T) {
	for _, off := range []string{tabletest.NodeOff, tabletest.AppOff} {
		f := newTables(t)
		f.Add()
		who := f.Join("n1")
		thrown := make(chan error, 1)
		err := schema.InTx(t.Context(), f.DB, func(tx *sqlx.Tx) error {
			update, args := f.store.guardedUpdate(claiming(who), 1, "", claims(f.due(noon), 1))
			if _, err := tx.ExecContext(t.Context(), update, args...); err != nil {
				return err
			}
			go func() {
				_, err := f.ExecContext(context.Background(), off)
				thrown <- err
			}()
			select {
			case err := <-thrown:
				t.Error(off, "did not wait:", err)
			case <-time.After(300 * time.Millisecond):
			}
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, <-thrown)
		require.Empty(t, f.claim(who, 1, f.due(at(10))...).Moved)
	}
}

// Promise 4: after it has committed no claim commits, until it is thrown back.
func TestNoClaimCommitsAfterASwitch(t *testing.T) {
	f := newTables(t)
	f.AddMany(20)
	who := f.Join("n1")
	var done sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 3 {
		done.Go(func() {
			for ctx.Err() == nil {
				read, err := f.store.Due(context.Background(), time.UnixMilli(1), at(1000000), nil, func(int64, string) bool { return true })
				if !assert.NoError(t, err) {
					return
				}
				if _, err = f.store.Claim(context.Background(), who, claims(read, 1)); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	const runs = `SELECT COUNT(*) FROM QRTZ_RUN`
	switches := [][2]string{{tabletest.NodeOff, `UPDATE QRTZ_NODE SET STATE = 'Y'`}, {tabletest.AppOff, `UPDATE QRTZ_APP SET STATE = 'Y'`}}
	for i := range 150 {
		s := switches[i%2]
		f.Exec(s[0])
		atSwitch := f.Count(runs)
		for range 3 {
			require.Equal(t, atSwitch, f.Count(runs), "a claim committed after the switch")
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, atSwitch, f.Count(runs), "a claim committed after the switch")
		f.Exec(s[1])
		for deadline := time.Now().Add(5 * time.Second); f.Count(runs) == atSwitch; {
			require.True(t, time.Now().Before(deadline), "claims continue")
		}
	}
	stop()
	done.Wait()
}
