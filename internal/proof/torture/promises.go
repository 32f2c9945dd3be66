package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz"
)

// What a program is promised that asks for runs: effects of a transaction exactly once, one live run for a key, limits, a
// checkpoint for the next attempt, and that an interruption is no failure. A program asks for such runs all the time.

// The jobs that the program asks for runs of, by their classes, each of app a.
const (
	paying   = "paying"   // adds to an account in the transaction in which it is completed
	keyed    = "keyed"    // one at a time for each key
	stepwise = "stepwise" // does ten steps and saves how far it is
	patient  = "patient"  // goes for longer than a node drains
	limited  = "limited"  // two at a time in the whole cluster
)

const (
	accounts = 5  // that are paid into
	keys     = 3  // of keyed runs
	steps    = 10 // of a stepwise run
)

// createAccountsSQL makes the tables of the program: what it has asked to be paid, and what was.
var createAccountsSQL = []string{
	`CREATE TABLE TORTURE_ACCOUNT (ID INT NOT NULL, PAYMENTS BIGINT NOT NULL DEFAULT 0, BALANCE BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (ID)) ENGINE=InnoDB`,
	`CREATE TABLE TORTURE_ASKED (ID BIGINT NOT NULL, ACCOUNT INT NOT NULL, AMOUNT BIGINT NOT NULL, PRIMARY KEY (ID)) ENGINE=InnoDB`,
}

// payment is the data of a paying run.
type payment struct {
	Account int
	Amount  int64
}

func promiseJobs() []qrtz.Job {
	often := qrtz.Options{Recovery: true, Attempts: 30, Backoff: 200 * time.Millisecond, MaxBackoff: time.Second}
	jobs := []qrtz.Job{
		{Name: paying, Options: often},
		{Name: keyed, Options: often},
		{Name: stepwise, Options: often},
		{Name: patient, Options: qrtz.Options{Recovery: true}},
		{Name: limited, Options: qrtz.Options{Recovery: true, Attempts: 2, Backoff: 200 * time.Millisecond, MaxRunning: 2}},
	}
	return jobs
}

func (t *torture) addPromises(ctx context.Context) error {
	for _, ddl := range createAccountsSQL {
		if _, err := t.db.ExecContext(ctx, ddl); err != nil {
			return err
		}
	}
	for i := range accounts {
		if _, err := t.db.ExecContext(ctx, `INSERT INTO TORTURE_ACCOUNT (ID) VALUES (?)`, i); err != nil {
			return err
		}
	}
	return t.apps[0].Declare(ctx, promiseJobs()...)
}

// ask asks for runs until ctx ends or the schedules do.
func (t *torture) ask(ctx context.Context) {
	dice := rand.New(rand.NewPCG(t.seed, 7))
	var asking sync.WaitGroup
	for name, every := range map[string]time.Duration{paying: 300 * time.Millisecond, keyed: 200 * time.Millisecond, stepwise: time.Second, patient: 2 * time.Second, limited: 400 * time.Millisecond} {
		seed := dice.Uint64()
		asking.Go(func() {
			dice := rand.New(rand.NewPCG(seed, 8))
			for n, at := int64(1), t.from; at.Before(t.until) && sleepUntil(ctx, at); n, at = n+1, later(time.Now(), at.Add(every)) {
				t.askFor(ctx, name, n, dice)
			}
		})
	}
	asking.Wait()
}

// askFor asks for one run of a job. An error is the program's to deal with: a payment is asked for until it is known to be.
func (t *torture) askFor(ctx context.Context, name string, n int64, dice *rand.Rand) {
	a := t.apps[0]
	switch name {
	case paying:
		p := payment{dice.IntN(accounts), 1 + dice.Int64N(100)}
		for try := 0; ctx.Err() == nil; try++ {
			err := t.askToPay(ctx, a, n, p)
			if err == nil {
				return
			}
			if try%10 == 0 {
				t.note("payment %d: %v", n, err)
			}
			sleepUntil(ctx, time.Now().Add(200*time.Millisecond))
		}
	case keyed:
		key := fmt.Sprint("key ", dice.IntN(keys))
		t.try(ctx, "enqueue with a key", func(ctx context.Context) error {
			_, err := a.Enqueue(ctx, name, nil, qrtz.WithKey(key))
			if errors.Is(err, qrtz.ErrKeyTaken) {
				return nil
			}
			return err
		})
	default:
		t.try(ctx, "enqueue", func(ctx context.Context) error {
			_, err := a.Enqueue(ctx, name, nil)
			return err
		})
	}
}

// askToPay asks for a payment, half of them together with a row of the program's own. Its key makes it safe to ask again.
func (t *torture) askToPay(ctx context.Context, a *appUnder, n int64, p payment) error {
	ctx, cancel := context.WithTimeout(ctx, operation)
	defer cancel()
	once := qrtz.Once(fmt.Sprint("payment ", n))
	if n%2 == 0 {
		_, err := a.Enqueue(ctx, paying, p, once)
		if errors.Is(err, qrtz.ErrKeyTaken) {
			return nil
		}
		return err
	}
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the COMMIT it does nothing
	if _, err := tx.ExecContext(ctx, `INSERT IGNORE INTO TORTURE_ASKED (ID, ACCOUNT, AMOUNT) VALUES (?, ?, ?)`, n, p.Account, p.Amount); err != nil {
		return err
	}
	if _, err := a.In(tx).Enqueue(ctx, paying, p, once); err != nil && !errors.Is(err, qrtz.ErrKeyTaken) {
		return err
	}
	return tx.Commit()
}

// errLied has carryOut return nil to the scheduler and note in its account that the work is not done.
var errLied = errors.New("it says that it has succeeded")

// promiseClasses are the handlers of the jobs that a program asks for runs of.
func (w *worker) promiseClasses(db *sql.DB, drain time.Duration) map[string]behaviour {
	return map[string]behaviour{
		paying: func(ctx context.Context, r *qrtz.Run) error { return pay(ctx, db, r) },
		keyed: func(ctx context.Context, _ *qrtz.Run) error {
			if err := pass(ctx, upTo(600*time.Millisecond)); err != nil {
				return err
			}
			if rand.IntN(4) == 0 {
				return errFailed
			}
			return nil
		},
		stepwise: w.step,
		patient:  func(ctx context.Context, _ *qrtz.Run) error { return pass(ctx, upTo(3*drain)) },
		limited:  func(ctx context.Context, _ *qrtz.Run) error { return pass(ctx, upTo(700*time.Millisecond)) },
	}
}

// pay pays into an account, and is completed, in one transaction. Now and then it is rolled back all the same.
func pay(ctx context.Context, db *sql.DB, r *qrtz.Run) error {
	var p payment
	if err := json.Unmarshal(r.Data(), &p); err != nil {
		return err
	}
	if rand.IntN(8) == 0 { // it does not care whether the run is still its own
		ctx = context.WithoutCancel(ctx)
		if err := pass(ctx, upTo(9*time.Second)); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the COMMIT it does nothing
	if _, err := tx.ExecContext(ctx, `UPDATE TORTURE_ACCOUNT SET PAYMENTS = PAYMENTS + 1, BALANCE = BALANCE + ? WHERE ID = ?`, p.Amount, p.Account); err != nil {
		return err
	}
	if err := pass(ctx, upTo(20*time.Millisecond)); err != nil {
		return err
	}
	if err := r.CompleteIn(ctx, tx); err != nil {
		return err
	}
	switch rand.IntN(20) {
	case 0:
		return errLied
	case 1:
		return errFailed
	}
	return tx.Commit()
}

// step continues where the attempt before has saved that it was.
func (w *worker) step(ctx context.Context, r *qrtz.Run) error {
	var done int
	if _, err := r.Load(&done); err != nil {
		return err
	}
	w.write(entry{Of: r.ID, Loaded: done + 1})
	for done < steps {
		if err := pass(ctx, upTo(300*time.Millisecond)); err != nil {
			return err
		}
		if rand.IntN(15) == 0 {
			return errFailed
		}
		if err := r.Save(ctx, done+1); err != nil {
			return err
		}
		done++
		w.write(entry{Of: r.ID, Saved: done})
	}
	return nil
}
