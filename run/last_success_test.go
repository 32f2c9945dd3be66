package run

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const digits = `(SELECT 0 AS D UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
	UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)`

// history adds 120,000 runs of a job, a second apart up to noon, in one state.
func (f *tables) history(execute any, state State) {
	f.T.Helper()
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, AVAILABLE_AT, STATE)
		SELECT 'a', ?, ?, X.T, X.T, ? FROM (SELECT ? - 1000 * (1 + A.D + 10 * B.D + 100 * C.D + 1000 * E.D + 10000 * G.D + 100000 * H.D) AS T
		  FROM `+digits+` A, `+digits+` B, `+digits+` C, `+digits+` E, `+digits+` G, `+digits+` H
		 WHERE H.D = 0 OR H.D = 1 AND G.D < 2) X ORDER BY X.T`, f.Job, execute, state, noon.UnixMilli())
}

// reads runs what is to be measured, and returns how many rows the server read for it.
func (f *tables) reads(store *Store, do func()) (rows int64) {
	f.T.Helper()
	status := func() (n int64) {
		var found []struct {
			Name  string `db:"Variable_name"`
			Value int64  `db:"Value"`
		}
		require.NoError(f.T, store.db.DB.SelectContext(f.T.Context(), &found, `SHOW SESSION STATUS WHERE Variable_name IN
			('Handler_read_key', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_first', 'Handler_read_last', 'Handler_read_rnd', 'Handler_read_rnd_next')`))
		for _, v := range found {
			n += v.Value
		}
		return n
	}
	before := status()
	between := status() - before // what it costs to ask
	before = status()
	do()
	return status() - before - between
}

// However long the history, the last success is found through an index, a few rows back.
func TestTheLastSuccessIsFoundThroughAnIndex(t *testing.T) {
	for name, scheduled := range map[string]bool{"of a schedule": true, "of runs that were asked for": false} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			store := newStore(f.Engine(1))
			r := Run{JobID: f.Job, FireTime: noon}
			var execute any
			if scheduled {
				r.ExecuteID = f.Add()
				execute = r.ExecuteID
			}
			insert := func(state State, fire time.Time, attempt int) int64 {
				return f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, ATTEMPT, STATE) VALUES ('a', ?, ?, ?, ?, ?)`,
					f.Job, execute, fire.UnixMilli(), attempt, state)
			}
			last := func(r Run) (found time.Time) {
				t.Helper()
				rows := f.reads(store, func() {
					var err error
					found, err = store.LastSuccess(t.Context(), r)
					require.NoError(t, err)
				})
				require.Less(t, rows, int64(100))
				return found
			}
			r.ID = insert(Running, noon, 1)
			require.True(t, last(r).IsZero(), "none is on record")
			f.Exec(`DELETE FROM QRTZ_RUN`)

			f.history(execute, Succeeded)
			for i, state := range []State{Succeeded, Failed, Lost, Cancelled, Skipped, Failed, Pending} {
				insert(state, at(i), 1)
			}
			r.ID, r.FireTime = insert(Failed, at(20), 1), at(20)
			r.ID, r.Attempt = insert(Running, at(20), 2), 2
			insert(Succeeded, at(21), 1) // after it
			other := f.Add()
			f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE) VALUES ('a', ?, ?, ?, 'SUCCEEDED')`, f.Job, other, at(6).UnixMilli())
			require.Equal(t, at(0).UnixMilli(), last(r).UnixMilli())
			f.Exec(`UPDATE QRTZ_RUN SET STATE = 'SUCCEEDED' WHERE FIRE_TIME = ? AND EXECUTE_ID <=> ?`, at(4).UnixMilli(), execute)
			require.Equal(t, at(4).UnixMilli(), last(r).UnixMilli())
			require.Equal(t, at(0).UnixMilli(), last(Run{ID: r.ID - 5, JobID: f.Job, ExecuteID: r.ExecuteID, FireTime: at(4)}).UnixMilli())
		})
	}
}

// Where nothing succeeds, the walk back ends.
func TestTheLookForASuccessIsBounded(t *testing.T) {
	for name, scheduled := range map[string]bool{"of a schedule": true, "of runs that were asked for": false} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			store := newStore(f.Engine(1))
			r := Run{ID: 1 << 40, JobID: f.Job, FireTime: noon}
			var execute any
			if scheduled {
				r.ExecuteID = f.Add()
				execute = r.ExecuteID
			}
			f.history(execute, Failed)
			began := time.Now()
			rows := f.reads(store, func() {
				_, err := store.LastSuccess(t.Context(), r)
				require.ErrorContains(t, err, fmt.Sprintf("none of the %d runs before it has succeeded", MaxLookBack))
			})
			t.Logf("%d rows in %s", rows, time.Since(began).Round(time.Millisecond))
			require.Less(t, rows, int64(MaxLookBack+5000))
		})
	}
}
