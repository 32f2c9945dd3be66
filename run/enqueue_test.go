package run

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

// Without a transaction there is no COMMIT whose answer could be lost, but that of the statement can be.
func TestAnInsertWithoutAnswerMayHaveBeenMade(t *testing.T) {
	f := newTables(t)
	f.Exec(`UPDATE QRTZ_JOB SET NAME = 'post'`)
	db, faults := f.OpenFaults(f.DSN + "&interpolateParams=true")
	enqueue := func(n New) (Added, error) { return f.store.EnqueueAlone(t.Context(), db, "post", n) }
	faults.LoseInsert.Store(1)
	_, err := enqueue(New{Key: "order 1", Once: true})
	require.ErrorIs(t, err, schema.ErrCommitUnknown)
	id := f.IDs(`SELECT ID FROM QRTZ_RUN`)
	require.Len(t, id, 1)
	f.succeed(f.claimPending(f.Join("n1"), id...)...)
	again, err := enqueue(New{Key: "order 1", Once: true})
	require.NoError(t, err)
	require.Equal(t, Added{id[0], true}, again, "it is safe to repeat, though the run has ended")

	f.Exec(`ALTER TABLE QRTZ_RUN ADD CHECK (JOB_DATA <> '7')`)
	_, err = enqueue(New{Data: []byte("7")})
	require.Error(t, err)
	require.NotErrorIs(t, err, schema.ErrCommitUnknown, "the server has answered")
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time"))
	_, err = f.store.EnqueueAlone(gone, db, "post", New{})
	require.Error(t, err)
	require.NotErrorIs(t, err, schema.ErrCommitUnknown, "nothing was sent")
	_, err = f.store.EnqueueAlone(t.Context(), db, "Posts", New{})
	require.ErrorIs(t, err, sql.ErrNoRows)
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// A session in whose character set a quote can hide adds nothing.
func TestAQuoteCannotHideInASessionOfTheCallers(t *testing.T) {
	f := newTables(t)
	f.Exec(`UPDATE QRTZ_JOB SET NAME = 'post'`)
	db := f.Open(func(cfg *mysql.Config) { cfg.Params = map[string]string{"character_set_client": "gbk"} })
	_, err := f.store.EnqueueAlone(t.Context(), db, "post", New{Data: []byte(`"` + "\xbf" + `' OR 1 = 1 -- "`)})
	var unsafe *schema.UnsafeCharsetError
	require.ErrorAs(t, err, &unsafe)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// The key of a run that another transaction has just ended is not free before that commits.
func TestAKeyPassesWithinOneTransaction(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	runs := f.claimPending(who, f.keyed("order 1"), f.keyed("order 2"), f.keyed("order 3"))
	f.complete(failed(runs[0], at(30)), failed(runs[1], at(30)), Result{Run: runs[2], State: Succeeded, Started: at(1), Finished: at(2), Progress: -1})
	require.Equal(t, int64(2), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE KEY_LIVE = 1 AND STATE = 'PENDING' AND ATTEMPT = 2`))
	old := f.repeatable()
	added, err := f.store.Enqueue(t.Context(), old, at(1), New{JobID: f.Job, Key: "order 1"}, New{JobID: f.Job, Key: "order 3"}, New{JobID: f.Job, Key: "order 3"})
	require.NoError(t, err)
	require.Equal(t, Added{runs[0].ID, true}, added[0], "of the first attempt")
	require.False(t, added[1].Taken)
	require.Equal(t, Added{added[1].ID, true}, added[2])
	require.NoError(t, old.Rollback())
}
