package qrtz_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// books is a cluster with a table of its handlers' effects, one node, and a job "book" whose handler a test gives.
type books struct {
	*cluster
	node *testNode
	log  *lines
	ends chan qrtz.Event
}

func newBooks(t *testing.T, options qrtz.Options, handler func(ctx context.Context, run *qrtz.Run) error) *books {
	t.Helper()
	b := &books{cluster: newCluster(t), log: &lines{}, ends: make(chan qrtz.Event, 100)}
	b.exec(`CREATE TABLE EFFECTS (RUN BIGINT, ATTEMPT INT)`)
	cfg := patient("n1")
	log := zerolog.New(b.log)
	cfg.Logger = &log
	cfg.Hooks.Finished = func(e qrtz.Event) { b.ends <- e }
	s := b.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "book", func(ctx context.Context, run *qrtz.Run, _ struct{}) error { return handler(ctx, run) })
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "book", Options: options}))
	b.node = b.start(s)
	return b
}

// enqueue asks for a run of the job.
func (b *books) enqueue() int64 {
	b.t.Helper()
	id, err := b.node.Enqueue(b.t.Context(), "book", nil)
	require.NoError(b.t, err)
	return id
}

// end is the next run that has ended.
func (b *books) end() qrtz.Event {
	b.t.Helper()
	select {
	case e := <-b.ends:
		return e
	case <-time.After(10 * time.Second):
		require.Fail(b.t, "no run has ended")
		return qrtz.Event{}
	}
}

// states are those of all runs, in order, and effects how many effects are on record.
func (b *books) states() string {
	return b.text(`SELECT COALESCE(GROUP_CONCAT(STATE ORDER BY ID), '') FROM QRTZ_RUN`)
}
func (b *books) effects() int { return b.count(`SELECT COUNT(*) FROM EFFECTS`) }

// book begins a transaction, writes an effect, and completes the run in it.
func book(ctx context.Context, db *sql.DB, run *qrtz.Run, level sql.IsolationLevel) (*sql.Tx, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return nil, err
	}
	if _, err = tx.ExecContext(ctx, `INSERT INTO EFFECTS VALUES (?, ?)`, run.ID, run.Attempt); err == nil {
		err = run.CompleteIn(ctx, tx)
	}
	if err != nil {
		_ = tx.Rollback()
		return nil, err
	}
	return tx, nil
}

func TestARunIsCompletedWithItsEffects(t *testing.T) {
	for name, options := range map[string]qrtz.Options{
		"kept":      {},
		"exclusive": {Overlap: qrtz.OverlapQueue, Attempts: 3},
		"not kept":  {History: qrtz.HistoryFailed},
		"nor this":  {History: qrtz.HistoryNone, Recovery: true},
	} {
		for _, level := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			t.Run(fmt.Sprint(name, ", ", level), func(t *testing.T) {
				var b *books
				b = newBooks(t, options, func(ctx context.Context, run *qrtz.Run) error {
					run.Message("it's \\done") // of which nothing is SQL
					run.Progress(50)
					tx, err := book(ctx, b.db, run, level)
					if err != nil {
						return err
					}
					if b.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`) != 1 {
						return errors.New("others see it before the commit")
					}
					return tx.Commit()
				})
				id := b.enqueue()
				e := b.end()
				require.Equal(t, qrtz.Succeeded, e.State, e.Message)
				require.Equal(t, "it's \\done", e.Message)
				require.Equal(t, 1, b.effects())
				if options.History != "" {
					require.Empty(t, b.states())
				} else {
					require.Equal(t, 1, b.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ID = ? AND STATE = 'SUCCEEDED' AND OVERLAP_KEY IS NULL
						AND MESSAGE = ? AND PROGRESS = 50 AND STARTED_AT <= FINISHED_AT`, id, "it's \\done"))
				}
				b.node.halt()
				require.NotContains(t, b.log.String(), "too late")
				require.NotContains(t, b.log.String(), "run failed")
			})
		}
	}
}

// Whatever the handler returns, its transaction decides.
func TestTheTransactionDecidesWhetherARunHasSucceeded(t *testing.T) {
	const notCommitted = "CompleteIn was called, but its transaction did not commit"
	for name, c := range map[string]struct {
		end     func(tx *sql.Tx) error
		states  string
		message string
	}{
		"rolled back, nil":      {func(tx *sql.Tx) error { _ = tx.Rollback(); return nil }, "FAILED,SUCCEEDED", notCommitted},
		"rolled back, an error": {func(tx *sql.Tx) error { _ = tx.Rollback(); return errors.New("no paper") }, "FAILED,SUCCEEDED", "no paper"},
		"committed, an error":   {func(tx *sql.Tx) error { _ = tx.Commit(); return errors.New("no answer") }, "SUCCEEDED", ""},
		"committed, a panic":    {func(tx *sql.Tx) error { _ = tx.Commit(); panic("no answer") }, "SUCCEEDED", ""},
		"committed later, nil": {func(tx *sql.Tx) error {
			time.AfterFunc(2*time.Second, func() { _ = tx.Commit() })
			return nil
		}, "SUCCEEDED", notCommitted},
	} {
		t.Run(name, func(t *testing.T) {
			var b *books
			b = newBooks(t, qrtz.Options{Attempts: 2, Backoff: time.Millisecond, MaxBackoff: time.Millisecond}, func(_ context.Context, run *qrtz.Run) error {
				tx, err := book(context.Background(), b.db, run, sql.LevelDefault)
				if err != nil {
					return err
				}
				if run.Attempt > 1 {
					return tx.Commit()
				}
				return c.end(tx)
			})
			b.enqueue()
			e := b.end()
			require.Equal(t, c.message, e.Message)
			require.Equal(t, c.message == "", e.State == qrtz.Succeeded)
			b.eventually("the runs are "+c.states, 15*time.Second, func() bool { return b.states() == c.states })
			b.node.halt()
			require.Equal(t, c.states, b.states())
			require.Equal(t, 1, b.effects())
			require.NotContains(t, b.log.String(), "too late")
		})
	}
}

// A handler whose run has been taken from it meanwhile is told so, and leaves nothing.
func TestARunThatHasBeenTakenCannotBeCompleted(t *testing.T) {
	for name, taken := range map[string]string{
		"lost":          `UPDATE QRTZ_RUN SET STATE = 'LOST' WHERE ID = ?`,
		"handed back":   `UPDATE QRTZ_RUN SET STATE = 'PENDING', INSTANCE = NULL, AVAILABLE_AT = 253402300799999 WHERE ID = ?`,
		"of another":    `UPDATE QRTZ_RUN SET INSTANCE = INSTANCE + 1 WHERE ID = ?`,
		"claimed again": `UPDATE QRTZ_RUN SET FENCE = FENCE + 1 WHERE ID = ?`,
		"gone":          `DELETE FROM QRTZ_RUN WHERE ID = ?`,
	} {
		t.Run(name, func(t *testing.T) {
			refused := make(chan error, 1)
			var b *books
			b = newBooks(t, qrtz.Options{}, func(ctx context.Context, run *qrtz.Run) error {
				b.exec(taken, run.ID)
				_, err := book(ctx, b.db, run, sql.LevelDefault)
				refused <- err
				return err
			})
			b.enqueue()
			require.ErrorIs(t, <-refused, qrtz.ErrFenced)
			b.end()
			b.node.halt()
			require.Zero(t, b.effects())
			require.Zero(t, b.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('SUCCEEDED', 'FAILED')`))
		})
	}
}

// A transaction that lost a conflict is done again as a whole, with CompleteIn in the new one.
func TestARunIsCompletedInASecondTransaction(t *testing.T) {
	var b *books
	b = newBooks(t, qrtz.Options{}, func(ctx context.Context, run *qrtz.Run) error {
		tx, err := book(ctx, b.db, run, sql.LevelDefault)
		if err != nil {
			return err
		}
		if err := run.CompleteIn(ctx, tx); err == nil || !strings.Contains(err.Error(), "CompleteIn has been called in this transaction already") {
			return fmt.Errorf("a second call in it: %w", err)
		}
		if err := run.SaveIn(ctx, tx, 1); err == nil || !strings.Contains(err.Error(), "CompleteIn has been called in this transaction, in which the run has ended") {
			return fmt.Errorf("a checkpoint after it: %w", err)
		}
		if err := tx.Rollback(); err != nil {
			return err
		}
		if tx, err = book(ctx, b.db, run, sql.LevelDefault); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		if _, err = book(ctx, b.db, run, sql.LevelDefault); err == nil || !strings.Contains(err.Error(), "it has been completed already") {
			return fmt.Errorf("a third one: %w", err)
		}
		return errors.New("all as it should be")
	})
	b.enqueue()
	require.Equal(t, qrtz.Succeeded, b.end().State)
	b.node.halt()
	require.Equal(t, 1, b.effects())
	require.Equal(t, "SUCCEEDED", b.states())
}

func TestWhatCannotBeCompleted(t *testing.T) {
	other, err := sql.Open("mysql", testdb.DSN(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	found := make(chan error, 10)
	var run *qrtz.Run
	var b *books
	b = newBooks(t, qrtz.Options{}, func(ctx context.Context, r *qrtz.Run) error {
		run = r
		elsewhere := func() {
			tx, err := other.BeginTx(ctx, nil)
			if err == nil {
				err = r.CompleteIn(ctx, tx)
				_ = tx.Rollback()
			}
			found <- err
		}
		elsewhere()
		there, err := qrtz.Open(other, qrtz.Config{App: "test"})
		if err == nil {
			err = there.Migrate(ctx)
		}
		if err != nil {
			return err
		}
		elsewhere()
		found <- r.CompleteIn(ctx, nil)
		return nil
	})
	b.enqueue()
	require.ErrorContains(t, <-found, "the transaction is not on the scheduler's database: ")
	require.ErrorContains(t, <-found, `the transaction is not on the scheduler's database: there it has no node "n1" of app "test"`)
	require.ErrorContains(t, <-found, "it needs a transaction")
	b.end()
	tx, err := b.db.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	require.ErrorContains(t, run.CompleteIn(t.Context(), tx), "its handler has returned")
	require.ErrorContains(t, (&qrtz.Run{}).CompleteIn(t.Context(), tx), "not a run that a scheduler carries out")
	b.node.halt()

	b = newBooks(t, qrtz.Options{History: qrtz.HistoryNone}, func(ctx context.Context, r *qrtz.Run) error {
		_, err := book(ctx, b.db, r, sql.LevelDefault)
		found <- err
		return nil
	})
	schedule := qrtz.At(time.Now())
	require.NoError(t, b.node.Declare(t.Context(), qrtz.Job{Name: "book", Options: qrtz.Options{History: qrtz.HistoryNone}, Schedules: []qrtz.Schedule{schedule}}))
	require.ErrorContains(t, <-found, "it has no row in QRTZ_RUN")
	require.Equal(t, qrtz.Succeeded, b.end().State)
}

// A run that is completed after it was to be cancelled, or took too long, has done its work.
func TestWhatIsCompletedInTimeOrLateHasSucceeded(t *testing.T) {
	for name, options := range map[string]qrtz.Options{"timed out": {Timeout: 100 * time.Millisecond}, "cancelled": {}} {
		t.Run(name, func(t *testing.T) {
			var b *books
			b = newBooks(t, options, func(ctx context.Context, run *qrtz.Run) error {
				if options.Timeout == 0 {
					b.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1 WHERE ID = ?`, run.ID)
				}
				<-ctx.Done()
				tx, err := book(context.WithoutCancel(ctx), b.db, run, sql.LevelDefault)
				if err != nil {
					return err
				}
				_ = tx.Commit()
				return ctx.Err()
			})
			b.enqueue()
			require.Equal(t, qrtz.Succeeded, b.end().State)
			require.Equal(t, "SUCCEEDED", b.states())
			require.Equal(t, 1, b.effects())
		})
	}
}

// A run whose transaction was rolled back after CompleteIn continues, and tells how far it is as before.
func TestARunTellsHowFarItIsAfterARollback(t *testing.T) {
	var b *books
	shown := make(chan struct{})
	b = newBooks(t, qrtz.Options{}, func(ctx context.Context, run *qrtz.Run) error {
		tx, err := book(ctx, b.db, run, sql.LevelDefault)
		if err != nil {
			return err
		}
		run.Progress(40)
		if err := tx.Rollback(); err != nil {
			return err
		}
		select {
		case <-shown:
		case <-time.After(patience * 3 * time.Second):
		}
		return errPaper
	})
	b.enqueue()
	b.eventually("the row says so", 3*time.Second, func() bool {
		return b.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND PROGRESS = 40`) == 1
	})
	close(shown)
	require.Equal(t, qrtz.Failed, b.end().State)
}

// A run that has been completed has succeeded, though its node lose its place before the handler returns.
func TestWhatIsCompletedBeforeTheFenceHasSucceeded(t *testing.T) {
	var b *books
	b = newBooks(t, qrtz.Options{Recovery: true}, func(ctx context.Context, run *qrtz.Run) error {
		tx, err := book(ctx, b.db, run, sql.LevelDefault)
		if err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		b.exec(`UPDATE QRTZ_NODE SET INSTANCE = INSTANCE + 1000000`)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	b.enqueue()
	require.Equal(t, qrtz.Succeeded, b.end().State)
	require.Equal(t, "SUCCEEDED", b.states())
	require.Equal(t, 1, b.effects())
	require.NotContains(t, b.log.String(), "given up")
}

// A handler whose effect in the scheduler's database is made exactly once.
func ExampleRun_CompleteIn() {
	var s *qrtz.Scheduler
	var db *sql.DB

	qrtz.Handle(s, "charge", func(ctx context.Context, run *qrtz.Run, i invoice) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after Commit
		if _, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance - 100 WHERE customer = ?`, i.Customer); err != nil {
			return err
		}
		if err := run.CompleteIn(ctx, tx); err != nil {
			return err // qrtz.ErrFenced: another attempt does it
		}
		return tx.Commit()
	})
}
