package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

// teller, set to a node's id, makes this test program a node whose handler moves money, in the database that tellerDSN names.
const (
	teller    = "QRTZ_E2E_TELLER"
	tellerDSN = "QRTZ_E2E_TELLER_DSN"
)

func init() {
	if id := os.Getenv(teller); id != "" {
		if err := tell(id, os.Getenv(tellerDSN)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// tell is a node that carries out transfers until SIGTERM. It is quick to be taken for dead.
func tell(id, dsn string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	s, err := qrtz.Open(db, qrtz.Config{
		App: "e2e", NodeID: id, DSN: dsn, Workers: 4, Logger: &log,
		PollInterval: 500 * time.Millisecond, MisfireInterval: time.Second, NodeTimeout: 2 * time.Second, DrainTimeout: time.Second,
	})
	if err != nil {
		return err
	}
	qrtz.Handle(s, "transfer", func(_ context.Context, run *qrtz.Run, cents int) error {
		err := transfer(context.Background(), db, run, cents) // its context is no help to a process that stands still
		if errors.Is(err, qrtz.ErrFenced) {
			_, _ = db.Exec(`INSERT INTO REFUSED VALUES (?)`, run.ID)
		}
		return err
	})
	return s.Run(ctx)
}

// transfer moves cents from the first account to another, and completes its run with that.
func transfer(ctx context.Context, db *sql.DB, run *qrtz.Run, cents int) error {
	if _, err := db.ExecContext(ctx, `INSERT INTO BEGUN VALUES (?, ?)`, run.ID, run.Attempt); err != nil {
		return err
	}
	time.Sleep(400*time.Millisecond + rand.N(200*time.Millisecond))
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `UPDATE ACCOUNT SET BALANCE = BALANCE + ? WHERE ID = ?`, cents, 2+rand.IntN(20)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE ACCOUNT SET BALANCE = BALANCE - ? WHERE ID = 1`, cents); err != nil {
		return err
	}
	if err := run.CompleteIn(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// teller starts a process that carries out transfers.
func (c *cluster) teller(id string) *worker {
	c.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), teller+"="+id, tellerDSN+"="+c.dsn)
	return c.process(id, cmd)
}

// What handlers write in the transaction in which they complete their runs is done exactly once, however often their processes are
// killed, or frozen until the runs have been recovered.
func TestWhatIsCompletedInATransactionIsDoneOnce(t *testing.T) {
	c := newCluster(t, testdb.DSN(t))
	c.exec(`CREATE TABLE ACCOUNT (ID INT PRIMARY KEY, BALANCE BIGINT)`)
	c.exec(`CREATE TABLE BEGUN (RUN BIGINT, ATTEMPT INT)`)
	c.exec(`CREATE TABLE REFUSED (RUN BIGINT)`)
	for id := range 21 {
		c.exec(`INSERT INTO ACCOUNT VALUES (?, 0)`, id+1)
	}
	s, err := qrtz.Open(c.db, qrtz.Config{App: "e2e"})
	require.NoError(t, err)
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "transfer", Options: qrtz.Options{
		Recovery: true, Attempts: 10, Backoff: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
	}}))

	// One process is frozen after its handler has begun, and thawed when another has done the work.
	first, err := s.Enqueue(t.Context(), "transfer", 7)
	require.NoError(t, err)
	frozen := c.teller("frozen")
	t.Cleanup(func() { frozen.signal(syscall.SIGCONT) })
	c.eventually("the handler has begun", 10*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM BEGUN`) == 1 })
	frozen.signal(syscall.SIGSTOP)
	other := c.teller("other")
	c.eventually("the other has done it", 20*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE RECOVERS = ? AND STATE = 'SUCCEEDED'`, first) == 1
	})
	frozen.signal(syscall.SIGCONT)
	c.eventually("the frozen one is told so", 10*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM REFUSED WHERE RUN = ?`, first) == 1 })
	require.Equal(t, 7, c.count(`SELECT SUM(BALANCE) FROM ACCOUNT WHERE ID > 1`), "and has done nothing")

	// Now many, and more goes wrong.
	const transfers, each = 400, 100
	for range transfers {
		_, err := s.Enqueue(t.Context(), "transfer", each)
		require.NoError(t, err)
	}
	tellers := []*worker{frozen, other, c.teller("third")}
	for i := range 6 {
		c.wait(time.Second)
		w := tellers[i%3]
		if i%2 == 0 {
			w.signal(syscall.SIGSTOP)
			c.wait(3500 * time.Millisecond)
			w.signal(syscall.SIGCONT)
		} else {
			w.kill()
			tellers[i%3] = c.teller([]string{"frozen", "other", "third"}[i%3])
		}
	}
	c.eventually("all have ended", time.Minute, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('PENDING', 'RUNNING')`) == 0
	})
	succeeded := c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`)
	t.Logf("%d runs began %d times, %d were refused", transfers+1, c.count(`SELECT COUNT(*) FROM BEGUN`), c.count(`SELECT COUNT(*) FROM REFUSED`))
	require.Equal(t, transfers+1, succeeded)
	require.Equal(t, 7+transfers*each, c.count(`SELECT SUM(BALANCE) FROM ACCOUNT WHERE ID > 1`))
	require.Zero(t, c.count(`SELECT SUM(BALANCE) FROM ACCOUNT`))
}
