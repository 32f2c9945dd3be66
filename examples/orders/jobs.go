package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz"
)

// The jobs, and what they are given.
var (
	invoiceJob = qrtz.NewJob[invoice]("invoice") // asked for by each order
	paymentJob = qrtz.NewJob[payment]("payment") // asked for by each invoice
	reportJob  = qrtz.NewJob[struct{}]("report") // each night
)

type (
	invoice struct{ OrderID int64 }
	payment struct{ OrderID int64 }
)

// declared are the jobs of the shop. reports says when there is one: at two each night, but for demonstrations.
func declared(reports qrtz.Schedule) []qrtz.Job {
	i, p, r := invoiceJob.Job(), paymentJob.Job(), reportJob.Job(reports)
	i.Options = qrtz.Options{Recovery: true, Attempts: 5, Backoff: time.Second}
	p.Options = qrtz.Options{Recovery: true, Attempts: 20, Backoff: time.Second, MaxBackoff: 10 * time.Second}
	r.Options = qrtz.Options{Recovery: true, Attempts: 3, Overlap: qrtz.OverlapQueue, KeepFor: qrtz.Forever} // LastSuccess is among them
	return []qrtz.Job{i, p, r}
}

// register gives a scheduler the handlers of the shop.
func (s *shop) register(scheduler *qrtz.Scheduler) {
	s.jobs = scheduler
	invoiceJob.Handle(scheduler, s.invoice)
	paymentJob.Handle(scheduler, s.payment)
	reportJob.Handle(scheduler, s.report)
}

// invoice writes the invoice of an order, and asks for its payment. All of that is in one transaction, and so is the end of the run
// (CompleteIn): however often a process dies here, there is one invoice and one payment.
func (s *shop) invoice(ctx context.Context, run *qrtz.Run, i invoice) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO SHOP_INVOICES (ORDER_ID, CENTS) SELECT ID, CENTS FROM SHOP_ORDERS WHERE ID = ?`, i.OrderID)
		if err != nil {
			return err
		}
		if _, err := paymentJob.Enqueue(ctx, s.jobs.In(tx), payment(i)); err != nil {
			return err
		}
		return run.CompleteIn(ctx, tx)
	})
}

// payment has the bank charge the customer, and writes that down. The bank is asked with the run's key, which is the same for all
// attempts: so it charges once, even if its answer was lost, or the process that asked. What the shop writes is in one
// transaction with the end of the run.
func (s *shop) payment(ctx context.Context, run *qrtz.Run, p payment) error {
	var customer string
	var cents int64
	err := s.db.QueryRowContext(ctx, `SELECT CUSTOMER, CENTS FROM SHOP_ORDERS WHERE ID = ?`, p.OrderID).Scan(&customer, &cents)
	if err != nil {
		return err
	}
	switch err := s.bank.charge(ctx, run.Key(), customer, cents); {
	case errors.Is(err, errDeclined):
		if _, err := s.db.ExecContext(ctx, `UPDATE SHOP_ORDERS SET STATE = 'REFUSED' WHERE ID = ?`, p.OrderID); err != nil {
			return err
		}
		return qrtz.NoRetry(err)
	case err != nil:
		return err
	}
	return s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE SHOP_ACCOUNTS SET CENTS = CENTS + IF(NAME = 'shop', ?, -?) ORDER BY NAME`, cents, cents)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE SHOP_ORDERS SET STATE = 'PAID' WHERE ID = ?`, p.OrderID); err != nil {
			return err
		}
		return run.CompleteIn(ctx, tx)
	})
}

// tally is how far a report has come.
type tally struct {
	Since, Until time.Time
	LastID       int64 // of the orders that have been counted
	Orders       int
	Cents        int64
}

const (
	reportPage = 100              // orders that a report counts at a time
	underWay   = 10 * time.Second // how long the transaction of an order may take: what is younger is for the next report
)

// report counts the orders since the last report. It saves how far it has come after each page: an attempt after an interruption or a
// failure continues there.
func (s *shop) report(ctx context.Context, run *qrtz.Run, _ struct{}) error {
	var t tally
	found, err := run.Load(&t)
	if err != nil {
		return err
	}
	if !found {
		last, err := run.LastSuccess(ctx)
		if err != nil {
			return err
		}
		if last.IsZero() { // the first report; as a parameter, the zero time would be '0000-00-00', which MySQL refuses
			last = time.Unix(0, 0)
		}
		t.Since, t.Until = last.Add(-underWay), run.FireTime.Add(-underWay)
	}
	for more := true; more; {
		if more, err = s.count(ctx, &t); err != nil {
			return err
		}
		if err := run.Save(ctx, t); err != nil {
			return err
		}
		run.Message(fmt.Sprintf("%d orders", t.Orders))
		if err := s.rest(ctx); err != nil {
			return err
		}
	}
	return s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO SHOP_REPORTS (UNTIL, ORDERS, CENTS) VALUES (?, ?, ?)`, t.Until, t.Orders, t.Cents)
		if err != nil {
			return err
		}
		return run.CompleteIn(ctx, tx)
	})
}

// count counts the next page, and tells whether there may be more.
func (s *shop) count(ctx context.Context, t *tally) (more bool, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT ID, CENTS FROM SHOP_ORDERS WHERE PLACED_AT >= ? AND PLACED_AT < ? AND ID > ? ORDER BY ID LIMIT ?`,
		t.Since, t.Until, t.LastID, reportPage)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }()
	n := 0
	for ; rows.Next(); n++ {
		var cents int64
		if err := rows.Scan(&t.LastID, &cents); err != nil {
			return false, err
		}
		t.Orders, t.Cents = t.Orders+1, t.Cents+cents
	}
	return n == reportPage, rows.Err()
}
