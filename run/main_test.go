package run

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/internal/tabletest"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

var noon, past = tabletest.Noon, tabletest.Past

func at(s int) time.Time { return tabletest.At(s) }

// tables are the tables as a store of the app "a" sees them, with connections as the engine has.
type tables struct {
	*tabletest.Tables
	store *Store
}

func newTables(t *testing.T) *tables {
	t.Helper()
	f := tabletest.New(t)
	return &tables{f, newStore(f.Engine(4))}
}

// newStore is a store of the app "a".
func newStore(db *sqlx.DB) *Store { return NewStore(db, schema.DefaultPrefix, "a") }

// claim has an instance win the next n fires of each of some executes, without a race. It moves the executes as package execute
// does, and leaves and starts their runs.
func (f *tables) claim(who node.Instance, n int, executes ...int64) Claimed {
	f.T.Helper()
	token := rand.Int64()
	slices.Sort(executes)
	moved := make([]Fires, len(executes))
	for i, id := range executes {
		moved[i] = Fires{ExecuteID: id, One: n == 1}
		next := time.UnixMilli(f.Count(`SELECT NEXT_FIRE_TIME FROM QRTZ_EXECUTE WHERE ID = ?`, id))
		for range n {
			moved[i].Rows = append(moved[i].Rows, NewRun{State: Running, FireTime: next, Count: 1})
			next = next.Add(time.Second)
		}
		f.Exec(`UPDATE QRTZ_EXECUTE SET PREV_FIRE_TIME = ?, NEXT_FIRE_TIME = ?, FENCE = FENCE + 1, CLAIM_TOKEN = ?, CHANGED_AT = CHANGED_AT WHERE ID = ?`,
			next.Add(-time.Second).UnixMilli(), next.UnixMilli(), token, id)
	}
	require.NoError(f.T, f.store.db.InPacket(f.T.Context(), func(p *schema.Packet) error {
		f.store.InsertMoved(p, who, token, moved)
		return nil
	}))
	left := func(state State) (runs []Run) {
		var rows []row
		require.NoError(f.T, f.SelectContext(f.T.Context(), &rows, `SELECT `+runColumns+` FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID LEFT JOIN QRTZ_EXECUTE E ON E.ID = R.EXECUTE_ID
			WHERE R.CLAIM_TOKEN = ? AND R.STATE = ? ORDER BY R.FIRE_TIME, R.ID`, token, state))
		for _, r := range rows {
			one := r.run(who, &f.store.zones)
			one.Token = token
			runs = append(runs, one)
		}
		return runs
	}
	running := left(Running)
	claimed, err := f.store.StartExclusive(f.T.Context(), who, left(Pending))
	require.NoError(f.T, err)
	claimed.Runs = slices.SortedFunc(slices.Values(append(running, claimed.Runs...)), ByFireTime)
	return claimed
}

// asked adds a run that a person asks for by SQL, with data of its own or, if that is empty, that of its job.
func (f *tables) asked(data string) int64 {
	f.T.Helper()
	return f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, JOB_DATA) VALUES ('a', ?, NULLIF(?, ''))`, f.Job, data)
}

// pending are those of some runs that may be claimed.
func (f *tables) pending(ids ...int64) []PendingRun {
	f.T.Helper()
	all, err := f.store.Pending(f.T.Context(), []string{"tick"}, at(10_000_000), 1000)
	require.NoError(f.T, err)
	return slices.DeleteFunc(all, func(r PendingRun) bool { return !slices.Contains(ids, r.ID) })
}

func (f *tables) claimPending(who node.Instance, ids ...int64) []Run {
	f.T.Helper()
	claimed, err := f.store.ClaimPending(f.T.Context(), who, f.pending(ids...))
	require.NoError(f.T, err)
	return claimed.Runs
}

func (f *tables) handBack(runs ...Run) {
	f.T.Helper()
	again, err := f.store.HandBack(f.T.Context(), runs)
	require.NoError(f.T, err)
	require.Empty(f.T, again)
}

func (f *tables) handBackPending(who node.Instance, runs ...PendingRun) {
	f.T.Helper()
	again, err := f.store.HandBackPending(f.T.Context(), who, runs)
	require.NoError(f.T, err)
	require.Empty(f.T, again)
}

func (f *tables) succeed(runs ...Run) {
	f.T.Helper()
	results := make([]Result, len(runs))
	for i, r := range runs {
		results[i] = Result{Run: r, State: Succeeded, Started: at(1), Finished: at(2), Progress: -1}
	}
	done, err := f.store.Complete(f.T.Context(), results)
	require.NoError(f.T, err)
	require.Equal(f.T, Completed{}, done)
}
