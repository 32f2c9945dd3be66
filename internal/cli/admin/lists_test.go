package admin

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// rowsEnv is how many executes there are in the tables of these tests, and half as many as there are runs.
const rowsEnv = "QRTZ_LIST_ROWS"

// tables is a database with one connection, whose queries are noted.
type tables struct {
	*Store
	t    *testing.T
	note *notes
	n    int // executes; half of the runs
}

// fill makes tables of three apps: big has nearly everything, small every 500th job, and rare one job with one execute and
// one run. Job 1 has half of all executes and runs. All runs of big are SUCCEEDED but for a few.
func fill(t *testing.T) *tables {
	t.Helper()
	n := 6000
	if text := os.Getenv(rowsEnv); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	cfg, err := mysql.ParseDSN(testdb.DSN(t))
	require.NoError(t, err)
	cfg.InterpolateParams = true
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	note := &notes{Connector: connector}
	db := sql.OpenDB(note)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = schema.Up(t.Context(), db, schema.DefaultPrefix)
	require.NoError(t, err)
	f := &tables{New(db, schema.DefaultPrefix), t, note, n}

	f.exec(`INSERT INTO QRTZ_APP (APPLICATION, STATE) VALUES ('big', 'Y'), ('rare', 'Y'), ('small', 'N')`)
	f.exec(`INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE) VALUES ('big', 'n1', '', 'Y', 0, 1), ('big', 'n2', '', 'Y', 0, 2), ('small', 'n1', '', 'Y', 0, 3)`)
	f.exec(`CREATE TABLE NUMBERS (N INT PRIMARY KEY)`)
	f.exec(`INSERT INTO NUMBERS VALUES (1)`)
	for have := 1; have < 2*n; have *= 2 {
		f.exec(`INSERT INTO NUMBERS SELECT N + ? FROM NUMBERS WHERE N + ? <= ?`, have, have, 2*n)
	}
	f.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS, NAME, STATE)
		SELECT N, IF(N MOD 500 = 499, 'small', 'big'), 'noop', CONCAT('job-', N), 'EXECUTING' FROM NUMBERS WHERE N <= 1500`)
	f.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS, NAME, STATE) VALUES (7000, 'rare', 'noop', 'job-1', 'ERROR')`)
	// 1 or 2 to 1500; the time of one in ten is that of its neighbour.
	const job = `IF(N MOD 2 = 0, 1, 2 + (N DIV 2) MOD 1499)`
	f.exec(`INSERT INTO QRTZ_EXECUTE (ID, PID, APPLICATION, JOB_TYPE, STATE, REPEAT_COUNT, REPEAT_INTERVAL, NEXT_FIRE_TIME)
		SELECT N, ` + job + `, IF(` + job + ` MOD 500 = 499, 'small', 'big'), 'SIMPLE',
		       CASE WHEN N MOD 3000 = 7 THEN 'PAUSED' WHEN N MOD 3 = 0 THEN 'COMPLETE' ELSE 'EXECUTING' END, -1, 1000,
		       IF(N MOD 3 = 0 AND N MOD 3000 <> 7, NULL, 1800000000000 + (N * 7919) MOD 1000000 - (N MOD 10 = 1)) FROM NUMBERS WHERE N <= ` + strconv.Itoa(n))
	f.exec(`INSERT INTO QRTZ_RUN (ID, JOB_ID, APPLICATION, EXECUTE_ID, FIRE_TIME, AVAILABLE_AT, STATE, INSTANCE)
		SELECT N, ` + job + `, IF(` + job + ` MOD 500 = 499, 'small', 'big'), N, 1700000000000 + N, 1700000000000 + (N * 7919) MOD 1000000 - (N MOD 10 = 1),
		       CASE WHEN N MOD 3000 = 5 THEN 'FAILED' WHEN N MOD 3000 = 6 THEN 'RUNNING' ELSE 'SUCCEEDED' END, IF(N MOD 3000 = 6, 1 + N MOD 4 DIV 2, NULL) FROM NUMBERS`)
	f.exec(`INSERT INTO QRTZ_EXECUTE (ID, PID, APPLICATION, JOB_TYPE, STATE, CRON) VALUES (100000000, 7000, 'rare', 'CRON', 'ERROR', 'x'), (100000001, 7000, NULL, 'CRON', 'INIT', '0 0 0 * * ?')`)
	f.exec(`INSERT INTO QRTZ_RUN (ID, JOB_ID, APPLICATION, FIRE_TIME, AVAILABLE_AT, STATE) VALUES (100000000, 7000, 'rare', 1600000000000, 1600000000000, 'LOST')`)
	f.exec(`UPDATE QRTZ_RUN SET RUN_KEY = 'k' WHERE JOB_ID = 1 AND ID MOD 4 = 0`)
	f.exec(`UPDATE QRTZ_RUN SET KEY_LIVE = 1 WHERE ID = 4`)
	f.exec(`ANALYZE TABLE QRTZ_RUN, QRTZ_EXECUTE, QRTZ_JOB`)
	return f
}

func (f *tables) exec(query string, args ...any) {
	f.t.Helper()
	_, err := f.db.ExecContext(f.t.Context(), query, args...)
	require.NoError(f.t, err, query)
}

// ids are what a query finds.
func (f *tables) ids(query string, args ...any) (ids []int64) {
	f.t.Helper()
	require.NoError(f.t, f.db.SelectContext(f.t.Context(), &ids, query, args...))
	return ids
}

// rowsRead is how many rows the server has handed to the session so far.
func (f *tables) rowsRead() (sum int64) {
	f.t.Helper()
	var status []struct {
		Name  string `db:"Variable_name"`
		Value int64  `db:"Value"`
	}
	require.NoError(f.t, f.db.SelectContext(f.t.Context(), &status, `SHOW SESSION STATUS LIKE 'Handler\_read%'`))
	for _, s := range status {
		sum += s.Value
	}
	return sum
}

// cheap runs what reads a list, and fails if it reads more rows than most, or has a plan that reads or sorts a whole table.
func (f *tables) cheap(name string, most int64, read func() error) {
	f.t.Helper()
	before := f.rowsRead()
	f.note.queries = nil
	began := time.Now()
	require.NoError(f.t, read(), name)
	took := time.Since(began)
	queries := slices.Clone(f.note.queries)
	rows := f.rowsRead() - before
	f.t.Logf("%-60s %8.2f ms %7d rows read", name, float64(took.Microseconds())/1000, rows)
	assert.LessOrEqual(f.t, rows, most, name)
	for _, q := range queries {
		f.explain(name, q)
	}
}

func (f *tables) explain(name string, q noted) {
	f.t.Helper()
	rows, err := f.db.QueryxContext(f.t.Context(), "EXPLAIN "+q.text, q.args...)
	require.NoError(f.t, err, q.text)
	defer rows.Close()
	for rows.Next() {
		plan := map[string]any{}
		require.NoError(f.t, rows.MapScan(plan))
		word := func(column string) string { return strings.TrimSpace(fmt.Sprintf("%s", plan[column])) }
		table, access, extra := word("table"), word("type"), word("Extra")
		if large := slices.Contains([]string{"QRTZ_RUN", "QRTZ_EXECUTE", "R", "E"}, table); !large {
			continue
		}
		text := fmt.Sprintf("%s\n%v\n%s", name, plan, q.text)
		assert.NotEqual(f.t, "ALL", access, text)
		if access == "index" {
			assert.Equal(f.t, "PRIMARY", word("key"), text)
		}
		assert.NotContains(f.t, extra, "temporary", text)
		if !strings.Contains(q.text, "AND JOB_ID = ?") && !strings.Contains(q.text, "AND EXECUTE_ID = ?") && !strings.Contains(q.text, "RUN_KEY = ?") && !strings.Contains(q.text, "AND PID = ?") { // few rows of a state are sorted
			assert.NotContains(f.t, extra, "filesort", text)
		}
	}
	require.NoError(f.t, rows.Err())
}

// noted is a query as it was sent.
type noted struct {
	text string
	args []any
}

// notes opens connections that note their queries.
type notes struct {
	driver.Connector
	queries []noted
}

func (n *notes) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := n.Connector.Connect(ctx)
	return &notedConn{c, n}, err
}

type notedConn struct {
	driver.Conn
	notes *notes
}

func (c *notedConn) QueryContext(ctx context.Context, text string, named []driver.NamedValue) (driver.Rows, error) {
	args := make([]any, len(named))
	for i, v := range named {
		args[i] = v.Value
	}
	c.notes.queries = append(c.notes.queries, noted{text, args})
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, text, named)
}

func (c *notedConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args)
}

func (c *notedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c *notedConn) CheckNamedValue(v *driver.NamedValue) error {
	return c.Conn.(driver.NamedValueChecker).CheckNamedValue(v)
}

// walked are the ids of a whole list, read part by part.
func walked[T any](t *testing.T, read func(after schema.Cursor) (schema.Part[T], error), id func(T) int64) (ids []int64) {
	t.Helper()
	for after := (schema.Cursor{}); ; {
		part, err := read(after)
		require.NoError(t, err)
		for _, r := range part.Rows {
			ids = append(ids, id(r))
		}
		if part.Next == (schema.Cursor{}) {
			return ids
		}
		after, err = schema.ParseCursor(part.Next.String())
		require.NoError(t, err)
	}
}

func TestNoListReadsMoreThanItShows(t *testing.T) {
	f := fill(t)
	ctx := t.Context()
	const limit = 20
	few := int64(2000) // for up to 21 branches of 20 rows, which are merged, and then read by key
	for _, app := range []string{"", "big", "small", "rare"} {
		for _, state := range []run.State{"", "SUCCEEDED", "FAILED", "LOST", "PENDING"} {
			filter := run.Filter{App: app, State: state, Limit: limit}
			f.cheap(fmt.Sprintf("runs of app %q in state %q", app, state), few, func() error {
				part, err := f.Runs(ctx, filter)
				filter.After = part.Next
				return err
			})
			f.cheap("  and the next", few, func() error {
				_, err := f.Runs(ctx, filter)
				return err
			})
		}
		for _, state := range append(slices.Clone(execute.States), "") {
			filter := execute.Filter{App: app, State: state, Limit: limit}
			f.cheap(fmt.Sprintf("executes of app %q in state %q", app, state), few, func() error {
				part, err := f.Executes(ctx, filter)
				filter.After = part.Next
				return err
			})
			f.cheap("  and the next", few, func() error {
				_, err := f.Executes(ctx, filter)
				return err
			})
		}
		f.cheap(fmt.Sprintf("jobs of app %q", app), 100_000, func() error { _, err := f.Jobs(ctx, execute.JobFilter{App: app, Limit: limit}); return err })
	}
	rare := 300 + 3*2*f.n/3000 // all rows of a rare state, looked at and read
	for _, c := range []struct {
		app string
		job int64
	}{{"big", 1}, {"small", 499}, {"rare", 7000}} {
		for state, most := range map[run.State]int{"": 200, "SUCCEEDED": 3 * schema.FewRows, "FAILED": rare, "LOST": rare} {
			f.cheap(fmt.Sprintf("runs of job %d in state %q", c.job, state), int64(most), func() error {
				_, err := f.Runs(ctx, run.Filter{App: c.app, JobID: c.job, State: state, Limit: limit})
				return err
			})
		}
		for state, most := range map[execute.State]int{"": 200, "EXECUTING": 3 * schema.FewRows, "PAUSED": rare, "ERROR": rare} {
			f.cheap(fmt.Sprintf("executes of job %d in state %q", c.job, state), int64(most), func() error {
				_, err := f.Executes(ctx, execute.Filter{App: c.app, JobID: c.job, State: state, Limit: limit})
				return err
			})
		}
		f.cheap(fmt.Sprintf("job %d", c.job), 10*execute.MaxCount, func() error { _, err := f.Job(ctx, "", fmt.Sprint(c.job)); return err })
	}
	day := func(n int64) time.Time { return time.UnixMilli(1700000000000 + n) }
	for _, filter := range []run.Filter{
		{App: "big", Since: day(500_000), Until: day(500_100)},
		{App: "big", JobID: 1, Since: day(500_000), Until: day(500_100)},
		{App: "big", JobID: 1, State: "SUCCEEDED", Since: day(500_000), Until: day(500_100)},
		{App: "big", JobID: 1, Key: "k"},
		{App: "big", ExecuteID: 1000},
		{App: "big", ExecuteID: 1000, State: "FAILED"},
	} {
		filter.Limit = limit
		most := few
		switch {
		case filter.State == "FAILED":
			most = int64(rare)
		case filter.Key != "":
			most = 3 * schema.FewRows // they are sorted, or walked to among the job's
		}
		f.cheap(fmt.Sprintf("runs by %+v", filter), most, func() error { _, err := f.Runs(ctx, filter); return err })
	}
	f.cheap("a job by its name", 10*execute.MaxCount, func() error { _, err := f.Job(ctx, "", "job-2"); return err })
	f.cheap("apps", 3*execute.MaxCount, func() error { _, err := f.Apps(ctx); return err })
	f.cheap("nodes", 10_000, func() error { _, err := f.Nodes(ctx, ""); return err })
	f.cheap("a node", 10_000, func() error { _, err := f.Node(ctx, "", "n2"); return err })
	f.cheap("an execute", 10, func() error { _, err := f.Execute(ctx, 1000); return err })
	f.cheap("a run", 10, func() error { _, err := f.Run(ctx, 1000); return err })
}

func TestPartsMakeTheWholeList(t *testing.T) {
	if os.Getenv(rowsEnv) != "" {
		t.Skip("a walk through all of very large tables")
	}
	f := fill(t)
	ctx := t.Context()
	for _, limit := range []int{700, 1000, 1700} { // below, at and above the size of a page
		runs := func(filter run.Filter) []int64 {
			return walked(t, func(after schema.Cursor) (schema.Part[run.Record], error) {
				filter.After, filter.Limit = after, limit
				return f.Runs(ctx, filter)
			}, func(r run.Record) int64 { return r.ID })
		}
		const byTime = ` ORDER BY AVAILABLE_AT DESC, ID DESC`
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_RUN ORDER BY ID DESC`), runs(run.Filter{}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_RUN WHERE APPLICATION = 'big'`+byTime), runs(run.Filter{App: "big"}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`+byTime), runs(run.Filter{State: "SUCCEEDED"}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_RUN WHERE APPLICATION = 'small' AND STATE = 'SUCCEEDED'`+byTime), runs(run.Filter{App: "small", State: "SUCCEEDED"}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_RUN WHERE JOB_ID = 1 ORDER BY ID DESC`), runs(run.Filter{App: "big", JobID: 1}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_RUN WHERE JOB_ID = 1 AND STATE = 'RUNNING' ORDER BY ID DESC`), runs(run.Filter{App: "big", JobID: 1, State: "RUNNING"}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_RUN WHERE JOB_ID = 1 AND STATE = 'SUCCEEDED' ORDER BY ID DESC`), runs(run.Filter{App: "big", JobID: 1, State: "SUCCEEDED"}))

		at := func(n int64) time.Time { return time.UnixMilli(1700000000000 + n) }
		const within = ` AND AVAILABLE_AT >= 1700000200000 AND AVAILABLE_AT < 1700000700000`
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_RUN WHERE APPLICATION = 'big'`+within+byTime), runs(run.Filter{App: "big", Since: at(200_000), Until: at(700_000)}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_RUN WHERE JOB_ID = 1`+within+` ORDER BY ID DESC`), runs(run.Filter{App: "big", JobID: 1, Since: at(200_000), Until: at(700_000)}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_RUN WHERE RUN_KEY = 'k' AND JOB_ID = 1 ORDER BY ID DESC`), runs(run.Filter{App: "big", JobID: 1, Key: "k"}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_RUN WHERE RUN_KEY = 'k' AND JOB_ID = 1 AND STATE = 'SUCCEEDED' AND AVAILABLE_AT < 1700000700000 ORDER BY ID DESC`),
			runs(run.Filter{App: "big", JobID: 1, Key: "k", State: "SUCCEEDED", Until: at(700_000)}))
		require.Equal(t, []int64{1001}, runs(run.Filter{App: "big", ExecuteID: 1001}))
		require.Equal(t, []int64{5}, runs(run.Filter{App: "big", ExecuteID: 5, State: "FAILED", Since: at(5), Until: at(6)}))
		require.Empty(t, runs(run.Filter{App: "big", ExecuteID: 5, State: "FAILED", Since: at(6)}))
		require.Empty(t, runs(run.Filter{App: "big", ExecuteID: 5, Until: at(5)}))

		executes := func(filter execute.Filter) []int64 {
			return walked(t, func(after schema.Cursor) (schema.Part[execute.Record], error) {
				filter.After, filter.Limit = after, limit
				return f.Executes(ctx, filter)
			}, func(e execute.Record) int64 { return e.ID })
		}
		const byNext = ` ORDER BY NEXT_FIRE_TIME IS NULL, NEXT_FIRE_TIME, ID`
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_EXECUTE ORDER BY ID`), executes(execute.Filter{}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_EXECUTE WHERE APPLICATION = 'big'`+byNext), executes(execute.Filter{App: "big"}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_EXECUTE WHERE STATE = 'COMPLETE'`+byNext), executes(execute.Filter{State: "COMPLETE"}))
		require.Equal(t, []int64{100000000, 100000001}, executes(execute.Filter{App: "rare"}), "with what no node has adopted yet")
		require.Equal(t, []int64{100000001}, executes(execute.Filter{State: "INIT"}))
		require.Empty(t, executes(execute.Filter{App: "small", State: "INIT"}), "its job is of another app")
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_EXECUTE WHERE PID = 1 ORDER BY ID`), executes(execute.Filter{App: "big", JobID: 1}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_EXECUTE WHERE PID = 1 AND STATE = 'PAUSED' ORDER BY ID`), executes(execute.Filter{App: "big", JobID: 1, State: "PAUSED"}))

		jobs := func(filter execute.JobFilter) []int64 {
			return walked(t, func(after schema.Cursor) (schema.Part[execute.JobRecord], error) {
				filter.After, filter.Limit = after, limit
				return f.Jobs(ctx, filter)
			}, func(j execute.JobRecord) int64 { return j.ID })
		}
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_JOB ORDER BY ID`), jobs(execute.JobFilter{}))
		require.Equal(t, f.ids(`SELECT ID FROM QRTZ_JOB WHERE APPLICATION = 'big' ORDER BY ID`), jobs(execute.JobFilter{App: "big"}))
		require.Equal(t, []int64{7000}, jobs(execute.JobFilter{State: "ERROR"}))
	}
}

// Counts end somewhere.
func TestCountsAreCapped(t *testing.T) {
	f := fill(t)
	j, err := f.Job(t.Context(), "big", "job-1")
	require.NoError(t, err)
	require.Equal(t, execute.MaxCount+1, j.Executes, "more")
	require.True(t, j.Next.IsZero(), "no statement looks at all of them")
	j, err = f.Job(t.Context(), "", "7000")
	require.NoError(t, err)
	require.Equal(t, 2, j.Executes)
	_, err = f.Job(t.Context(), "", "job-1")
	require.ErrorContains(t, err, "say which with --app")
	apps, err := f.Apps(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{execute.MaxCount + 1, 1, 3}, []int{apps[0].Jobs, apps[1].Jobs, apps[2].Jobs})
	require.Equal(t, []int{2, 0, 1}, []int{apps[0].Nodes, apps[1].Nodes, apps[2].Nodes})
	nodes, err := f.Nodes(t.Context(), "big")
	require.NoError(t, err)
	require.Equal(t, len(f.ids(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND APPLICATION = 'big'`)), nodes[0].Running+nodes[1].Running)
	n, err := f.Node(t.Context(), "", "n2")
	require.NoError(t, err)
	require.Equal(t, nodes[1].Running, n.Running)
}

func TestCursors(t *testing.T) {
	for _, c := range []schema.Cursor{{}, {ID: 7}, {ID: -7}, {ByTime: true, At: 1700000000000, ID: 3}, {ByTime: true, At: -1, ID: 3}, {ByTime: true, At: schema.NoTime, ID: 3}} {
		again, err := schema.ParseCursor(c.String())
		require.NoError(t, err)
		require.Equal(t, c, again, c.String())
	}
	require.Equal(t, "none.3", schema.Cursor{ByTime: true, At: schema.NoTime, ID: 3}.String())
	for _, text := range []string{"x", "1.x", "x.1", "1.2.3", "0", "1.", "."} {
		_, err := schema.ParseCursor(text)
		require.Error(t, err, text)
	}
	f := fill(t)
	_, err := f.Runs(t.Context(), run.Filter{App: "big", Limit: 1, After: schema.Cursor{ID: 3}})
	require.ErrorIs(t, err, schema.ErrCursor)
	_, err = f.Executes(t.Context(), execute.Filter{Limit: 1, After: schema.Cursor{ByTime: true, At: 1, ID: 3}})
	require.ErrorIs(t, err, schema.ErrCursor)
	_, err = f.Jobs(t.Context(), execute.JobFilter{Limit: 1, After: schema.Cursor{ByTime: true, At: 1, ID: 3}})
	require.ErrorIs(t, err, schema.ErrCursor)
}
