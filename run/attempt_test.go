package run

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

// keyed adds a run that has a key, with options of its own.
func (f *tables) keyed(key string) int64 {
	f.T.Helper()
	return f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, RUN_KEY, KEY_LIVE, RUN_TIMEOUT, ATTEMPTS, PRIORITY, CHECKPOINT)
		VALUES ('a', ?, ?, 1, 1500, 7, 1, 'page 3')`, f.Job, key)
}

// liveKeys are the ids of the runs that have a key now.
func (f *tables) liveKeys() []int64 {
	return f.IDs(`SELECT ID FROM QRTZ_RUN WHERE KEY_LIVE = 1 ORDER BY ID`)
}

func (f *tables) within(do func(tx *sqlx.Tx) error) error {
	return schema.InTx(f.T.Context(), f.store.db.DB, do)
}

func (f *tables) cancel(id int64) (running []int64, err error) {
	err = f.within(func(tx *sqlx.Tx) (err error) {
		running, err = f.store.Cancel(f.T.Context(), tx, at(100), id)
		return err
	})
	return running, err
}

func (f *tables) retry(id int64) (newID int64, err error) {
	err = f.within(func(tx *sqlx.Tx) (err error) {
		newID, err = f.store.Retry(f.T.Context(), tx, at(100), id)
		return err
	})
	return newID, err
}

func (f *tables) complete(results ...Result) {
	f.T.Helper()
	done, err := f.store.Complete(f.T.Context(), results)
	require.NoError(f.T, err)
	require.Equal(f.T, Completed{}, done)
}

// However an attempt ends, the next one is of the same origin, and has its key and its options.
func TestAFurtherAttemptIsTheSameRun(t *testing.T) {
	for name, history := range map[string]History{"kept": HistoryAll, "not kept": HistoryNone} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1, HISTORY = ?`, history)
			first, other := f.keyed("order 1"), f.keyed("order 2")
			who := f.Join("n1")
			claimed := f.claimPending(who, first, other)
			f.complete(failed(claimed[0], at(30)), failed(claimed[1], at(30)))
			for n := 2; n <= 4; n++ {
				ids := f.IDs(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'PENDING' AND ORIGIN = ? AND RUN_KEY = 'order 1' AND ATTEMPT = ?`, first, n)
				require.Len(t, ids, 1)
				require.Contains(t, f.liveKeys(), ids[0])
				require.Len(t, f.liveKeys(), 2)
				r := f.claimPending(who, ids[0])[0]
				require.Equal(t, claimed[0].Key(), r.Key())
				require.NotEqual(t, claimed[1].Key(), r.Key())
				require.Equal(t, []any{claimed[0].Options, 7, PriorityHigh, n}, []any{r.Options, r.Options.Attempts, r.Options.Priority, r.Attempt})
				require.Equal(t, "page 3", f.Text(`SELECT CHECKPOINT FROM QRTZ_RUN WHERE ID = ?`, r.ID))
				switch n {
				case 2:
					_, err := f.store.Lose(t.Context(), who.ID, "its node died")
					require.NoError(t, err)
				case 3:
					f.complete(Result{Run: r, State: Failed, Started: at(1), Finished: at(2), Progress: -1})
					require.Len(t, f.liveKeys(), 1, "it has ended")
					if history == HistoryNone {
						return
					}
					_, err := f.retry(first)
					require.NoError(t, err)
				case 4:
					f.succeed(r)
				}
			}
			require.Len(t, f.liveKeys(), 1)
			require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE KEY_LIVE = 1 AND RUN_KEY = 'order 1'`))
		})
	}
}

// Whatever ends a run frees its key, unless it may be used once: then it is free when the row is gone.
func TestTheEndOfARunFreesItsKey(t *testing.T) {
	claimed := func(f *tables, id int64) Run { return f.claimPending(f.Join("n1"), id)[0] }
	now := func(f *tables) { f.Exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1`) }
	for name, end := range map[string]func(*tables, int64){
		"success": func(f *tables, id int64) { f.succeed(claimed(f, id)) },
		"failure": func(f *tables, id int64) {
			f.complete(Result{Run: claimed(f, id), State: Failed, Started: at(1), Finished: at(2), Progress: -1})
		},
		"failure when asked to be cancelled": func(f *tables, id int64) {
			r := claimed(f, id)
			now(f)
			f.complete(failed(r, at(30)))
		},
		"loss": func(f *tables, id int64) {
			_, err := f.store.Lose(f.T.Context(), claimed(f, id).Instance, "its node died")
			require.NoError(f.T, err)
		},
		"loss when asked to be cancelled": func(f *tables, id int64) {
			f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
			r := claimed(f, id)
			now(f)
			_, err := f.store.Lose(f.T.Context(), r.Instance, "its node died")
			require.NoError(f.T, err)
		},
		"cancelled": func(f *tables, id int64) {
			_, err := f.cancel(id)
			require.NoError(f.T, err)
		},
		"cancelled by SQL": func(f *tables, id int64) {
			now(f)
			_, err := f.store.ClaimPending(f.T.Context(), f.Join("n1"), f.pending(id))
			require.NoError(f.T, err)
		},
		"cancelled by SQL, found later": func(f *tables, _ int64) {
			now(f)
			_, err := f.store.StuckRuns(f.T.Context(), at(10))
			require.NoError(f.T, err)
		},
		"its job is deleted": func(f *tables, _ int64) {
			require.NoError(f.T, f.within(func(tx *sqlx.Tx) error { return f.store.CancelPendingOfJob(f.T.Context(), tx, at(1), f.Job) }))
		},
		"skipped": func(f *tables, id int64) {
			_, err := f.store.skip(f.T.Context(), Run{ID: id}, overlapSkipped)
			require.NoError(f.T, err)
		},
		"its claim is refused": func(f *tables, id int64) {
			f.Exec(`CREATE TRIGGER NOT_THAT BEFORE UPDATE ON QRTZ_RUN FOR EACH ROW
				BEGIN IF NEW.STATE = 'RUNNING' THEN SIGNAL SQLSTATE '45000'; END IF; END`)
			claimed, err := f.store.ClaimPending(f.T.Context(), f.Join("n1"), f.pending(id))
			require.NoError(f.T, err)
			require.Len(f.T, claimed.Refused, 1)
		},
	} {
		for _, once := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				f := newTables(t)
				id := f.keyed("order 1")
				f.Exec(`UPDATE QRTZ_RUN SET KEY_ONCE = ?`, once)
				end(f, id)
				require.NotContains(t, []string{"PENDING", "RUNNING"}, f.RunState(id))
				if once {
					require.Equal(t, []int64{id}, f.liveKeys())
				} else {
					require.Empty(t, f.liveKeys())
				}
				require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
			})
		}
	}
}

func TestWhatIsHandedBackKeepsItsKey(t *testing.T) {
	f := newTables(t)
	id := f.keyed("order 1")
	f.handBack(f.claimPending(f.Join("n1"), id)...)
	require.Equal(t, []int64{id}, f.liveKeys())
}

// A run is cancelled and tried again by the id of any of its attempts.
func TestEachAttemptNamesTheRun(t *testing.T) {
	for name, history := range map[string]History{"kept": HistoryAll, "not kept": HistoryNone} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.Exec(`UPDATE QRTZ_JOB SET HISTORY = ?`, history)
			who := f.Join("n1")
			first, other := f.asked(""), f.asked("")
			f.complete(failed(f.claimPending(who, first)[0], at(30)))
			second := f.IDs(`SELECT ID FROM QRTZ_RUN WHERE ORIGIN = ?`, first)[0]
			r := f.claimPending(who, second)[0]
			running, err := f.cancel(first)
			require.NoError(t, err)
			require.Equal(t, []int64{second}, running)
			require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE CANCEL_AT IS NOT NULL`))
			f.complete(failed(r, at(30)))
			require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND ORIGIN = ?`, first), "it was to be cancelled")
			require.Equal(t, "PENDING", f.RunState(other))
			_, err = f.cancel(first)
			if history == HistoryNone {
				require.ErrorIs(t, err, ErrNotFound)
				return
			}
			require.ErrorIs(t, err, ErrWrongState)
			third, err := f.retry(first)
			require.NoError(t, err)
			require.Equal(t, "3 PENDING", f.Text(`SELECT CONCAT(ATTEMPT, ' ', STATE) FROM QRTZ_RUN WHERE ID = ? AND ORIGIN = ?`, third, first))
			_, err = f.retry(second)
			require.ErrorContains(t, err, "is PENDING; only a FAILED, LOST or CANCELLED run")
			running, err = f.cancel(second)
			require.NoError(t, err)
			require.Empty(t, running)
			require.Equal(t, "CANCELLED", f.RunState(third))
		})
	}
}

// A transaction that began before the run failed sees neither that nor the attempt that followed.
func TestAnOldTransactionFindsTheAttemptThatIsThereNow(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	first := f.asked("")
	r := f.claimPending(who, first)[0]
	old := f.repeatable()
	f.complete(failed(r, at(30)))
	running, err := f.store.Cancel(t.Context(), old, at(100), first)
	require.NoError(t, err)
	require.Empty(t, running)
	require.NoError(t, old.Commit())
	require.Equal(t, "CANCELLED", f.Text(`SELECT STATE FROM QRTZ_RUN WHERE ORIGIN = ?`, first))
	old = f.repeatable()
	_, err = f.store.Cancel(t.Context(), old, at(100), f.asked(""))
	require.NoError(t, err, "it did not see that run at all")
	require.NoError(t, old.Commit())

	third, err := f.retry(first)
	require.NoError(t, err)
	f.complete(Result{Run: f.claimPending(who, third)[0], State: Failed, Started: at(1), Finished: at(2), Progress: -1})
	old = f.repeatable()
	_, err = f.retry(first)
	require.NoError(t, err)
	_, err = f.store.Retry(t.Context(), old, at(100), first)
	require.ErrorContains(t, err, "tried again already")
	require.Equal(t, int64(5), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// repeatable is a transaction at REPEATABLE READ whose snapshot has been taken.
func (f *tables) repeatable() *sqlx.Tx {
	f.T.Helper()
	tx, err := f.BeginTxx(context.Background(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(f.T, err)
	f.T.Cleanup(func() { _ = tx.Rollback() })
	var n int
	require.NoError(f.T, tx.Get(&n, `SELECT COUNT(*) FROM QRTZ_RUN`))
	return tx
}

// A transaction that cancels a run holds up no attempts of others, however long it takes.
func TestCancellingLocksNoAttemptsOfOthers(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	ids := []int64{f.asked(""), f.asked(""), f.asked(""), f.asked(""), f.asked("")}
	runs := f.claimPending(who, ids...)
	f.complete(failed(runs[0], at(30)), failed(runs[2], at(30)))
	tx := f.repeatable()
	running, err := f.store.Cancel(t.Context(), tx, at(100), ids[1])
	require.NoError(t, err)
	require.Equal(t, []int64{ids[1]}, running)
	_, err = f.store.Cancel(t.Context(), tx, at(100), ids[2])
	require.NoError(t, err)
	f.complete(failed(runs[3], at(30)))
	_, err = f.cancel(ids[4])
	require.NoError(t, err)
	f.complete(failed(f.claimPending(who, f.IDs(`SELECT ID FROM QRTZ_RUN WHERE ORIGIN = ?`, ids[0])...)[0], at(30)))
}
