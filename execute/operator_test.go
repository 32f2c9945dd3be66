package execute

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// pause and resume are the store's, in a transaction of their own.
func (f *tables) pause(ids ...int64) (all []Changed) {
	f.T.Helper()
	f.Within(func(tx *sqlx.Tx) (err error) {
		all, err = f.store.Pause(f.T.Context(), tx, at(5), ids...)
		return err
	})
	return all
}

func (f *tables) resume(ids ...int64) (all []Changed) {
	f.T.Helper()
	f.Within(func(tx *sqlx.Tx) (err error) {
		all, err = f.store.Resume(f.T.Context(), tx, at(9), ids...)
		return err
	})
	return all
}

// row is the state of an execute, its next fire in seconds after noon, and whether a pause is noted.
func (f *tables) row(id int64) string {
	f.T.Helper()
	return f.Text(`SELECT CONCAT_WS(' ', STATE, (NEXT_FIRE_TIME - ?) DIV 1000, IF(PAUSED_AT IS NULL, NULL, 'noted')) FROM QRTZ_EXECUTE WHERE ID = ?`, noon.UnixMilli(), id)
}

func TestAPauseEndsNow(t *testing.T) {
	f := newTables(t)
	id := f.Add()
	require.Equal(t, []Changed{{id, Executing, Executing}}, f.resume(id), "what is not paused stays")
	require.Equal(t, "EXECUTING 0", f.row(id))
	require.Equal(t, []Changed{{id, Executing, Paused}}, f.pause(id))
	require.Equal(t, "PAUSED 0 noted", f.row(id), "so that no one who resumes it by SQL at once has the fires of the pause run")
	require.Equal(t, at(5).UnixMilli(), f.Count(`SELECT PAUSED_AT FROM QRTZ_EXECUTE`))
	require.Equal(t, []Changed{{id, Paused, Paused}}, f.pause(id))
	require.Equal(t, []Changed{{id, Paused, Executing}}, f.resume(id))
	require.Equal(t, "EXECUTING 9", f.row(id), "what was due in the pause is passed over")
	f.pause(id)
	f.Exec(`UPDATE QRTZ_EXECUTE SET END_TIME = ?`, at(8).UnixMilli())
	require.Equal(t, []Changed{{id, Paused, Complete}}, f.resume(id), "its end has passed in the pause")
	require.Equal(t, []Changed{{id, Complete, Complete}}, f.pause(id))
	require.Equal(t, []Changed{{id, Complete, Complete}}, f.resume(id))
}

// An execute that was added by SQL and never started: resuming it is how an operator starts it.
func TestResumingStartsWhatWasNeverStarted(t *testing.T) {
	f := newTables(t)
	fresh, given := f.Add(), f.Add()
	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'INIT', NEXT_FIRE_TIME = NULL`)
	f.Exec(`UPDATE QRTZ_EXECUTE SET NEXT_FIRE_TIME = ? WHERE ID = ?`, at(7).UnixMilli(), given)
	require.Equal(t, []Changed{{fresh, Init, Init}}, f.pause(fresh))
	require.Equal(t, []Changed{{fresh, Init, Executing}, {given, Init, Executing}}, f.resume(given, fresh))
	require.Equal(t, "EXECUTING 0", f.row(fresh), "a fixed rate owes its fires from its start on")
	require.Equal(t, "EXECUTING 7", f.row(given), "as a person wrote")
}

func TestWhatCannotFireIsNotResumed(t *testing.T) {
	f := newTables(t)
	good, bad := f.Add(), f.Add()
	f.pause(good, bad)
	f.Exec(`UPDATE QRTZ_EXECUTE SET JOB_TYPE = 'CRON', CRON = 'nonsense' WHERE ID = ?`, bad)
	err := schema.InTx(t.Context(), f.DB, func(tx *sqlx.Tx) error {
		_, err := f.store.Resume(t.Context(), tx, noon, good, bad)
		return err
	})
	require.ErrorContains(t, err, fmt.Sprintf("execute %d: CRON: ", bad))
	require.Equal(t, "PAUSED 0 noted", f.row(good), "all or none")
}

// More executes than one statement takes, each moved on by its own schedule.
func TestManyArePausedAndResumedInOneCall(t *testing.T) {
	f := newTables(t)
	f.AddMany(2*operatorPage + 3)
	f.Exec(`UPDATE QRTZ_EXECUTE SET REPEAT_INTERVAL = 1000 * (1 + ID MOD 7)`)
	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'COMPLETE' WHERE ID MOD 10 = 0`)
	var ids []int64
	f.Within(func(tx *sqlx.Tx) (err error) {
		ids, err = f.store.ExecutesOf(t.Context(), tx, f.Job)
		return err
	})
	require.Len(t, f.pause(ids...), 2*operatorPage+3)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE <> IF(ID MOD 10 = 0, 'COMPLETE', 'PAUSED')`))
	f.resume(ids...)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE <> IF(ID MOD 10 = 0, 'COMPLETE', 'EXECUTING')`))
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE = 'EXECUTING' AND NEXT_FIRE_TIME <> ? + CEIL(9000 / REPEAT_INTERVAL) * REPEAT_INTERVAL`, noon.UnixMilli()))
}

// An id of another app is not found, whatever is to be done.
func TestVerbsAreForTheAppAlone(t *testing.T) {
	f := newTables(t)
	theirJob := f.Insert(`INSERT INTO QRTZ_JOB (APPLICATION, JOB_CLASS, NAME) VALUES ('b', 'tick', 'theirs')`)
	theirs, unadopted, ours := f.AddTo(theirJob), f.AddTo(theirJob), f.Add()
	f.Exec(`UPDATE QRTZ_EXECUTE SET APPLICATION = 'b' WHERE ID = ?`, theirs)
	f.Exec(`UPDATE QRTZ_EXECUTE SET APPLICATION = NULL WHERE ID <> ?`, theirs)
	for what, do := range map[string]func(tx *sqlx.Tx) error{
		"pause":      func(tx *sqlx.Tx) error { _, err := f.store.Pause(t.Context(), tx, noon, ours, theirs); return err },
		"resume":     func(tx *sqlx.Tx) error { _, err := f.store.Resume(t.Context(), tx, noon, unadopted); return err },
		"no such":    func(tx *sqlx.Tx) error { _, err := f.store.Resume(t.Context(), tx, noon, 4711); return err },
		"executes":   func(tx *sqlx.Tx) error { _, err := f.store.ExecutesOf(t.Context(), tx, theirJob); return err },
		"job":        func(tx *sqlx.Tx) error { return f.store.CheckJob(t.Context(), tx, theirJob) },
		"delete":     func(tx *sqlx.Tx) error { return f.store.DeleteExecute(t.Context(), tx, noon, theirs) },
		"delete new": func(tx *sqlx.Tx) error { return f.store.DeleteExecute(t.Context(), tx, noon, unadopted) },
		"gone":       func(tx *sqlx.Tx) error { return f.store.DeleteExecute(t.Context(), tx, noon, 4711) },
		"delete job": func(tx *sqlx.Tx) error { return f.store.DeleteJob(t.Context(), tx, noon, theirJob) },
	} {
		require.ErrorIs(t, schema.InTx(t.Context(), f.DB, do), run.ErrNotFound, what)
	}
	require.Equal(t, int64(3), f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE = 'EXECUTING'`))
	require.Equal(t, []Changed{{ours, Executing, Paused}}, f.pause(ours), "not yet adopted, but of our job")
	f.Within(func(tx *sqlx.Tx) error { return f.store.DeleteExecute(t.Context(), tx, noon, ours) })
	require.Equal(t, int64(2), f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE`))
}

func TestDeletingAScheduleLeavesTheOthersOfItsJob(t *testing.T) {
	f := newTables(t)
	gone, kept := f.Add(), f.Add()
	pending := f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME) VALUES ('a', ?, ?, ?)`, f.Job, gone, noon.UnixMilli())
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE) VALUES ('a', ?, ?, ?, 'RUNNING')`, f.Job, gone, at(1).UnixMilli())
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME) VALUES ('a', ?, ?, ?), ('a', ?, NULL, 0)`, f.Job, kept, noon.UnixMilli(), f.Job)
	f.Within(func(tx *sqlx.Tx) error { return f.store.DeleteExecute(t.Context(), tx, at(3), gone) })
	require.Equal(t, kept, f.Count(`SELECT ID FROM QRTZ_EXECUTE`))
	require.Equal(t, fmt.Sprintf("%d its schedule was deleted %d", pending, at(3).UnixMilli()),
		f.Text(`SELECT GROUP_CONCAT(ID, ' ', MESSAGE, ' ', FINISHED_AT) FROM QRTZ_RUN WHERE STATE = 'CANCELLED'`))
	require.Equal(t, int64(2), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`), "it continues")
}

// Deleting a job locks no run of another one, at REPEATABLE READ either, however few runs there are.
func TestDeletingAJobLocksNoOtherRuns(t *testing.T) {
	f := newTables(t)
	f.Exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS) VALUES (700, 'b', 'tick')`)
	for range 5 {
		f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID) VALUES ('b', 700), ('a', ?), ('b', ?)`, f.Job, f.Job)
	}
	tx, err := f.BeginTxx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	require.NoError(t, f.store.DeleteJob(t.Context(), tx, noon, f.Job))
	other, err := f.Connx(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	_, err = other.ExecContext(t.Context(), `SET SESSION innodb_lock_wait_timeout = 1`)
	require.NoError(t, err)
	var theirs []int64
	require.NoError(t, f.SelectContext(t.Context(), &theirs, `SELECT ID FROM QRTZ_RUN WHERE APPLICATION = 'b'`))
	for _, id := range theirs {
		_, err = other.ExecContext(t.Context(), `UPDATE QRTZ_RUN SET MESSAGE = 'x' WHERE ID = ?`, id)
		require.NoError(t, err)
	}
	_, err = other.ExecContext(t.Context(), `INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID) VALUES ('b', 700), ('b', 1)`)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.Equal(t, int64(5), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'CANCELLED' AND APPLICATION = 'a'`))
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'CANCELLED' AND APPLICATION = 'b'`))
}
