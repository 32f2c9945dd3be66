package qrtz_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

type page struct{ Number int }

func TestAHandlerContinuesWhereTheAttemptBeforeItSaved(t *testing.T) {
	var b *books
	b = newBooks(t, qrtz.Options{Attempts: 3, Backoff: time.Millisecond, MaxBackoff: time.Millisecond}, func(ctx context.Context, run *qrtz.Run) error {
		var done page
		if found, err := run.Load(&done); err != nil || found != (run.Attempt > 1) {
			return qrtz.NoRetry(fmt.Errorf("found %v at attempt %d: %w", found, run.Attempt, err))
		}
		for done.Number < 6 {
			done.Number++
			b.exec(`INSERT INTO EFFECTS VALUES (?, ?)`, done.Number, run.Attempt)
			if err := run.Save(ctx, done); err != nil {
				return err
			}
			if done.Number%3 == 0 && run.Attempt < 3 {
				return errors.New("no paper")
			}
		}
		var own page
		if found, err := run.Load(&own); !found || err != nil || own != done {
			return fmt.Errorf("its own is %v, %v: %w", found, own, err)
		}
		if err := run.Save(ctx, nil); err != nil {
			return err
		}
		if found, err := run.Load(&own); found || err != nil {
			return fmt.Errorf("it is still there: %w", err)
		}
		return nil
	})
	b.enqueue()
	for _, state := range []qrtz.RunState{qrtz.Failed, qrtz.Failed, qrtz.Succeeded} {
		require.Equal(t, state, b.end().State)
	}
	require.Equal(t, "1:1,2:1,3:1,4:2,5:2,6:2", b.text(`SELECT GROUP_CONCAT(RUN, ':', ATTEMPT ORDER BY RUN) FROM EFFECTS`))
}

// A portion and the checkpoint behind it are committed together, or not at all.
func TestPortionsAreDoneOnce(t *testing.T) {
	var b *books
	b = newBooks(t, qrtz.Options{Attempts: 10, Backoff: time.Millisecond, MaxBackoff: time.Millisecond}, func(ctx context.Context, run *qrtz.Run) error {
		var done page
		if _, err := run.Load(&done); err != nil {
			return err
		}
		for done.Number < 5 {
			done.Number++
			tx, err := b.db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if _, err = tx.ExecContext(ctx, `INSERT INTO EFFECTS VALUES (?, ?)`, done.Number, run.Attempt); err == nil {
				err = run.SaveIn(ctx, tx, done)
			}
			if err != nil || run.Attempt%2 == 1 {
				return errors.Join(errors.New("no paper"), err, tx.Rollback())
			}
			if err := tx.Commit(); err != nil {
				return err
			}
			if done.Number%2 == 0 {
				return errors.New("no paper either")
			}
		}
		return nil
	})
	b.enqueue()
	for b.end().State != qrtz.Succeeded {
	}
	require.Equal(t, "1,2,3,4,5", b.text(`SELECT GROUP_CONCAT(RUN ORDER BY RUN) FROM EFFECTS`))
}

func TestARunKnowsTheLastSuccessBeforeIt(t *testing.T) {
	saw := make(chan time.Time, 10)
	var b *books
	b = newBooks(t, qrtz.Options{}, func(ctx context.Context, run *qrtz.Run) error {
		last, err := run.LastSuccess(ctx)
		if err != nil {
			return err
		}
		saw <- last
		if b.effects() == 0 {
			return nil
		}
		return errors.New("no paper")
	})
	first := b.enqueue()
	require.True(t, (<-saw).IsZero())
	due := time.UnixMilli(int64(b.count(`SELECT FIRE_TIME FROM QRTZ_RUN WHERE ID = ?`, first))).UTC()
	b.end()
	b.eventually("its result is written", 5*time.Second, func() bool { return b.states() == "SUCCEEDED" })
	b.exec(`INSERT INTO EFFECTS VALUES (1, 1)`)
	for range 2 {
		b.enqueue()
		require.Equal(t, due, <-saw)
		b.end()
	}
}

func TestWhatCannotBeSaved(t *testing.T) {
	found := make(chan error, 10)
	var run *qrtz.Run
	var b *books
	b = newBooks(t, qrtz.Options{}, func(ctx context.Context, r *qrtz.Run) error {
		run = r
		found <- r.Save(ctx, strings.Repeat("x", 65_534))
		found <- r.Save(ctx, strings.Repeat("x", 65_533))
		found <- r.Save(ctx, func() {})
		found <- r.SaveIn(ctx, nil, 1)
		_, err := r.Load(new(int))
		found <- err
		b.exec(`UPDATE QRTZ_RUN SET STATE = 'LOST' WHERE ID = ?`, r.ID)
		found <- r.Save(ctx, 1)
		_, err = r.Load(new(string))
		found <- err
		return nil
	})
	b.enqueue()
	require.ErrorContains(t, <-found, "it has 65536 bytes; at most 65535 fit")
	require.NoError(t, <-found)
	require.ErrorContains(t, <-found, "unsupported type")
	require.ErrorContains(t, <-found, "it needs a transaction")
	require.ErrorContains(t, <-found, "cannot unmarshal string")
	require.ErrorIs(t, <-found, qrtz.ErrFenced)
	require.ErrorIs(t, <-found, qrtz.ErrFenced)
	b.end()
	require.ErrorContains(t, run.Save(t.Context(), 1), "its handler has returned")
	_, err := run.Load(new(int))
	require.ErrorContains(t, err, "its handler has returned")
	require.ErrorContains(t, (&qrtz.Run{}).Save(t.Context(), 1), "not a run that a scheduler carries out")
	_, err = run.LastSuccess(t.Context())
	require.ErrorContains(t, err, "its handler has returned")
	b.node.halt()

	b = newBooks(t, qrtz.Options{}, func(ctx context.Context, r *qrtz.Run) error {
		found <- r.Save(ctx, 1)
		_, err := r.Load(new(int))
		found <- err
		at, err := r.LastSuccess(ctx)
		found <- err
		if !at.IsZero() {
			return errors.New("there is no run on record")
		}
		return nil
	})
	require.NoError(t, b.node.Declare(t.Context(), qrtz.Job{Name: "book", Options: qrtz.Options{History: qrtz.HistoryNone}, Schedules: []qrtz.Schedule{qrtz.At(time.Now())}}))
	require.ErrorContains(t, <-found, "it has no row in QRTZ_RUN")
	require.ErrorContains(t, <-found, "it has no row in QRTZ_RUN")
	require.NoError(t, <-found)
	require.Equal(t, qrtz.Succeeded, b.end().State)
}

// A handler that continues where the attempt before it has come to.
func ExampleRun_Save() {
	var s *qrtz.Scheduler

	qrtz.Handle(s, "export", func(ctx context.Context, run *qrtz.Run, pages int) error {
		var done struct{ Pages int }
		if _, err := run.Load(&done); err != nil {
			return err
		}
		for done.Pages < pages {
			if err := export(ctx, done.Pages+1); err != nil {
				return err
			}
			done.Pages++
			if err := run.Save(ctx, done); err != nil {
				return err
			}
		}
		return nil
	})
}

// A handler that works in portions, each of which is done exactly once.
func ExampleRun_SaveIn() {
	var s *qrtz.Scheduler
	var db *sql.DB

	qrtz.Handle(s, "archive", func(ctx context.Context, run *qrtz.Run, until int64) error {
		var last int64
		if _, err := run.Load(&last); err != nil {
			return err
		}
		for last < until {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if err = archive(ctx, tx, last, last+1000); err == nil {
				err = run.SaveIn(ctx, tx, last+1000)
			}
			if err != nil {
				return errors.Join(err, tx.Rollback())
			}
			if err := tx.Commit(); err != nil {
				return err
			}
			last += 1000
		}
		return nil
	})
}

// A handler that works on what has come in since it last succeeded.
func ExampleRun_LastSuccess() {
	var s *qrtz.Scheduler

	qrtz.Handle(s, "report", func(ctx context.Context, run *qrtz.Run, _ struct{}) error {
		since, err := run.LastSuccess(ctx)
		if err != nil {
			return err
		}
		return report(ctx, since, run.FireTime) // since is zero for the first one
	})
}

func export(context.Context, int) error { return nil }

func archive(context.Context, *sql.Tx, int64, int64) error { return nil }

func report(context.Context, time.Time, time.Time) error { return nil }

// The results of fires that succeed wait for company, but not those that a handler asks for.
func TestLastSuccessIsThatOfTheFireBefore(t *testing.T) {
	type seen struct{ fire, last time.Time }
	saw := make(chan seen, 100)
	b := newBooks(t, qrtz.Options{}, func(ctx context.Context, run *qrtz.Run) error {
		last, err := run.LastSuccess(ctx)
		saw <- seen{run.FireTime, last}
		time.Sleep(600 * time.Millisecond) // the work; its result may wait for longer than until the next fire
		return err
	})
	require.NoError(t, b.node.Declare(t.Context(), qrtz.Job{Name: "book", Schedules: []qrtz.Schedule{qrtz.Every(time.Second)}}))
	<-saw
	for range 4 {
		s := <-saw
		require.Equal(t, time.Second, s.fire.Sub(s.last))
	}
}
