package execute

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/internal/tabletest"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

var noon = tabletest.Noon

func at(s int) time.Time { return tabletest.At(s) }

// parsed is an execute as it would be read; next may be zero.
func parsed(t *testing.T, spec Spec, fired int64, next time.Time) *Execute {
	t.Helper()
	var s Schedules
	schedule, err := s.Parse(spec)
	require.NoError(t, err)
	return &Execute{ID: 1, State: Executing, Misfire: FireOnce, CatchUpLimit: 100, Schedule: schedule, Fired: fired, Next: next}
}

func everySecond(repeat int) Spec {
	return Spec{Kind: Simple, Every: time.Second, Repeat: repeat, Start: noon}
}

// tables are the tables as a store of the app "a" sees them, with connections as the engine has.
type tables struct {
	*tabletest.Tables
	store *Store
}

func newTables(t *testing.T) *tables {
	t.Helper()
	return storeOf(tabletest.New(t))
}

func storeOf(f *tabletest.Tables) *tables { return &tables{f, newStore(f.Engine(4))} }

// newStore is a store of the app "a".
func newStore(db *sqlx.DB) *Store {
	return NewStore(db, schema.DefaultPrefix, "a", run.NewStore(db, schema.DefaultPrefix, "a"))
}

// due reads what fires until a time.
func (f *tables) due(until time.Time) []*Execute {
	f.T.Helper()
	all, err := f.store.Due(f.T.Context(), time.UnixMilli(1), until, nil, func(int64, string) bool { return true })
	require.NoError(f.T, err)
	return all
}

func (f *tables) read(id int64) *Execute {
	f.T.Helper()
	all, err := f.store.read(f.T.Context(), `SELECT `+rowColumns+` FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID WHERE E.ID = ?`, id)
	require.NoError(f.T, err)
	require.Len(f.T, all, 1)
	return all[0]
}

// exclusive adds a job with an overlap rule, and an execute of it.
func (f *tables) exclusive(overlap string, queueLimit int) (job int64, e *Execute) {
	f.T.Helper()
	job, id := f.AddExclusive(overlap, queueLimit)
	return job, f.read(id)
}

// claims are the claims of the next n fires of each execute.
func claims(executes []*Execute, n int) []Move {
	moves := make([]Move, len(executes))
	for i, e := range executes {
		moves[i] = e.ClaimMove(e.Fires(at(1000000), n))
	}
	return moves
}

func (f *tables) claim(who node.Instance, n int, executes ...*Execute) Applied {
	f.T.Helper()
	won, err := f.store.Claim(f.T.Context(), who, claims(executes, n))
	require.NoError(f.T, err)
	return won
}

func (f *tables) handBackFires(store *Store, who node.Instance, claims []Move) {
	f.T.Helper()
	again, err := store.HandBackFires(f.T.Context(), who, claims)
	require.NoError(f.T, err)
	require.Empty(f.T, again)
}

// claimPending claims those of some runs that may be claimed.
func (f *tables) claimPending(who node.Instance, ids ...int64) []run.Run {
	f.T.Helper()
	all, err := f.store.runs.Pending(f.T.Context(), []string{"tick"}, at(10_000_000), 1000)
	require.NoError(f.T, err)
	all = slices.DeleteFunc(all, func(r run.PendingRun) bool { return !slices.Contains(ids, r.ID) })
	claimed, err := f.store.runs.ClaimPending(f.T.Context(), who, all)
	require.NoError(f.T, err)
	return claimed.Runs
}

func (f *tables) succeed(runs ...run.Run) {
	f.T.Helper()
	results := make([]run.Result, len(runs))
	for i, r := range runs {
		results[i] = run.Result{Run: r, State: run.Succeeded, Started: at(1), Finished: at(2), Progress: -1}
	}
	done, err := f.store.runs.Complete(f.T.Context(), results)
	require.NoError(f.T, err)
	require.Equal(f.T, run.Completed{}, done)
}
