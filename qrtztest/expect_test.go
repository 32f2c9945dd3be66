package qrtztest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// accountOf is what a test dies of that expects something else.
func accountOf(t *testing.T, jobs []qrtz.Job, do func(*Kit)) string {
	t.Helper()
	tb := &failing{TB: t}
	k := New(tb, Database(t), qrtz.Config{App: "test"}, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "invoice", func(context.Context, *qrtz.Run, struct{}) error { return errors.New("no paper\nno ink") })
		qrtz.Handle(s, "report", func(context.Context, *qrtz.Run, struct{}) error { return nil })
	})
	k.Declare(jobs...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(k)
	}()
	<-done
	return tb.why
}

func TestAFailureSaysWhatRanAndWhatIsToCome(t *testing.T) {
	invoice := qrtz.Job{Name: "monthly", Class: "invoice", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 6 1 * ?", "UTC")}}
	invoice.Attempts, invoice.Backoff = 2, time.Hour
	report := qrtz.Job{Name: "report", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour)}}
	why := accountOf(t, []qrtz.Job{invoice, report}, func(k *Kit) {
		k.AdvanceTo(Start.Add(6*time.Hour + 30*time.Minute))
		k.Expect("invoice", qrtz.Failed, qrtz.Succeeded)
	})
	t.Log(why)
	require.Contains(t, why, `qrtztest: of class "invoice"
  want: FAILED SUCCEEDED
  have: FAILED
It is 2030-01-01 06:30:00 UTC. What has happened so far:
  2030-01-01 06:00:00 `)
	require.Contains(t, why, `on node-1): no paper …; next attempt at 2030-01-01 07:00:00 UTC
  7 ends of runs and records of other classes
What is to come:
  run `)
	require.Contains(t, why, ` of job "monthly", attempt 2, is PENDING, not before 2030-01-01 07:00:00 UTC
  the schedule of job "monthly" is EXECUTING, next fire 2030-02-01 06:00:00 UTC`)
}

func TestAFailureSaysWhatWasSkippedAndWhatRuns(t *testing.T) {
	report := qrtz.Job{Name: "report", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour)}}
	report.Overlap = qrtz.OverlapSkip
	why := accountOf(t, []qrtz.Job{report}, func(k *Kit) {
		k.Hold("report")
		k.Advance(2 * time.Hour)
		k.RequireRan("report", 3)
	})
	t.Log(why)
	require.Contains(t, why, `0 runs of class "report" have ended, want 3`)
	require.Contains(t, why, `  2030-01-01 01:00:00 UTC  job "report" SKIPPED (1 of its fires): `)
	require.Contains(t, why, `of job "report", attempt 1, is RUNNING on node-1`)
}

func TestAFailureSaysWhyNothingRan(t *testing.T) {
	mail := qrtz.Job{Name: "mail", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour)}}
	ask := func(class string) func(*Kit) { return func(k *Kit) { k.Advance(time.Hour); k.RequireRan(class, 1) } }
	require.Contains(t, accountOf(t, []qrtz.Job{mail}, ask("mail")), `the schedule of job "mail" is EXECUTING: no node has a handler for its class`)
	require.Contains(t, accountOf(t, []qrtz.Job{mail}, ask("mial")), `no job has the class "mial"; jobs have the classes ["mail"]`)
	require.Contains(t, accountOf(t, nil, ask("mial")), `no job has the class "mial", for none is declared`)
	require.Contains(t, accountOf(t, []qrtz.Job{{Name: "invoice"}}, ask("invoice")), `job "invoice" has no schedule`)
}

func TestAnAccountOfManyIsShort(t *testing.T) {
	var account string
	accountOf(t, []qrtz.Job{{Name: "report", Schedules: []qrtz.Schedule{qrtz.Every(time.Minute)}}}, func(k *Kit) {
		k.Advance(40 * time.Minute)
		account = k.Account()
	})
	require.Contains(t, account, fmt.Sprintf("… %d before these\n  2030-01-01 00:11:00", 41-mostEvents))
}
