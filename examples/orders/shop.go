package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/qrtz-go/qrtz"
)

// The tables of the shop, beside those of qrtz. No unique key forbids a second invoice of an order: that there is one is for the jobs to
// see to, and for books to check.
var createTables = []string{
	`CREATE TABLE IF NOT EXISTS SHOP_ORDERS (
		ID BIGINT AUTO_INCREMENT PRIMARY KEY, REQUEST VARCHAR(60) NOT NULL UNIQUE, CUSTOMER VARCHAR(50) NOT NULL, CENTS BIGINT NOT NULL,
		STATE VARCHAR(10) NOT NULL DEFAULT 'PLACED', PLACED_AT DATETIME(3) NOT NULL, KEY (PLACED_AT))`,
	`CREATE TABLE IF NOT EXISTS SHOP_INVOICES (ID BIGINT AUTO_INCREMENT PRIMARY KEY, ORDER_ID BIGINT NOT NULL, CENTS BIGINT NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS SHOP_ACCOUNTS (NAME VARCHAR(20) PRIMARY KEY, CENTS BIGINT NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS SHOP_REPORTS (
		ID BIGINT AUTO_INCREMENT PRIMARY KEY, UNTIL DATETIME(3) NOT NULL, ORDERS INT NOT NULL, CENTS BIGINT NOT NULL)`,
	`INSERT IGNORE INTO SHOP_ACCOUNTS VALUES ('customers', 0), ('shop', 0)`,
}

// shop takes orders, and has jobs do what an order needs.
type shop struct {
	db   *sql.DB
	jobs *qrtz.Scheduler
	bank bank
	rest func(context.Context) error // between the pages of a report
}

// migrate makes the tables of the shop, and those of the bank.
func (s *shop) migrate(ctx context.Context) error {
	for _, create := range append(createTables, createBank) {
		if _, err := s.db.ExecContext(ctx, create); err != nil {
			return err
		}
	}
	return nil
}

// order is what a customer asks for.
type order struct {
	Request  string // the customer's number for it: to send an order twice does no harm
	Customer string
	Cents    int64
}

// place takes an order, and asks for its invoice: both in one transaction, or neither. The customer's number is the key of the run, by
// which "qrtz run list --job invoice --key" finds it. Of an order that has been taken before it returns the id: so a customer who got
// no answer, as after a COMMIT whose answer was lost, can send it again.
func (s *shop) place(ctx context.Context, o order) (id int64, err error) {
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		inserted, err := tx.ExecContext(ctx, `INSERT INTO SHOP_ORDERS (REQUEST, CUSTOMER, CENTS, PLACED_AT) VALUES (?, ?, ?, UTC_TIMESTAMP(3))`,
			o.Request, o.Customer, o.Cents)
		if err != nil {
			return err
		}
		if id, err = inserted.LastInsertId(); err != nil {
			return err
		}
		_, err = invoiceJob.Enqueue(ctx, s.jobs.In(tx), invoice{OrderID: id}, qrtz.Once(o.Request))
		return err
	})
	if refusedFor(err, duplicate) {
		err = s.db.QueryRowContext(ctx, `SELECT ID FROM SHOP_ORDERS WHERE REQUEST = ?`, o.Request).Scan(&id)
	}
	return id, err
}

// The errors of the server that the shop tells apart.
const (
	duplicate = 1062
	lockWait  = 1205
	deadlock  = 1213
)

func refusedFor(err error, numbers ...uint16) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && slices.Contains(numbers, refused.Number)
}

// inTx does something in a transaction, again if another transaction was in its way.
func (s *shop) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	for tries := 1; ; tries++ {
		err := s.once(ctx, do)
		if !refusedFor(err, deadlock, lockWait) || tries == 5 {
			return err
		}
	}
}

func (s *shop) once(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// books is what the tables say, and whether it is right.
type books struct {
	Orders, Paid, Refused, Open int   // orders by what has become of them
	Invoices                    int   // as many as orders, when all is done
	PaidCents                   int64 // of orders that are paid: what the shop has, what the customers miss, and what the bank has charged
	Reported                    int   // orders in reports
	Wrong                       []string
}

func (s *shop) books(ctx context.Context) (b books, err error) {
	var shop, customers int64
	var twice int
	charged, err := s.bank.charged(ctx)
	if err != nil {
		return b, err
	}
	err = s.db.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(STATE = 'PAID'), 0), COALESCE(SUM(STATE = 'REFUSED'), 0),
		COALESCE(SUM(IF(STATE = 'PAID', CENTS, 0)), 0) FROM SHOP_ORDERS`).Scan(&b.Orders, &b.Paid, &b.Refused, &b.PaidCents)
	for _, q := range []struct {
		into  any
		query string
	}{
		{&b.Invoices, `SELECT COUNT(*) FROM SHOP_INVOICES`},
		{&twice, `SELECT COUNT(*) FROM (SELECT 1 FROM SHOP_INVOICES GROUP BY ORDER_ID HAVING COUNT(*) > 1) T`},
		{&shop, `SELECT CENTS FROM SHOP_ACCOUNTS WHERE NAME = 'shop'`},
		{&customers, `SELECT CENTS FROM SHOP_ACCOUNTS WHERE NAME = 'customers'`},
		{&b.Reported, `SELECT COALESCE(SUM(ORDERS), 0) FROM SHOP_REPORTS`},
	} {
		if err == nil {
			err = s.db.QueryRowContext(ctx, q.query).Scan(q.into)
		}
	}
	b.Open = b.Orders - b.Paid - b.Refused
	wrong := func(when bool, format string, args ...any) {
		if when {
			b.Wrong = append(b.Wrong, fmt.Sprintf(format, args...))
		}
	}
	wrong(twice > 0, "%d orders have more than one invoice", twice)
	wrong(b.Invoices > b.Orders || b.Invoices < b.Paid+b.Refused, "%d invoices of %d orders", b.Invoices, b.Orders)
	wrong(shop != b.PaidCents, "the shop has %d cents, for %d that were paid", shop, b.PaidCents)
	wrong(customers != -shop, "the customers have %d cents, the shop %d", customers, shop)
	wrong(charged < shop, "the bank has charged %d cents, for %d that were paid", charged, shop)
	wrong(b.Open == 0 && charged != shop, "the bank has charged %d cents, for %d that were paid, and none is open", charged, shop)
	return b, err
}

func (b books) String() string {
	text := fmt.Sprintf("%d orders: %d paid (%d cents), %d refused, %d open; %d invoices; %d orders in reports",
		b.Orders, b.Paid, b.PaidCents, b.Refused, b.Open, b.Invoices, b.Reported)
	if len(b.Wrong) > 0 {
		return text + "; WRONG: " + strings.Join(b.Wrong, "; ")
	}
	return text + "; the sums are right"
}
