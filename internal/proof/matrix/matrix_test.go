// Package matrix holds one test: nonsense in any column of any table must not stop what stands beside it.
package matrix

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

const (
	every  = 200 * time.Millisecond  // the healthy schedule's
	beside = 900 * time.Millisecond  // how long it is watched beside each column's nonsense: every loop has come by
	late   = 1500 * time.Millisecond // what a busy machine may make of "on time"
	atOnce = 6                       // columns whose nonsense goes in together
	join   = 3 * time.Second         // for a new node to start runs, beyond late
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// known are columns whose nonsense does stop more than itself, and why.
var known = map[string]string{}

var tables = []string{"QRTZ_APP", "QRTZ_EXECUTE", "QRTZ_HEARTBEAT", "QRTZ_JOB", "QRTZ_NODE", "QRTZ_RUN", "QRTZ_SCHEMA"}

// TestNonsenseInAColumnStopsNothingBesideIt sets every column of every table to each bad value, in rows of all kinds, while a
// node runs a healthy schedule and runs that are enqueued. The values of several columns go in at once; if something stops
// then, they are tried column by column and one by one. What does no harm stays: in the end everything is there together.
func TestNonsenseInAColumnStopsNothingBesideIt(t *testing.T) {
	t.Run("where the server checks", func(t *testing.T) {
		t.Parallel()
		newMatrix(t).try(map[string]string{})
	})
	t.Run("where it does not", func(t *testing.T) {
		t.Parallel()
		m := newMatrix(t)
		testdb.DropChecks(t, m.db)
		m.try(known)
	})
}

// matrix is a database, the node on it, and what its healthy schedule has done.
type matrix struct {
	*testing.T
	db       *sql.DB
	node     *node
	instance int64 // of the node, as long as it is not fenced
	tried    int
	refused  int

	mu    sync.Mutex
	fires map[int64]time.Time // of the healthy schedule, by fire time: when it started
	asked map[int64]bool      // enqueued runs that have started
	on    map[string]bool     // nodes that have started something
}

type node struct {
	*qrtz.Scheduler
	cancel context.CancelFunc
	done   chan error
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	m := &matrix{T: t, db: testdb.New(t), fires: map[int64]time.Time{}, asked: map[int64]bool{}, on: map[string]bool{}}
	s, err := qrtz.Open(m.db, qrtz.Config{App: "test"})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	return m
}

// start runs a node. Its intervals are short: each nonsense meets every loop.
func (m *matrix) start(id string) *node {
	log := zerolog.Nop()
	if testing.Verbose() {
		log = zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, NoColor: true}).Level(zerolog.WarnLevel).With().Timestamp().Str("n", id).Logger()
	}
	s, err := qrtz.Open(m.db, qrtz.Config{
		App: "test", NodeID: id, Logger: &log, Workers: 50,
		PollInterval: 300 * time.Millisecond, MisfireInterval: 300 * time.Millisecond, MisfireAfter: 5 * time.Second, NodeTimeout: 4 * time.Second,
	})
	require.NoError(m, err)
	qrtz.Handle(s, "healthy", func(_ context.Context, run *qrtz.Run, _ any) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.on[id] = true
		if run.ScheduleID == healthy {
			m.fires[run.FireTime.UnixMilli()] = time.Now()
		} else {
			m.asked[run.ID] = true
		}
		return nil
	})
	qrtz.Handle(s, "other", func(context.Context, *qrtz.Run, any) error { return nil })
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{s, cancel, make(chan error, 1)}
	go func() { n.done <- s.Run(ctx) }()
	return n
}

// healthy is the id of the healthy schedule, and of its job: the first of their tables.
const healthy = 1

func (m *matrix) try(known map[string]string) {
	m.node = m.start("n1")
	job := qrtz.Job{Name: "healthy", Class: "healthy", Schedules: []qrtz.Schedule{qrtz.Every(every)}}
	require.NoError(m, m.node.Declare(m.Context(), job))
	require.Eventually(m, func() bool { return m.watch() == "" }, 15*time.Second, time.Millisecond, "it is healthy before anything is done")
	require.NoError(m, m.db.QueryRow(`SELECT INSTANCE FROM QRTZ_NODE WHERE HOST_IP = 'n1'`).Scan(&m.instance))

	for _, table := range tables {
		var together []cell
		columns := 0
		for _, c := range m.columns(table) {
			reason, ok := known[c.table+"."+c.name]
			if !ok {
				together = append(together, c.cells()...)
				if columns++; columns%atOnce == 0 {
					m.report(together)
					together = nil
				}
				continue
			}
			if wrong := m.tryAll(c.cells()); wrong == nil {
				m.Errorf("%s.%s does no harm any more: take it from the known ones", c.table, c.name)
			} else {
				m.Logf("known: %s (%s)", wrong, reason)
			}
		}
		m.report(together)
	}
	m.end()
	m.Logf("%d cells, of which the server refused %d", m.tried, m.refused)
}

func (m *matrix) report(cells []cell) {
	for _, wrong := range m.tryAll(cells) {
		m.Error(wrong)
	}
}

// tryAll puts nonsense into columns and says what that stopped. What stops something is taken out again, and looked for.
func (m *matrix) tryAll(cells []cell) (wrong []string) {
	if len(cells) == 0 {
		return nil
	}
	first := m.stops(cells)
	if first == "" || m.stops(cells) == "" { // what only a busy machine stopped is not stopped again
		return nil
	}
	if len(cells) == 1 {
		return []string{fmt.Sprintf("%s: %s", cells[0], first)}
	}
	for half := range slices.Chunk(cells, (len(cells)+1)/2) {
		wrong = append(wrong, m.tryAll(half)...)
	}
	if wrong == nil {
		wrong = []string{fmt.Sprintf("%s to %s, only together: %s", cells[0], cells[len(cells)-1], first)}
	}
	return wrong
}

// stops puts nonsense into columns and says what that stopped. If anything, it is taken out again.
func (m *matrix) stops(cells []cell) string {
	for _, c := range cells {
		m.poison(c)
	}
	wrong := m.watch()
	if wrong != "" {
		m.Logf("%s to %s: %s", cells[0], cells[len(cells)-1], wrong)
		m.clean()
	}
	return wrong
}

// watch says what is late or missing of what is due within a while, or which node was fenced.
func (m *matrix) watch() string {
	from := time.Now()
	run, err := m.node.Enqueue(m.Context(), "healthy", nil)
	if err != nil {
		return "cannot enqueue: " + err.Error()
	}
	for time.Since(from) < beside+late {
		time.Sleep(20 * time.Millisecond)
		if m.startedAllUntil(from, from.Add(beside)) && m.started(run) {
			break
		}
	}
	switch {
	case !m.startedAllUntil(from, from.Add(beside)):
		return "the healthy schedule missed a fire, or was late"
	case !m.started(run):
		return "a run that was enqueued was not started"
	}
	var instance sql.NullInt64
	if err := m.db.QueryRow(`SELECT INSTANCE FROM QRTZ_NODE WHERE HOST_IP = 'n1'`).Scan(&instance); err != nil {
		return err.Error()
	}
	if m.instance != 0 && instance.Int64 != m.instance {
		m.instance = instance.Int64
		return "the node was fenced"
	}
	return ""
}

// startedAllUntil tells whether a fire at or after until has started, and every one between from and it.
func (m *matrix) startedAllUntil(from, until time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var fires []int64
	for at := range m.fires {
		if at >= from.UnixMilli() {
			fires = append(fires, at)
		}
	}
	slices.Sort(fires)
	last := from.UnixMilli() + every.Milliseconds() // the first one is due by then
	for _, at := range fires {
		if at > last {
			return false
		}
		if last = at + every.Milliseconds(); at >= until.UnixMilli() {
			return true
		}
	}
	return false
}

func (m *matrix) started(run int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[run]
}

// end is what must still work with all that nonsense in place: another node joins, and both stop.
func (m *matrix) end() {
	second := m.start("n2")
	joined := func() bool {
		var n int
		err := m.db.QueryRow(`SELECT COUNT(*) FROM QRTZ_NODE WHERE HOST_IP = 'n2' AND INSTANCE IS NOT NULL`).Scan(&n)
		return err == nil && n == 1
	}
	began := time.Now()
	for !joined() && time.Since(began) < join+late {
		time.Sleep(20 * time.Millisecond)
	}
	if !joined() {
		m.Error("with everything in place another node cannot join")
	}
	for name, n := range map[string]*node{"n1": m.node, "n2": second} {
		n.cancel()
		select {
		case err := <-n.done:
			if err != nil {
				m.Errorf("%s stopped with an error: %v", name, err)
			}
		case <-time.After(30 * time.Second):
			m.Errorf("%s does not stop", name)
		}
	}
}

// clean takes all nonsense out, and waits until what it stopped is back.
func (m *matrix) clean() {
	for _, statement := range []string{
		`DELETE FROM QRTZ_EXECUTE WHERE ID <> 1`,
		`DELETE FROM QRTZ_JOB WHERE ID <> 1`,
		`DELETE FROM QRTZ_RUN WHERE JOB_ID <> 1 OR EXECUTE_ID IS NULL OR EXECUTE_ID <> 1 OR ID > 1000000000000`,
		`DELETE FROM QRTZ_NODE WHERE HOST_IP <> 'n1'`,
		`DELETE FROM QRTZ_HEARTBEAT WHERE HOST_IP <> 'n1' OR INSTANCE IN (0, 1, -1)`,
		`DELETE FROM QRTZ_APP WHERE APPLICATION <> 'test'`,
		`DELETE FROM QRTZ_SCHEMA WHERE VERSION > 100 OR VERSION < 1`,
	} {
		_, err := m.db.Exec(statement)
		require.NoError(m, err)
	}
	for began := time.Now(); m.watch() != ""; {
		if time.Since(began) > 15*time.Second {
			m.restart()
			began = time.Now()
		}
	}
}

// restart replaces a node that does not come back by itself.
func (m *matrix) restart() {
	m.Error("the node does not come back by itself")
	m.node.cancel()
	select {
	case err := <-m.node.done:
		m.Log("it has stopped: ", err)
	case <-time.After(30 * time.Second):
		m.Fatal("nor does it stop")
	}
	m.instance = 0
	m.node = m.start("n1")
}

func TestEveryTableIsInTheMatrix(t *testing.T) {
	m := newMatrix(t)
	rows, err := m.db.Query(`SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE'`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var all []string
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		all = append(all, name)
	}
	require.NoError(t, rows.Err())
	require.ElementsMatch(t, tables, all)
}
