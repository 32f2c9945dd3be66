package qrtz_test

import (
	"context"
	"database/sql"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// line lies between a node and the database, and can be cut, or made to swallow every answer.
type line struct {
	mu         sync.Mutex
	cut, hangs bool
	conns      []net.Conn
}

// through is a pool on the cluster's database behind a line.
func (c *cluster) through(l *line) *sql.DB {
	c.t.Helper()
	cfg, err := mysql.ParseDSN(c.dsn)
	require.NoError(c.t, err)
	cfg.Logger = &mysql.NopLogger{}
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.cut {
			return nil, os.ErrDeadlineExceeded
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.conns = append(l.conns, conn)
		return &wire{Conn: conn, line: l, closed: make(chan struct{})}, nil
	}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(c.t, err)
	db := sql.OpenDB(connector)
	c.t.Cleanup(func() { require.NoError(c.t, db.Close()) })
	return db
}

func (l *line) set(cut, hangs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.hangs = cut, hangs
	if cut {
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.conns = nil
	}
}

func (l *line) hanging() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hangs
}

// wire is one connection of a line.
type wire struct {
	net.Conn
	line   *line
	once   sync.Once
	closed chan struct{}
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if w.line.hanging() {
		<-w.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

// Promise 6: a node that is cut off cancels its runs before others start them anew, and its results do not count.
func TestANodeThatIsCutOffGivesUpItsRunsBeforeOthersStartThem(t *testing.T) {
	for name, fail := range map[string]func(*line){
		"broken": func(l *line) { l.set(true, false) },
		"hangs":  func(l *line) { l.set(false, true) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			cfg := quick("n1")
			var l line
			s, err := qrtz.Open(c.through(&l), cfg)
			require.NoError(t, err)
			cancelled, release := make(chan time.Time, 1), make(chan struct{})
			var cause error
			qrtz.Handle(s, "long", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
				c.record(run)
				<-ctx.Done()
				cause = context.Cause(ctx)
				cancelled <- time.Now()
				<-release
				return nil // a success, if it counted
			})
			require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "long", Options: qrtz.Options{Recovery: true}, Schedules: []qrtz.Schedule{qrtz.At(time.Now())}}))
			c.start(s)
			c.ran(1, 5*time.Second, all)
			first := c.fires()[0]
			ended := make(chan struct{})
			n2 := c.open(quick("n2"), func(s *qrtz.Scheduler) {
				qrtz.Handle(s, "long", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
					c.record(run)
					<-ended
					return nil
				})
			})
			c.start(n2)
			c.eventually("n2 has been there for a while", 5*time.Second, func() bool {
				return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE HOST_IP = 'n2' AND HEARTBEAT_AT > JOINED_AT + 1500`) == 1
			})
			fail(&l)
			old := c.count(`SELECT INSTANCE FROM QRTZ_NODE WHERE HOST_IP = 'n1'`)
			heartbeat := time.UnixMilli(int64(c.count(`SELECT HEARTBEAT_AT FROM QRTZ_NODE WHERE HOST_IP = 'n1'`)))

			at := <-cancelled
			require.ErrorIs(t, cause, qrtz.ErrFenced)
			require.Less(t, at.Sub(heartbeat), cfg.NodeTimeout, "before others take it for dead")
			c.ran(2, cfg.NodeTimeout+2*cfg.MisfireInterval+time.Second, all)
			second := c.fires()[1]
			require.True(t, second.seen.After(at), "started %s after the first was cancelled", second.seen.Sub(at))
			require.Equal(t, "n2", second.Node)
			require.Equal(t, []int64{first.ID, 2}, []int64{second.RecoveryOf, int64(second.Attempt)})
			require.Equal(t, first.FireTime, second.FireTime)
			require.Greater(t, second.Fence, first.Fence)

			l.set(true, false) // what hangs must break to heal
			l.set(false, false)
			close(release)
			c.eventually("n1 joins anew", 10*time.Second, func() bool {
				return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE HOST_IP = 'n1' AND INSTANCE <> ?`, old) == 1
			})
			close(ended)
			c.eventually("the recovered run ends", 5*time.Second, func() bool {
				return c.text(`SELECT STATE FROM QRTZ_RUN WHERE ATTEMPT = 2`) == "SUCCEEDED"
			})
			require.Equal(t, "LOST", c.text(`SELECT STATE FROM QRTZ_RUN WHERE ATTEMPT = 1`), "the first success came too late")
			require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
		})
	}
}

// A run that was cancelled because its node was fenced has not failed: it is lost, and recovered, also if the node comes
// back before anybody has noticed.
func TestARunGivenUpIsRecoveredNotFailed(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "long", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
			c.record(run)
			if run.Attempt > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "long", Options: qrtz.Options{Recovery: true}, Schedules: []qrtz.Schedule{qrtz.At(time.Now())}}))
	c.start(s)
	c.ran(1, 5*time.Second, all)
	c.exec(`UPDATE QRTZ_NODE SET INSTANCE = NULL`)
	c.ran(2, 8*time.Second, all)
	require.Equal(t, "LOST", c.text(`SELECT STATE FROM QRTZ_RUN WHERE ATTEMPT = 1`))
	require.Equal(t, c.fires()[0].ID, c.fires()[1].RecoveryOf)
}
