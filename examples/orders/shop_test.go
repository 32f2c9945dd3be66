package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/qrtztest"
)

// goodBank charges, unless a test has it do otherwise.
type goodBank struct {
	charges map[string]int64 // by key
	fail    error            // instead of charging
	late    error            // after charging
}

func (b *goodBank) charged(context.Context) (cents int64, err error) {
	for _, one := range b.charges {
		cents += one
	}
	return cents, nil
}

func (b *goodBank) charge(_ context.Context, key, customer string, cents int64) error {
	switch {
	case customer == "Mallory":
		return errDeclined
	case b.fail != nil:
		return b.fail
	}
	b.charges[key] = cents
	return b.late
}

// open opens the shop at midnight UTC of 1 January 2030.
func open(t *testing.T) (*shop, *qrtztest.Kit, *goodBank) {
	t.Helper()
	bank := &goodBank{charges: map[string]int64{}}
	db := qrtztest.Database(t)
	s := &shop{db: db, bank: bank, rest: func(context.Context) error { return nil }}
	if err := s.migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	kit := qrtztest.New(t, db, qrtz.Config{App: "orders"}, s.register)
	kit.Declare(declared(qrtz.Cron("0 0 2 * * ?", "UTC"))...)
	return s, kit, bank
}

func (s *shop) mustPlace(t *testing.T, request, customer string, cents int64) (id int64) {
	t.Helper()
	id, err := s.place(t.Context(), order{request, customer, cents})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// check does the books.
func (s *shop) check(t *testing.T) books {
	t.Helper()
	b, err := s.books(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range b.Wrong {
		t.Error(wrong)
	}
	return b
}

func TestAnOrderIsInvoicedAndPaid(t *testing.T) {
	s, kit, bank := open(t)
	s.mustPlace(t, "r1", "Ada", 500)
	kit.Advance(0)
	kit.Expect("invoice", qrtz.Succeeded)
	kit.Expect("payment", qrtz.Succeeded)
	if b := s.check(t); b.Invoices != 1 || b.Paid != 1 || b.PaidCents != 500 || len(bank.charges) != 1 {
		t.Error(b, bank.charges)
	}
}

// A customer who got no answer sends the order again.
func TestAnOrderThatComesTwiceIsTakenOnce(t *testing.T) {
	s, kit, _ := open(t)
	first := s.mustPlace(t, "r1", "Ada", 500)
	kit.Advance(0)
	if again := s.mustPlace(t, "r1", "Ada", 500); again != first {
		t.Error("it was taken twice, as", first, "and", again)
	}
	kit.Advance(0)
	kit.Expect("invoice", qrtz.Succeeded)
}

// The bank is asked again, with the same key: so the customer is charged once, although the bank's answer was lost after it had charged.
func TestTheBankDoesNotAnswer(t *testing.T) {
	s, kit, bank := open(t)
	bank.fail = errNoAnswer
	s.mustPlace(t, "r1", "Ada", 500)
	kit.Advance(0)
	kit.Expect("payment", qrtz.Failed)
	bank.fail, bank.late = nil, errNoAnswer
	kit.Advance(time.Second) // the backoff
	kit.Expect("payment", qrtz.Failed, qrtz.Failed)
	bank.late = nil
	kit.Advance(2 * time.Second)
	kit.Expect("payment", qrtz.Failed, qrtz.Failed, qrtz.Succeeded)
	if b := s.check(t); b.Paid != 1 || len(bank.charges) != 1 {
		t.Error(b, bank.charges)
	}
}

func TestTheBankDeclines(t *testing.T) {
	s, kit, _ := open(t)
	s.mustPlace(t, "r1", "Mallory", 500)
	kit.Advance(time.Hour)
	kit.Expect("payment", qrtz.Failed) // no further attempt
	if b := s.check(t); b.Refused != 1 {
		t.Error(b)
	}
}

// A process dies at the worst moment: when all is done, and before qrtz has heard of it. The run has succeeded all the same.
func TestAProcessDiesAfterTheWork(t *testing.T) {
	for _, class := range []string{"invoice", "payment"} {
		t.Run(class, func(t *testing.T) {
			s, kit, _ := open(t)
			s.mustPlace(t, "r1", "Ada", 500)
			kit.HoldResult(class)
			kit.Advance(0)
			kit.Kill()
			kit.Advance(time.Hour)
			if b := s.check(t); b.Paid != 1 || b.Invoices != 1 {
				t.Error(b)
			}
		})
	}
}

// A process freezes before it does the work, is taken for dead, and does it when it wakes up: too late, and without effect.
func TestAProcessFreezesAndWakesUp(t *testing.T) {
	for _, class := range []string{"invoice", "payment"} {
		t.Run(class, func(t *testing.T) {
			s, kit, _ := open(t)
			s.mustPlace(t, "r1", "Ada", 500)
			held := kit.Hold(class)
			kit.Advance(0)
			kit.Freeze()
			kit.Advance(time.Minute)
			kit.Expect(class, qrtz.Lost, qrtz.Succeeded)
			held.Release()
			kit.Advance(time.Hour)
			if b := s.check(t); b.Paid != 1 || b.Invoices != 1 {
				t.Error(b)
			}
		})
	}
}

// A deploy ends the context of a run that takes too long. Another process does it at once, and no attempt is spent.
func TestADeployInterruptsAnInvoice(t *testing.T) {
	s, kit, _ := open(t)
	s.mustPlace(t, "r1", "Ada", 500)
	kit.Hold("invoice")
	kit.Advance(0)
	kit.Restart()
	kit.Expect("invoice", qrtz.Lost, qrtz.Succeeded)
	if b := s.check(t); b.Paid != 1 || b.Invoices != 1 {
		t.Error(b)
	}
}

func TestAReportCountsWhatCameSinceTheLast(t *testing.T) {
	s, kit, _ := open(t)
	for day := range 3 {
		for i := range day * 2 {
			s.mustPlace(t, fmt.Sprint(day, "-", i), "Ada", 100)
		}
		kit.Advance(24 * time.Hour)
	}
	kit.Expect("report", qrtz.Succeeded, qrtz.Succeeded, qrtz.Succeeded)
	if b := s.check(t); b.Reported != 6 {
		t.Error(b)
	}
}

// An attempt that is interrupted after two of three pages leaves the third to the next.
func TestAReportContinuesWhereItWasInterrupted(t *testing.T) {
	s, kit, _ := open(t)
	for i := range 2*reportPage + 50 {
		s.mustPlace(t, fmt.Sprint(i), "Mallory", 100)
	}
	kit.Advance(time.Hour)
	pages := 0
	s.rest = func(context.Context) error {
		if pages++; pages == 2 {
			return errors.New("the process is told to stop")
		}
		return nil
	}
	kit.Advance(2 * time.Hour)
	kit.Expect("report", qrtz.Failed, qrtz.Succeeded)
	if b := s.check(t); b.Reported != 2*reportPage+50 || pages != 3 {
		t.Error(b, pages)
	}
}
