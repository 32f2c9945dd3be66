package node

import (
	"context"
	"database/sql"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

const (
	beatEvery = 100 * time.Millisecond
	timeout   = time.Second
)

// newDSN is a database with the app "a", switched on.
func newDSN(t *testing.T) string {
	t.Helper()
	dsn := testdb.DSN(t)
	db := open(t, dsn)
	_, err := schema.Up(t.Context(), db.DB, schema.DefaultPrefix)
	require.NoError(t, err)
	run(t, db, `INSERT INTO QRTZ_APP (APPLICATION, STATE) VALUES ('a', 'Y')`)
	return dsn
}

func newDB(t *testing.T) *sqlx.DB {
	t.Helper()
	return open(t, newDSN(t))
}

func open(t *testing.T, dsn string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// openEngine is a pool whose sessions are set as the engine's own are: they wait a second for a lock.
func openEngine(t *testing.T, dsn string) *sqlx.DB {
	t.Helper()
	link, err := schema.Dial(dsn)
	require.NoError(t, err)
	db := link.Pool(4)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func run(t *testing.T, db *sqlx.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err, query)
}

// fences records the calls of OnFenced.
type fences struct {
	mu    sync.Mutex
	calls []fenced
}

type fenced struct {
	at    time.Time
	cause error
}

func (f *fences) add(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fenced{time.Now(), cause})
}

func (f *fences) all() []fenced {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// member is one that has yet to join; id may be empty.
func member(t *testing.T, db *sqlx.DB, id string, classes ...string) (*Member, *fences) {
	t.Helper()
	var f fences
	m := NewMember(db, db, schema.DefaultPrefix, "a", NewClock(db, time.Now, zerolog.Nop()), Config{
		ID: id, Classes: classes, Version: "test", BeatEvery: beatEvery, Timeout: timeout, Wall: time.Now, Log: zerolog.Nop(), BeforeRejoin: func(context.Context) error { return nil },
		OnFenced: f.add,
	})
	t.Cleanup(func() { instances.Delete(m.Self().ID) })
	return m, &f
}

func joined(t *testing.T, db *sqlx.DB, id string, classes ...string) (*Member, *fences) {
	t.Helper()
	m, f := member(t, db, id, classes...)
	require.NoError(t, m.Join(t.Context()))
	return m, f
}

// refreshed is the view of a member, read now.
func refreshed(t *testing.T, m *Member) View {
	t.Helper()
	require.NoError(t, m.Refresh(t.Context()))
	return m.View()
}

// nodeRow is what the tests look at in QRTZ_NODE.
type nodeRow struct {
	State     string         `db:"STATE"`
	ByApp     bool           `db:"STOPPED_BY_APP"`
	Instance  sql.NullInt64  `db:"INSTANCE"`
	Heartbeat sql.NullInt64  `db:"HEARTBEAT_AT"`
	OffSince  sql.NullInt64  `db:"OFF_SINCE"`
	Switched  sql.NullString `db:"SWITCHED"`
}

func readRow(t *testing.T, db *sqlx.DB, id string) nodeRow {
	t.Helper()
	var r nodeRow
	require.NoError(t, db.GetContext(t.Context(), &r, `SELECT STATE, STOPPED_BY_APP, INSTANCE, HEARTBEAT_AT, COALESCE(OFF_SINCE, APP_OFF_SINCE) AS OFF_SINCE,
		CAST(SWITCHED_AT AS CHAR) AS SWITCHED FROM QRTZ_NODE WHERE APPLICATION = 'a' AND HOST_IP = ?`, id))
	return r
}

// deadProcess is the id of a process of this machine that is gone.
func deadProcess(t *testing.T) int {
	t.Helper()
	c := exec.CommandContext(t.Context(), "true")
	require.NoError(t, c.Run())
	return c.Process.Pid
}

// network lies between a pool and the server, and can be cut or made to swallow everything.
type network struct {
	mu    sync.Mutex
	cut   bool
	hangs bool
	conns []net.Conn
}

// openThrough is a pool on a database behind a network.
func openThrough(t *testing.T, dsn string) (*sqlx.DB, *network) {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	cfg.Logger = &mysql.NopLogger{}
	n := &network{}
	cfg.DialFunc = n.dial
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sqlx.NewDb(sql.OpenDB(connector), "mysql")
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db, n
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	if cut, _ := n.state(); cut {
		return nil, &net.OpError{Op: "dial", Net: kind, Err: os.ErrDeadlineExceeded}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = append(n.conns, c)
	return &wire{Conn: c, network: n, closed: make(chan struct{})}, nil
}

func (n *network) state() (cut, hangs bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut, n.hangs
}

// fail breaks every connection and refuses new ones; hang lets no answer through any more; heal ends both.
func (n *network) fail() {
	n.set(true, false)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}
func (n *network) hang() { n.set(false, true) }
func (n *network) heal() { n.set(false, false) }

func (n *network) set(cut, hangs bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut, n.hangs = cut, hangs
}

// wire is one connection through a network.
type wire struct {
	net.Conn
	network *network
	once    sync.Once
	closed  chan struct{}
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if _, hangs := w.network.state(); hangs {
		<-w.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}
