package qrtztest_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/qrtztest"
)

func Example() {
	var t *testing.T // that of your test
	var db *sql.DB   // on a test database

	broken := true
	kit := qrtztest.New(t, db, qrtz.Config{App: "billing"}, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "invoice", func(context.Context, *qrtz.Run, struct{}) error {
			if broken {
				return errors.New("no paper")
			}
			return nil
		})
	})
	kit.Declare(qrtz.Job{
		Name: "invoice", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 6 1 * ?", "UTC")},
		Options: qrtz.Options{Attempts: 2, Backoff: time.Hour},
	})
	kit.AdvanceTo(time.Date(2030, 1, 1, 6, 0, 0, 0, time.UTC)) // the kit starts on 2030-01-01, at midnight
	if failed := kit.RequireRan("invoice", 1)[0]; failed.State != qrtz.Failed {
		t.Error("it should have failed", failed)
	}
	broken = false
	kit.Advance(2 * time.Hour) // the retry
	if again := kit.RequireRan("invoice", 2)[1]; again.State != qrtz.Succeeded || again.Attempt != 2 {
		t.Error("it should have succeeded", again)
	}
	kit.Skip(40 * 24 * time.Hour) // an outage; its misfire policy decides about 1 February
	kit.RequireRan("invoice", 3)
}
