package execute

import (
	"database/sql"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// noon is a time with a round number of milliseconds.
var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

func at(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }

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

// tables is a database with the app "a", switched on, and one job.
type tables struct {
	*sqlx.DB
	t     *testing.T
	dsn   string
	store *Store
	job   int64
	last  atomic.Int64 // instance
}

// newStore is a store of the app "a".
func newStore(db *sqlx.DB) *Store {
	return NewStore(db, schema.DefaultPrefix, "a", run.NewStore(db, schema.DefaultPrefix, "a"))
}

func newTables(t *testing.T) *tables {
	t.Helper()
	return tablesIn(t, testdb.DSN(t))
}

// tablesIn is tables in an empty database.
func tablesIn(t *testing.T, dsn string) *tables {
	t.Helper()
	f := &tables{t: t, dsn: dsn}
	db, err := sqlx.Open("mysql", f.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	link, err := schema.Dial(dsn)
	require.NoError(t, err)
	own := link.Pool(4)
	t.Cleanup(func() { _ = own.Close() })
	f.DB, f.store = db, newStore(own)
	_, err = schema.Up(t.Context(), db.DB, schema.DefaultPrefix)
	require.NoError(t, err)
	f.exec(`INSERT INTO QRTZ_APP (APPLICATION, STATE) VALUES ('a', 'Y')`)
	f.job = f.addJob("tick")
	return f
}

func (f *tables) exec(query string, args ...any) sql.Result {
	f.t.Helper()
	done, err := f.ExecContext(f.t.Context(), query, args...)
	require.NoError(f.t, err, query)
	return done
}

func (f *tables) count(query string, args ...any) (n int64) {
	f.t.Helper()
	require.NoError(f.t, f.GetContext(f.t.Context(), &n, query, args...), query)
	return n
}

func (f *tables) text(query string, args ...any) (s string) {
	f.t.Helper()
	require.NoError(f.t, f.GetContext(f.t.Context(), &s, query, args...), query)
	return s
}

func (f *tables) id(done sql.Result) int64 {
	f.t.Helper()
	id, err := done.LastInsertId()
	require.NoError(f.t, err)
	return id
}

func (f *tables) addJob(class string) int64 {
	f.t.Helper()
	return f.id(f.exec(`INSERT INTO QRTZ_JOB (APPLICATION, STATE, JOB_CLASS, JOB_DATA) VALUES ('a', 'EXECUTING', ?, '{"n":1}')`, class))
}

// add adds an execute that fires every second from noon on.
func (f *tables) add() int64 { return f.addTo(f.job) }

func (f *tables) addTo(job int64) int64 {
	f.t.Helper()
	return f.id(f.exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, NEXT_FIRE_TIME,
		CHANGED_AT) VALUES (?, 'a', 'SIMPLE', 'EXECUTING', -1, 1000, ?, ?, '2020-01-01')`, job, noon.UnixMilli(), noon.UnixMilli()))
}

func (f *tables) addMany(n int) {
	f.t.Helper()
	for range n {
		f.add()
	}
}

// join is an instance of a node that is on.
func (f *tables) join(hostIP string) node.Instance {
	f.t.Helper()
	id := f.last.Add(1)
	f.exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE) VALUES ('a', ?, 'host', 'Y', 0, ?)
		ON DUPLICATE KEY UPDATE INSTANCE = VALUES(INSTANCE)`, hostIP, id)
	return node.Instance{NodeID: hostIP, HostName: "host", ID: id}
}

// due reads what fires until a time.
func (f *tables) due(until time.Time) []*Execute {
	f.t.Helper()
	all, err := f.store.Due(f.t.Context(), time.UnixMilli(1), until, nil, func(int64, string) bool { return true })
	require.NoError(f.t, err)
	return all
}

func (f *tables) read(id int64) *Execute {
	f.t.Helper()
	all, err := f.store.read(f.t.Context(), `SELECT `+rowColumns+` FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID WHERE E.ID = ?`, id)
	require.NoError(f.t, err)
	require.Len(f.t, all, 1)
	return all[0]
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
	f.t.Helper()
	won, err := f.store.Claim(f.t.Context(), who, claims(executes, n))
	require.NoError(f.t, err)
	return won
}

// pendingOf are those of some runs that may be claimed.
func (f *tables) pendingOf(store *Store, ids ...int64) []run.PendingRun {
	f.t.Helper()
	var classes []string
	require.NoError(f.t, f.SelectContext(f.t.Context(), &classes, `SELECT DISTINCT JOB_CLASS FROM QRTZ_JOB`))
	all, err := store.runs.Pending(f.t.Context(), classes, at(10_000_000), 1000)
	require.NoError(f.t, err)
	return slices.DeleteFunc(all, func(r run.PendingRun) bool { return !slices.Contains(ids, r.ID) })
}

func (f *tables) handBack(store *Store, runs []run.Run) {
	f.t.Helper()
	again, err := store.runs.HandBack(f.t.Context(), runs)
	require.NoError(f.t, err)
	require.Empty(f.t, again)
}

func (f *tables) handBackPending(store *Store, who node.Instance, runs []run.PendingRun) {
	f.t.Helper()
	again, err := store.runs.HandBackPending(f.t.Context(), who, runs)
	require.NoError(f.t, err)
	require.Empty(f.t, again)
}

func (f *tables) handBackFires(store *Store, who node.Instance, claims []Move) {
	f.t.Helper()
	again, err := store.HandBackFires(f.t.Context(), who, claims)
	require.NoError(f.t, err)
	require.Empty(f.t, again)
}

// counting gives the store a single connection, and returns what reads how many rows, of all and of those read in a scan, the
// server has handed to its session.
func (f *tables) counting() (read, scanned func() int64) {
	f.t.Helper()
	link, err := schema.Dial(f.dsn)
	require.NoError(f.t, err)
	one := link.Pool(1)
	f.t.Cleanup(func() { _ = one.Close() })
	f.store = newStore(one)
	count := func(which func(name string) bool) func() int64 {
		return func() (sum int64) {
			var status []struct {
				Name  string `db:"Variable_name"`
				Value int64  `db:"Value"`
			}
			require.NoError(f.t, one.SelectContext(f.t.Context(), &status, `SHOW SESSION STATUS LIKE 'Handler\_read%'`))
			for _, s := range status {
				if which(strings.ToLower(s.Name)) {
					sum += s.Value
				}
			}
			return sum
		}
	}
	const next = "handler_read_rnd_next"
	return count(func(name string) bool { return name != next }), count(func(name string) bool { return name == next })
}

// dropChecks has the server take any value, as one without CHECK constraints does.
func (f *tables) dropChecks() {
	f.t.Helper()
	var checks []struct {
		Table string `db:"T"`
		Name  string `db:"N"`
	}
	require.NoError(f.t, f.SelectContext(f.t.Context(), &checks, `SELECT TABLE_NAME AS T, CONSTRAINT_NAME AS N FROM information_schema.TABLE_CONSTRAINTS
		WHERE CONSTRAINT_SCHEMA = DATABASE() AND CONSTRAINT_TYPE = 'CHECK'`))
	for _, c := range checks {
		f.exec(`ALTER TABLE ` + c.Table + ` DROP CONSTRAINT ` + c.Name)
	}
}

func (f *tables) runState(id int64) string {
	f.t.Helper()
	return f.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, id)
}
