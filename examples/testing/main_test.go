package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/qrtztest"
)

// mailbox is a mailer that keeps what it is given.
type mailbox struct {
	sent   []string // to whom
	broken bool
}

func (m *mailbox) send(_ context.Context, to, _ string) error {
	if m.broken {
		return errors.New("the mail server is away")
	}
	m.sent = append(m.sent, to)
	return nil
}

// start starts the program's scheduler with a clock that stands at midnight UTC of 1 January 2030.
func start(t *testing.T, mails *mailbox) *qrtztest.Kit {
	t.Helper()
	kit := qrtztest.New(t, qrtztest.Database(t), qrtz.Config{App: "rent"}, func(s *qrtz.Scheduler) { register(s, mails.send) })
	kit.Declare(jobs()...)
	return kit
}

// Nine o'clock in Berlin is eight o'clock UTC in winter and seven in summer.
func TestItRemindsAtNineOnTheFirstOfEachMonth(t *testing.T) {
	var mails mailbox
	kit := start(t, &mails)
	kit.AdvanceTo(time.Date(2030, 12, 31, 0, 0, 0, 0, time.UTC))
	for i, run := range kit.RequireRan("remind", 12) { // if it is another number, the failure says what ran, and what did not and why
		month, hour := time.Month(i+1), 8
		if month >= time.April && month <= time.October {
			hour = 7
		}
		if want := time.Date(2030, month, 1, hour, 0, 0, 0, time.UTC); !run.FireTime.Equal(want) {
			t.Errorf("reminded at %s, want %s", run.FireTime.UTC(), want)
		}
	}
	if len(mails.sent) != 12 || mails.sent[0] != "tenants@example.com" {
		t.Errorf("mails to %v", mails.sent)
	}
}

// A mail server that is away for a moment costs an attempt, and no reminder is sent twice.
func TestItTriesAgainWhenTheMailServerIsAway(t *testing.T) {
	mails := mailbox{broken: true}
	kit := start(t, &mails)
	kit.AdvanceTo(time.Date(2030, 1, 1, 8, 0, 0, 0, time.UTC))
	if run := kit.Expect("remind", qrtz.Failed)[0]; run.Message != "the mail server is away" {
		t.Errorf("the first attempt: %s", run.Message)
	}
	mails.broken = false
	kit.Advance(time.Minute) // the backoff of the job
	kit.Expect("remind", qrtz.Failed, qrtz.Succeeded)
	kit.Advance(24 * time.Hour)
	if len(mails.sent) != 1 {
		t.Errorf("%d mails, want 1", len(mails.sent))
	}
}

// After an outage of ten weeks it reminds once, not once for each month that has passed.
func TestItRemindsOnceAfterAnOutage(t *testing.T) {
	var mails mailbox
	kit := start(t, &mails)
	kit.Skip(10 * 7 * 24 * time.Hour)
	kit.RequireRan("remind", 1)
	if len(mails.sent) != 1 {
		t.Errorf("%d mails, want 1", len(mails.sent))
	}
}

// A process that dies when it has sent the mail, and before that is on record, is why a job that is recovered may remind twice. This
// one asks for no recovery, and does not.
func TestAProcessThatDiesDoesNotRemindTwice(t *testing.T) {
	var mails mailbox
	kit := start(t, &mails)
	kit.HoldResult("remind")
	kit.AdvanceTo(time.Date(2030, 1, 1, 8, 0, 0, 0, time.UTC))
	kit.Kill()
	kit.Advance(time.Hour)
	kit.Expect("remind", qrtz.Lost)
	if len(mails.sent) != 1 {
		t.Errorf("%d mails, want 1", len(mails.sent))
	}
}

// What the program enqueues runs with the data it is given, as soon as time passes.
func TestAReminderCanBeAskedFor(t *testing.T) {
	var mails mailbox
	kit := start(t, &mails)
	if _, err := kit.Scheduler.Enqueue(t.Context(), "remind", reminder{To: "ada@example.com"}); err != nil {
		t.Fatal(err)
	}
	kit.Advance(time.Second)
	if !slices.Equal(mails.sent, []string{"ada@example.com"}) {
		t.Errorf("mails to %v", mails.sent)
	}
}
