package execute

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOverdueNewAndBroken(t *testing.T) {
	f := newTables(t)
	first, second := f.Add(), f.Add()
	f.Exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = ? WHERE ID = ?`, at(-5).UnixMilli(), second)
	other := f.AddTo(f.AddJob("other"))
	ids := func(all []*Execute, err error) (ids []int64) {
		require.NoError(t, err)
		for _, e := range all {
			ids = append(ids, e.ID)
		}
		return ids
	}
	overdue := func(state State, from, until time.Time, limit int, classes ...string) []int64 {
		return ids(f.store.Overdue(t.Context(), state, classes, from, until, limit))
	}
	require.Equal(t, []int64{second, first}, overdue(Executing, at(-5), noon, 10, "tick"), "the oldest first, both ends included")
	require.Equal(t, []int64{second}, overdue(Executing, at(-5), noon, 1, "tick"))
	require.Equal(t, []int64{first}, overdue(Executing, at(-4), noon, 10, "tick"))
	require.Empty(t, overdue(Executing, at(-4), at(-1), 10, "tick"))
	require.Empty(t, overdue(Paused, at(-5), noon, 10, "tick"))
	require.Empty(t, overdue(Executing, at(-5), noon, 10))
	require.Empty(t, ids(f.store.New(t.Context(), []string{"tick"}, 10)))

	f.Exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = 0 WHERE ID = ?`, first)
	f.Exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = NULL WHERE ID = ?`, second)
	require.ElementsMatch(t, []int64{first, second}, ids(f.store.New(t.Context(), []string{"tick"}, 10)))
	require.Empty(t, ids(f.store.New(t.Context(), []string{"nothing"}, 10)))

	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'ERROR', STATE_REASON = 'no' WHERE ID <> ?`, first)
	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'ERROR' WHERE ID = ?`, first) // by a person: theirs to heal
	require.Equal(t, []int64{second, other}, ids(f.store.Broken(t.Context(), 0, 10)))
	require.Equal(t, []int64{other}, ids(f.store.Broken(t.Context(), second, 10)))
}

func TestDueReadsOnlyWhatIsWorthALook(t *testing.T) {
	f := newTables(t)
	f.AddMany(2*duePage + 10)
	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE ID MOD 10 = 0`)
	var asked []int64
	even, err := f.store.Due(t.Context(), time.UnixMilli(1), noon, func(id int64) bool { return id%2 == 0 }, func(id int64, class string) bool {
		asked = append(asked, id)
		return class == "tick" && id%3 == 0
	})
	require.NoError(t, err)
	want := f.due(noon)
	want = slices.DeleteFunc(want, func(e *Execute) bool { return e.ID%6 != 0 })
	require.NotEmpty(t, want)
	require.ElementsMatch(t, want, even)
	require.False(t, slices.ContainsFunc(asked, func(id int64) bool { return id%2 != 0 || id%10 == 0 }))
}

func TestPausedAfter(t *testing.T) {
	f := newTables(t)
	f.AddMany(2)
	paused := f.AddTo(f.AddJob("other"))
	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE ID = ?`, paused)
	all, err := f.store.PausedAfter(t.Context(), Cursor{Next: 1}, noon, 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, paused, all[0].ID)
	all, err = f.store.PausedAfter(t.Context(), Cursor{Next: 1}, at(-1), 10)
	require.NoError(t, err)
	require.Empty(t, all)
}

// Where a poll has found many executes that are others', the next one reads their ids as they are being written. The rows that it returns are
// read as committed.
func TestManyThatAreOthers(t *testing.T) {
	f := newTables(t)
	id := f.Add()
	f.Exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, NAME, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, NEXT_FIRE_TIME)
		SELECT PID, APPLICATION, seq, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, NEXT_FIRE_TIME
		  FROM QRTZ_EXECUTE, (WITH RECURSIVE N AS (SELECT 1 AS seq UNION ALL SELECT seq + 1 FROM N WHERE seq < 1000) SELECT seq FROM N) S WHERE ID = ?`, id)
	due := func() (ids []int64) {
		found, err := f.store.Due(t.Context(), at(-60), at(60), func(other int64) bool { return other == id }, func(int64, string) bool { return true })
		require.NoError(t, err)
		for _, e := range found {
			ids = append(ids, e.ID)
		}
		return ids
	}
	require.Equal(t, []int64{id}, due())
	require.True(t, f.store.manyDue.Load())
	end := f.Holding(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE ID <> ?`, id)
	require.Equal(t, []int64{id}, due())
	require.False(t, f.store.manyDue.Load(), "it has seen what is not committed")
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE = 'PAUSED'`), "other statements on the connection do not")
	end()
}
