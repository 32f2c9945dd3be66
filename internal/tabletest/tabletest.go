// Package tabletest gives a test a database of its own with the tables, and adds and reads their rows by plain SQL. The packages
// that own the tables share it in their tests, so it knows none of them. Import it from tests only.
package tabletest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

// Noon is a time with a round number of milliseconds.
var Noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

// Past is a time that has passed by the server's clock, so that what was due then is available.
var Past = Noon.AddDate(-10, 0, 0)

// At is so many seconds after Noon.
func At(s int) time.Time { return Noon.Add(time.Duration(s) * time.Second) }

// Tables is a database with the app "a", switched on, and one job of it. Its connections are a person's: they wait for locks as
// long as the server has it.
type Tables struct {
	*sqlx.DB
	T   *testing.T
	DSN string
	Job int64 // of the class "tick", without schedules

	instances atomic.Int64
}

// New returns tables in a database of their own.
func New(t *testing.T) *Tables {
	t.Helper()
	return In(t, testdb.DSN(t))
}

// In returns tables in an empty database.
func In(t *testing.T, dsn string) *Tables {
	t.Helper()
	f := &Tables{T: t, DSN: dsn}
	f.DB = f.Open(nil)
	_, err := schema.Up(t.Context(), f.DB.DB, schema.DefaultPrefix)
	require.NoError(t, err)
	f.Exec(`INSERT INTO QRTZ_APP (APPLICATION, STATE) VALUES ('a', 'Y')`)
	f.Job = f.AddJob("tick")
	return f
}

// Open opens another pool of connections; change may be nil.
func (f *Tables) Open(change func(*mysql.Config)) *sqlx.DB {
	f.T.Helper()
	config, err := mysql.ParseDSN(f.DSN)
	require.NoError(f.T, err)
	if change != nil {
		change(config)
	}
	db, err := sqlx.Open("mysql", config.FormatDSN())
	require.NoError(f.T, err)
	f.T.Cleanup(func() { require.NoError(f.T, db.Close()) })
	return db
}

// Engine opens connections as the engine has: packets, and a short wait for locks.
func (f *Tables) Engine(connections int) *sqlx.DB {
	f.T.Helper()
	link, err := schema.Dial(f.DSN)
	require.NoError(f.T, err)
	db := link.Pool(connections)
	f.T.Cleanup(func() { require.NoError(f.T, db.Close()) })
	return db
}

// Impatient opens connections that send statements one by one, and wait for locks only a little.
func (f *Tables) Impatient() *sqlx.DB {
	f.T.Helper()
	return f.Open(func(config *mysql.Config) { config.Params = map[string]string{"innodb_lock_wait_timeout": "1"} })
}

// Counting opens a single connection, and returns what reads how many rows, of all and of those read in a scan, the server has
// handed to its session.
func (f *Tables) Counting() (db *sqlx.DB, read, scanned func() int64) {
	f.T.Helper()
	one := f.Engine(1)
	count := func(which func(name string) bool) func() int64 {
		return func() (sum int64) {
			var status []struct {
				Name  string `db:"Variable_name"`
				Value int64  `db:"Value"`
			}
			require.NoError(f.T, one.SelectContext(f.T.Context(), &status, `SHOW SESSION STATUS LIKE 'Handler\_read%'`))
			for _, s := range status {
				if which(strings.ToLower(s.Name)) {
					sum += s.Value
				}
			}
			return sum
		}
	}
	const next = "handler_read_rnd_next"
	return one, count(func(name string) bool { return name != next }), count(func(name string) bool { return name == next })
}

// Exec carries out a statement.
func (f *Tables) Exec(query string, args ...any) {
	f.T.Helper()
	_, err := f.ExecContext(f.T.Context(), query, args...)
	require.NoError(f.T, err, query)
}

// Insert carries out a statement, and returns the id of the row that it inserts.
func (f *Tables) Insert(query string, args ...any) (id int64) {
	f.T.Helper()
	done, err := f.ExecContext(f.T.Context(), query, args...)
	require.NoError(f.T, err, query)
	id, err = done.LastInsertId()
	require.NoError(f.T, err)
	return id
}

// Count is the one number that a query returns.
func (f *Tables) Count(query string, args ...any) (n int64) {
	f.T.Helper()
	require.NoError(f.T, f.GetContext(f.T.Context(), &n, query, args...), query)
	return n
}

// Text is the one text that a query returns.
func (f *Tables) Text(query string, args ...any) (s string) {
	f.T.Helper()
	require.NoError(f.T, f.GetContext(f.T.Context(), &s, query, args...), query)
	return s
}

// IDs are the numbers that a query returns, one of each row.
func (f *Tables) IDs(query string, args ...any) (ids []int64) {
	f.T.Helper()
	require.NoError(f.T, f.SelectContext(f.T.Context(), &ids, query, args...), query)
	return ids
}

// Within does something in a transaction of its own.
func (f *Tables) Within(do func(tx *sqlx.Tx) error) {
	f.T.Helper()
	require.NoError(f.T, schema.InTx(f.T.Context(), f.DB, do))
}

// Holding keeps a transaction open that has carried out a statement, as another client's. What it returns ends it.
func (f *Tables) Holding(statement string, args ...any) (end func()) {
	f.T.Helper()
	tx, err := f.BeginTxx(context.Background(), nil)
	require.NoError(f.T, err)
	end = func() { _ = tx.Rollback() }
	f.T.Cleanup(end)
	_, err = tx.ExecContext(f.T.Context(), statement, args...)
	require.NoError(f.T, err)
	return end
}

// SQL that switches off the app, and the node "n1".
const (
	AppOff  = `UPDATE QRTZ_APP SET STATE = 'N'`
	NodeOff = `UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_IP = 'n1'`
)

// AddJob adds a job.
func (f *Tables) AddJob(class string) int64 {
	f.T.Helper()
	return f.Insert(`INSERT INTO QRTZ_JOB (APPLICATION, STATE, JOB_CLASS, JOB_DATA) VALUES ('a', 'EXECUTING', ?, '{"n":1}')`, class)
}

// AddJobs adds n jobs of an app, with ids from 1001 on.
func (f *Tables) AddJobs(app string, n int) {
	f.T.Helper()
	const digits = `(SELECT 0 AS D UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
		UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)`
	f.Exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS)
		SELECT 1001 + N.I, ?, 'tick' FROM (SELECT A.D + 10 * B.D + 100 * C.D + 1000 * E.D + 10000 * G.D AS I
		  FROM `+digits+` A, `+digits+` B, `+digits+` C, `+digits+` E, `+digits+` G) N WHERE N.I < ?`, app, n)
}

// AddOtherApp adds n jobs of the app "b", each with an execute and a run.
func (f *Tables) AddOtherApp(n int) {
	f.T.Helper()
	f.AddJobs("b", n)
	f.Exec(`UPDATE QRTZ_JOB SET KEEP_RUNS = 10 WHERE APPLICATION = 'b'`)
	f.Exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_INTERVAL, NEXT_FIRE_TIME)
		SELECT ID, 'b', 'SIMPLE', ELT(1 + ID % 3, 'EXECUTING', 'PAUSED', 'ERROR'), 1000, 0 FROM QRTZ_JOB WHERE APPLICATION = 'b'`)
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, STATE, FINISHED_AT, CANCEL_AT)
		SELECT 'b', ID, ELT(1 + ID % 4, 'PENDING', 'RUNNING', 'SUCCEEDED', 'LOST'), 1, 1 FROM QRTZ_JOB WHERE APPLICATION = 'b'`)
}

// Add adds an execute that fires every second from Noon on.
func (f *Tables) Add() int64 { return f.AddTo(f.Job) }

// AddTo adds such an execute to a job.
func (f *Tables) AddTo(job int64) int64 {
	f.T.Helper()
	return f.Insert(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, NEXT_FIRE_TIME,
		CHANGED_AT) VALUES (?, 'a', 'SIMPLE', 'EXECUTING', -1, 1000, ?, ?, '2020-01-01')`, job, Noon.UnixMilli(), Noon.UnixMilli())
}

// AddMany adds n of them.
func (f *Tables) AddMany(n int) (ids []int64) {
	f.T.Helper()
	for range n {
		ids = append(ids, f.Add())
	}
	return ids
}

// AddExclusive adds a job with an overlap rule and an execute of it that fires every second from Past on.
func (f *Tables) AddExclusive(overlap string, queueLimit int) (job, execute int64) {
	f.T.Helper()
	job = f.AddJob("tick")
	f.Exec(`UPDATE QRTZ_JOB SET OVERLAP = ?, QUEUE_LIMIT = ? WHERE ID = ?`, overlap, queueLimit, job)
	execute = f.AddTo(job)
	f.Exec(`UPDATE QRTZ_EXECUTE SET START_TIME = ?, NEXT_FIRE_TIME = ? WHERE ID = ?`, Past.UnixMilli(), Past.UnixMilli(), execute)
	return job, execute
}

// AddPending adds a PENDING run that was due at Noon and belongs to no execute.
func (f *Tables) AddPending() int64 {
	f.T.Helper()
	return f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME) VALUES ('a', ?, ?)`, f.Job, Noon.UnixMilli())
}

// Join is a new instance of a node that is on.
func (f *Tables) Join(nodeID string) node.Instance {
	f.T.Helper()
	id := f.instances.Add(1)
	f.Exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE) VALUES ('a', ?, 'host', 'Y', 0, ?)
		ON DUPLICATE KEY UPDATE INSTANCE = VALUES(INSTANCE)`, nodeID, id)
	return node.Instance{NodeID: nodeID, HostName: "host", ID: id}
}

// JoinAnother is an instance of a node that was not there before.
func (f *Tables) JoinAnother() node.Instance {
	f.T.Helper()
	return f.Join(fmt.Sprint("node ", f.instances.Load()))
}

// RunState is the state of a run.
func (f *Tables) RunState(id int64) string {
	f.T.Helper()
	return f.Text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, id)
}

// PendingIDs lists the PENDING runs, the latest first: what takes them must bring them into order itself.
func (f *Tables) PendingIDs() []int64 {
	return f.IDs(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'PENDING' ORDER BY ID DESC`)
}
