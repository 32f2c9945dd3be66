package qrtz_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

func TestThreeNodesShareEveryFire(t *testing.T) {
	c := newCluster(t)
	var nodes []*testNode
	for i := range 3 {
		nodes = append(nodes, c.start(c.open(patient(fmt.Sprint("n", i)))))
	}
	ticking(t, nodes[0].Scheduler, 30, 200*time.Millisecond)
	began := time.Now()
	c.ran(600, 15*time.Second, all)
	for i := range 3 {
		c.ran(1, time.Second, on(fmt.Sprint("n", i), began))
	}
	for _, n := range nodes {
		n.halt()
	}
	// None missing: each schedule ran every 200 ms, up to its next fire.
	require.Zero(t, c.count(`
SELECT COUNT(*) FROM QRTZ_EXECUTE E
 WHERE (PREV_FIRE_TIME - START_TIME) DIV REPEAT_INTERVAL + 1 <> (SELECT COUNT(*) FROM QRTZ_RUN R WHERE R.EXECUTE_ID = E.ID)`))
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE NOT IN ('SUCCEEDED', 'PENDING')`))
}

// off throws a switch and returns when it had committed.
func (c *cluster) off(statement string) time.Time {
	c.t.Helper()
	c.exec(statement)
	return time.Now()
}

// nothingClaimedAfter checks promise 4 against the rows: no claim after the switch committed. A row of fires that were
// skipped is no claim.
func (c *cluster) nothingClaimedAfter(t time.Time, condition string, args ...any) {
	c.t.Helper()
	require.Zero(c.t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE <> 'SKIPPED' AND CLAIMED_AT > ? AND `+condition,
		append([]any{t.UnixMilli()}, args...)...), "claims after the switch")
}

func TestAppOffStopsClaimsAndOnAgainMakesNoBurst(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	c.node("n2")
	ticking(t, n.Scheduler, 20, 200*time.Millisecond)
	c.ran(100, 10*time.Second, all)

	off := c.off(`UPDATE QRTZ_APP SET STATE = 'N'`)
	c.eventually("nodes are stopped by the app", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE STATE = 'N' AND STOPPED_BY_APP = 1`) == 2
	})
	c.eventually("schedules move on", 5*time.Second, func() bool {
		return time.Since(off) > 4*time.Second && // longer than MisfireAfter
			c.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE NEXT_FIRE_TIME > ?`, off.Add(2*time.Second).UnixMilli()) == 20
	})
	c.nothingClaimedAfter(off, `TRUE`)

	onAgain := time.Now()
	c.exec(`UPDATE QRTZ_APP SET STATE = 'Y'`)
	c.ran(100, 5*time.Second, dueAfter(onAgain))
	c.eventually("both nodes are on again", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE STATE = 'Y' AND STOPPED_BY_APP = 0`) == 2
	})
	c.nothingFrom(off, onAgain)
}

// nothingFrom checks that what was due while something was off neither ran nor counts as a misfire.
func (c *cluster) nothingFrom(off, on time.Time) {
	c.t.Helper()
	// Fires may have been claimed up to a second before their time.
	require.Zero(c.t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE FIRE_TIME > ? AND FIRE_TIME < ?`,
		off.Add(time.Second).UnixMilli(), on.UnixMilli()), "fires of the time spent off")
	// What was due just before the switch and not yet claimed is owed, and becomes a misfire.
	require.Zero(c.t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED' AND COALESCE(LAST_FIRE_TIME, FIRE_TIME) > ?`,
		off.UnixMilli()), "misfires")
}

func TestNodeOffLeavesItsFiresToTheOthers(t *testing.T) {
	c := newCluster(t)
	n := c.start(c.open(patient("n1")))
	c.start(c.open(patient("n2")))
	ticking(t, n.Scheduler, 20, 200*time.Millisecond)
	c.ran(100, 10*time.Second, all)

	off := c.off(`UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_IP = 'n1'`)
	c.ran(200, 10*time.Second, on("n2", off))
	c.nothingClaimedAfter(off, `HOST_IP = 'n1'`)
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SKIPPED'`))

	c.exec(`UPDATE QRTZ_NODE SET STATE = 'Y' WHERE HOST_IP = 'n1'`)
	c.ran(20, 5*time.Second, on("n1", off))
}

func TestTheOnlyNodeOffIsNoMisfire(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	ticking(t, n.Scheduler, 20, 200*time.Millisecond)
	c.ran(100, 10*time.Second, all)

	off := c.off(`UPDATE QRTZ_NODE SET STATE = 'N'`)
	c.eventually("longer than MisfireAfter", 6*time.Second, func() bool { return time.Since(off) > 4*time.Second })
	c.nothingClaimedAfter(off, `TRUE`)
	onAgain := time.Now()
	c.exec(`UPDATE QRTZ_NODE SET STATE = 'Y'`)
	c.ran(100, 5*time.Second, dueAfter(onAgain))
	c.nothingFrom(off, onAgain)
}

func TestANodeThatIsOffCanBeStoppedAndStaysOff(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	ticking(t, n.Scheduler, 1, 200*time.Millisecond)
	c.ran(5, 5*time.Second, all)
	off := c.off(`UPDATE QRTZ_NODE SET STATE = 'N'`)
	n.halt()

	again := c.node("n1")
	c.eventually("the node is back", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE HOST_IP = 'n1' AND INSTANCE IS NOT NULL`) == 1
	})
	again.halt()
	require.Equal(t, "N", c.text(`SELECT STATE FROM QRTZ_NODE`))
	c.nothingClaimedAfter(off, `TRUE`)
}

func TestPausedBySQLAndResumedBySQL(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1")
	ticking(t, n.Scheduler, 10, 100*time.Millisecond)
	c.ran(100, 10*time.Second, all)

	off := c.off(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED'`)
	c.eventually("job is paused", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_JOB`) == "PAUSED" })
	c.eventually("longer than MisfireAfter", 6*time.Second, func() bool { return time.Since(off) > 4*time.Second })
	onAgain := time.Now()
	c.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING'`)
	c.ran(100, 5*time.Second, dueAfter(onAgain))
	c.nothingFrom(off, onAgain)
	c.eventually("job is active", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_JOB`) == "EXECUTING" })
}

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

// Promise 6: a node that is cut off cancels its runs before others start them again, and its results do not count.
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
			letEnd := sync.OnceFunc(func() { close(ended) })
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
			letGo := sync.OnceFunc(func() { close(release) })
			t.Cleanup(letGo)
			t.Cleanup(letEnd)
			fail(&l)
			old := c.count(`SELECT INSTANCE FROM QRTZ_NODE WHERE HOST_IP = 'n1'`)
			heartbeat := time.UnixMilli(int64(c.count(`SELECT HEARTBEAT_AT FROM QRTZ_NODE WHERE HOST_IP = 'n1'`)))

			at := arrives(t, cancelled, 2*cfg.NodeTimeout)
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
			letGo()
			c.eventually("n1 joins again", 10*time.Second, func() bool {
				return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE HOST_IP = 'n1' AND INSTANCE <> ?`, old) == 1
			})
			letEnd()
			c.eventually("the recovered run ends", 5*time.Second, func() bool {
				return c.text(`SELECT STATE FROM QRTZ_RUN WHERE ATTEMPT = 2`) == "SUCCEEDED"
			})
			require.Equal(t, "LOST", c.text(`SELECT STATE FROM QRTZ_RUN WHERE ATTEMPT = 1`), "the first success came too late")
			require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
		})
	}
}

// A run that was cancelled because its node was fenced has not failed: it is lost, and recovered, also if the node comes
// back before any node has noticed.
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

// A node that loses its row cancels its runs, cannot write their results, and joins again.
func TestAFencedNodeGivesUpItsRunsAndJoinsAnew(t *testing.T) {
	c := newCluster(t)
	began, cause, lost := make(chan struct{}, 1), make(chan error, 1), make(chan struct{})
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "long", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			began <- struct{}{}
			<-ctx.Done()
			cause <- context.Cause(ctx)
			<-lost
			return nil // which would be a success
		})
	})
	once(t, s, "long", nil)
	c.start(s)
	arrives(t, began, 5*time.Second) // before, it would be handed back, not lost
	old := c.count(`SELECT INSTANCE FROM QRTZ_NODE`)
	c.exec(`UPDATE QRTZ_NODE SET INSTANCE = NULL`) // as the misfire handler does with a node it takes for dead

	require.ErrorIs(t, <-cause, qrtz.ErrFenced)
	c.eventually("it joins again", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NOT NULL AND INSTANCE <> ?`, old) == 1
	})
	c.eventually("the run is lost", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_RUN`) == "LOST" })
	close(lost)
	ticking(t, s, 1, 100*time.Millisecond)
	c.ran(3, 5*time.Second, all)
	require.Equal(t, "LOST", c.text(`SELECT R.STATE FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = 'long'`))
}
