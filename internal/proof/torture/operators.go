package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz"
	runs "github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// What operators and programs do to a cluster in its daily life, besides throwing switches: rows changed by SQL, jobs declared,
// run, cancelled and deleted by a client. While no server answers they fail, which is noted and is no fault.

// operation bounds what an operator does.
const operation = 10 * time.Second

// cleanOlder is how old a run must be to be cleaned away.
const cleanOlder = 30 * time.Second

func (t *torture) try(ctx context.Context, what string, do func(ctx context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, operation)
	defer cancel()
	if err := do(ctx); err != nil {
		t.note("%s: %v", what, err)
		return false
	}
	return true
}

func (t *torture) exec(ctx context.Context, query string, args ...any) bool {
	return t.try(ctx, "SQL", func(ctx context.Context) error {
		_, err := t.db.ExecContext(ctx, query, args...)
		return err
	})
}

func (t *torture) anyApp(f fault) *appUnder { return t.apps[f.dice.IntN(len(t.apps))] }

// anyPassing picks the name of a job that comes and goes; "" if there is none.
func (a *appUnder) anyPassing(f fault) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.passing) == 0 {
		return ""
	}
	return a.passing[f.dice.IntN(len(a.passing))]
}

// declareSome adds a job that comes and goes, or declares one again with other schedules and rules.
func (t *torture) declareSome(ctx context.Context, f fault) {
	a := t.anyApp(f)
	name := a.anyPassing(f)
	if name == "" || f.dice.IntN(3) > 0 {
		a.mu.Lock()
		a.declared++
		name = fmt.Sprintf("passing %d", a.declared)
		a.mu.Unlock()
	}
	j := jobNamed(name)
	now := t.clock.atMost(time.Now())
	for k := range 1 + f.dice.IntN(4) {
		s := anySchedule(f.dice, now, now.Add(time.Until(t.until)))
		s.Name = fmt.Sprint(k)
		j.Schedules = append(j.Schedules, s)
	}
	t.note("app %s: declare %q with %d schedules", a.name, name, len(j.Schedules))
	if t.try(ctx, "declare", func(ctx context.Context) error { return a.Declare(ctx, j) }) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !slices.Contains(a.passing, name) {
			a.passing = append(a.passing, name)
		}
	}
}

func (t *torture) pause(ctx context.Context, f fault) {
	a := t.anyApp(f)
	name := a.anyPassing(f)
	if name == "" {
		return
	}
	t.note("app %s: pause %q for %s", a.name, name, short(f.last))
	if t.try(ctx, "pause", func(ctx context.Context) error { return a.Pause(ctx, name, "") }) {
		t.wait(ctx, f.last)
		t.note("app %s: resume %q", a.name, name)
		t.try(ctx, "resume", func(ctx context.Context) error { return a.Resume(ctx, name, "") })
	}
}

func (t *torture) changeBySQL(ctx context.Context, f fault) {
	a := t.anyApp(f)
	name := a.anyPassing(f)
	if name == "" {
		return
	}
	t.note("app %s: other intervals for %q by SQL", a.name, name)
	t.exec(ctx, `UPDATE QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID SET E.REPEAT_INTERVAL = ?, E.CRON = ?, E.NEXT_FIRE_TIME = NULL
 WHERE J.APPLICATION = ? AND J.NAME = ?`, 700+f.dice.IntN(3000), "0/3 * * * * ?", a.name, name)
}

// endBySQL allows no further fires to a job of its own, whose fires come thick and fast, and leaves NEXT_FIRE_TIME alone,
// while a worker is slow to claim: only the checksum of the schedule tells it that what it read is old.
func (t *torture) endBySQL(ctx context.Context, f fault) {
	a := t.anyApp(f)
	a.mu.Lock()
	a.declared++
	j := qrtz.Job{Name: fmt.Sprintf("passing %d", a.declared), Class: "quick"}
	a.mu.Unlock()
	now := t.clock.atMost(time.Now())
	for k := range 20 {
		s := every(f.dice, 400*time.Millisecond, 900*time.Millisecond, now)
		s.Name = fmt.Sprint(k)
		j.Schedules = append(j.Schedules, s)
	}
	if !t.try(ctx, "declare", func(ctx context.Context) error { return a.Declare(ctx, j) }) {
		return
	}
	t.wait(ctx, time.Second+time.Duration(f.dice.Int64N(int64(2*time.Second))))
	t.note("app %s: no further fires for %q by SQL", a.name, j.Name)
	defer t.slowed(ctx, f, pick(f.dice, t.processesOf(a.name)...))()
	t.exec(ctx, `UPDATE QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID SET E.REPEAT_COUNT = GREATEST(COALESCE(E.TIME_TRIGGERED, 0), 0)
 WHERE J.APPLICATION = ? AND J.NAME = ?`, a.name, j.Name)
	t.wait(ctx, time.Second)
}

// breakBySQL types a bad cron expression, and mends it later.
func (t *torture) breakBySQL(ctx context.Context, f fault) {
	a := t.anyApp(f)
	name := a.anyPassing(f)
	if name == "" {
		return
	}
	t.note("app %s: a bad cron expression in %q for %s", a.name, name, short(f.last))
	const query = `UPDATE QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID SET E.CRON = ?, E.NEXT_FIRE_TIME = NULL WHERE J.APPLICATION = ? AND J.NAME = ? AND E.JOB_TYPE = 'CRON'`
	if t.exec(ctx, query, "0/0 banana", a.name, name) {
		t.wait(ctx, f.last)
		t.exec(ctx, query, "0/3 * * * * ?", a.name, name)
	}
}

func (t *torture) deleteOne(ctx context.Context, f fault) {
	a := t.anyApp(f)
	if name := a.anyPassing(f); name != "" {
		t.note("app %s: delete %q", a.name, name)
		t.deleteJob(ctx, a, name)
	}
}

// deleteJob deletes a job. From then on the tables do not tell what its schedules owed.
func (t *torture) deleteJob(ctx context.Context, a *appUnder, name string) bool {
	return t.try(ctx, "delete", func(ctx context.Context) error {
		a.mu.Lock()
		a.passing = slices.DeleteFunc(a.passing, func(other string) bool { return other == name })
		a.mu.Unlock()
		return a.Delete(ctx, name)
	})
}

// enqueue asks for a few runs of a job, soon.
func (t *torture) enqueue(ctx context.Context, f fault) {
	a := t.anyApp(f)
	name := fmt.Sprintf("lasting %d", f.dice.IntN(jobsPerApp))
	n := 1 + f.dice.IntN(5)
	t.note("app %s: run %q %d times now", a.name, name, n)
	for range n {
		at := t.clock.atMost(time.Now()).Add(time.Duration(f.dice.Int64N(int64(5 * time.Second))))
		t.try(ctx, "enqueue", func(ctx context.Context) error {
			_, err := a.Enqueue(ctx, name, nil, qrtz.StartAt(at))
			return err
		})
	}
}

func (t *torture) cancelSome(ctx context.Context, f fault) {
	a := t.anyApp(f)
	t.note("app %s: cancel what runs now, by SQL", a.name)
	t.cancelRuns(ctx, 3, `APPLICATION = ? AND STATE = 'RUNNING'`, a.name)
}

// crowd has several hundred fires fall on the same instant.
func (t *torture) crowd(ctx context.Context, f fault) {
	a := t.anyApp(f)
	in := time.Duration(f.dice.Int64N(int64(8 * time.Second)))
	at := t.clock.atMost(time.Now()).Add(in)
	a.mu.Lock()
	a.declared++
	j := qrtz.Job{Name: fmt.Sprintf("crowd %d", a.declared), Class: "quick"}
	a.mu.Unlock()
	for k := range 200 + f.dice.IntN(400) {
		s := qrtz.At(at)
		s.Name = fmt.Sprint(k)
		j.Schedules = append(j.Schedules, s)
	}
	defer t.crowds.begin()()
	t.note("app %s: %d fires at the same instant, in %s", a.name, len(j.Schedules), short(in))
	t.try(ctx, "declare", func(ctx context.Context) error { return a.Declare(ctx, j) })
	t.wait(ctx, in+3*time.Second) // in which others may have to wait for a slot
}

// cleanHistory deletes what has succeeded in the second app some time ago, as `qrtz history clean` does, while everything
// continues.
func (t *torture) cleanHistory(ctx context.Context, _ fault) {
	a := t.apps[len(t.apps)-1]
	t.note("app %s: clean the history", a.name)
	t.judge.cleaned(a.name, t.clock.atMost(time.Now()).Add(operation-cleanOlder)) // what is deleted is as old as that when it is looked at
	t.try(ctx, "clean history", func(ctx context.Context) error {
		_, err := runs.Clean(ctx, schema.Tables{DB: sqlx.NewDb(t.db, "mysql"), Prefix: schema.DefaultPrefix}, runs.Cleaning{OlderThan: cleanOlder, App: a.name, State: runs.Succeeded})
		return err
	})
}
