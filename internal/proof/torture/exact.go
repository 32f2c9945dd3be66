package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/qrtz-go/qrtz"
)

// The apps whose rules are judged exactly. No fault touches their lines and rows but those of the server; what is done to their
// nodes is done in turn: they drain, for longer than a node takes to be declared dead, they are all away for longer than
// a fire may be late, schedules are paused and resumed, runs are cancelled, and one run is killed again and again.

// The apps, and the nodes of each.
const (
	exactApp   = "d" // nodes one and two drain and are away
	unluckyApp = "e" // node only is killed whenever it carries out the unlucky run
)

// addExactWorkers starts the workers of the exact apps.
func (t *torture) addExactWorkers() error {
	for i, id := range []string{"one", "two", "only"} {
		app := exactApp
		if id == "only" {
			app = unluckyApp
		}
		p := t.newProcess(app, id, t.dsns[i%len(t.dsns)], 48, uint64(20+i))
		p.spec.Drain = t.pace.longDrain()
		t.exact = append(t.exact, p)
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

// longDrain is a DrainTimeout that exceeds NodeTimeout.
func (p pace) longDrain() time.Duration { return 2 * p.nodeTimeout() }

// addExactApps declares the jobs of the exact apps.
func (t *torture) addExactApps(ctx context.Context) error {
	apps := len(t.apps)
	if err := t.addApp(ctx, exactApp, t.exactJobs()); err != nil {
		return fmt.Errorf("app %s: %w", exactApp, err)
	}
	unlucky := qrtz.Job{Name: unlucky, Options: qrtz.Options{Recovery: true, Attempts: 2, Backoff: time.Second}}
	if err := t.addApp(ctx, unluckyApp, []qrtz.Job{unlucky}); err != nil {
		return fmt.Errorf("app %s: %w", unluckyApp, err)
	}
	t.exactApps, t.apps = t.apps[apps:], t.apps[:apps:apps]
	return nil
}

// exactProcess is a worker of app d.
func (t *torture) exactProcess(i int) *process { return t.exact[i] }

// beExact does to the exact apps what is done to them, until the schedules end.
func (t *torture) beExact(ctx context.Context) {
	t.faults.Go(func() {
		for ctx.Err() == nil && t.hasTimeFor(t.pace.longDrain()) {
			t.drainOne(ctx, 0)
			t.goAway(ctx)
			t.drainOne(ctx, 1)
		}
	})
	t.faults.Go(func() { t.pauseAndResume(ctx) })
	t.faults.Go(func() { t.endLater(ctx) })
	t.faults.Go(func() { t.cancelExactly(ctx) })
	t.faults.Go(func() { t.beUnlucky(ctx) })
}

// hasTimeFor tells whether something that takes a while is over before the schedules end.
func (t *torture) hasTimeFor(d time.Duration) bool {
	return time.Now().Add(d + time.Second).Before(t.until)
}

// drainOne stops a node of app d in order while runs go that take longer than a node takes to be declared dead. Its heartbeats
// must continue, and requests to cancel be heard.
func (t *torture) drainOne(ctx context.Context, i int) {
	if !t.hasTimeFor(t.pace.longDrain()) || !sleepUntil(ctx, later(t.from, time.Now()).Add(t.pace.nodeTimeout())) {
		return
	}
	p := t.exactProcess(i)
	t.note("%s-%s drains, for up to %s", p.app, p.id, short(p.spec.Drain))
	draining, stopped := context.WithCancel(ctx)
	defer stopped()
	t.faults.Go(func() { t.watchHeartbeat(draining, p) })
	t.faults.Go(func() {
		t.wait(draining, time.Second)
		t.cancelRuns(draining, 2, `APPLICATION = ? AND HOST_IP = ? AND STATE = 'RUNNING'`, p.app, p.id)
	})
	p.away.Store(true)
	defer p.away.Store(false)
	if err := p.stop(stopLimit + p.spec.Drain); err != nil {
		t.judge.blame("%v", err)
		p.kill()
	}
	stopped()
	t.comeBack(p) //nolint:contextcheck // a worker lives until it is stopped
}

// watchHeartbeat blames a node whose heartbeat stands still for two thirds of NodeTimeout while it drains.
func (t *torture) watchHeartbeat(ctx context.Context, p *process) {
	var last int64
	since := time.Now()
	for sleepUntil(ctx, time.Now().Add(300*time.Millisecond)) {
		var beats int64
		err := t.db.QueryRowContext(ctx, `SELECT H.BEATS FROM QRTZ_HEARTBEAT H JOIN QRTZ_NODE N ON N.INSTANCE = H.INSTANCE WHERE N.APPLICATION = ? AND N.HOST_IP = ?`,
			p.app, p.id).Scan(&beats)
		now := time.Now()
		if err == nil && beats != last || t.serverDown.touch(since, now) {
			last, since = beats, now
			continue
		}
		if still := now.Sub(since) - t.stalls.within(since, now); still > t.pace.nodeTimeout()*2/3 && ctx.Err() == nil {
			t.judge.blameFor("no heartbeat", "%s-%s drains, and its heartbeat has stood still for %s (%v)", p.app, p.id, short(now.Sub(since)), err)
			return
		}
	}
}

// goAway kills the nodes of app d, and starts them again when their fires are misfires.
func (t *torture) goAway(ctx context.Context) {
	away := t.pace.misfireAfter() + 3*time.Second
	if !t.hasTimeFor(away) {
		return
	}
	t.note("all of app %s are away for %s", exactApp, short(away))
	for _, p := range t.exact[:2] {
		p.away.Store(true)
		p.kill()
	}
	t.wait(ctx, away)
	for _, p := range t.exact[:2] {
		t.comeBack(p) //nolint:contextcheck // a worker lives until it is stopped
		p.away.Store(false)
	}
	t.wait(ctx, 2*t.pace.misfireInterval())
}

// rest is a pause of a schedule: between from and until, by the database's clock, none of its fires is due.
type rest struct {
	job         string
	from, until time.Time
}

// pauseAndResume pauses schedules for a while, over and over.
func (t *torture) pauseAndResume(ctx context.Context) {
	a := t.exactApps[0]
	sleepUntil(ctx, t.from)
	for n := 0; t.hasTimeFor(5*time.Second) && sleepUntil(ctx, time.Now().Add(time.Duration(1500+rand.IntN(2000))*time.Millisecond)); n++ {
		name := restingJobs[n%len(restingJobs)]
		if !t.try(ctx, "pause", func(ctx context.Context) error { return a.Pause(ctx, name, "") }) {
			continue
		}
		r := rest{job: name, from: t.databaseTime(ctx)}
		t.wait(ctx, time.Duration(500+rand.IntN(3000))*time.Millisecond)
		r.until = t.databaseTime(ctx)
		if !r.from.IsZero() && !r.until.IsZero() {
			t.judge.watched.addRest(r)
		}
		if err := t.persist(ctx, func(ctx context.Context) error { return a.Resume(ctx, name, "") }); err != nil && ctx.Err() == nil {
			t.judge.blame("resume: %v", err)
		}
	}
}

// endLater declares a job over and over, each time with a later end of its schedule, which the row must then have.
func (t *torture) endLater(ctx context.Context) {
	a := t.exactApps[0]
	const name = "resting until its end"
	for end := t.from.Add(3 * time.Second); end.Before(t.until) && sleepUntil(ctx, end.Add(-2*time.Second)); end = later(end, time.Now()).Add(4 * time.Second) {
		end = end.Truncate(time.Second)
		s := qrtz.Every(700*time.Millisecond, qrtz.Starting(t.from.Truncate(time.Second)), qrtz.Ending(end))
		if !t.try(ctx, "declare", func(ctx context.Context) error {
			return a.Declare(ctx, qrtz.Job{Name: name, Class: "quick", Schedules: []qrtz.Schedule{s}})
		}) {
			continue
		}
		var stored int64
		err := t.db.QueryRowContext(ctx, `SELECT E.END_TIME FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID WHERE J.APPLICATION = ? AND J.NAME = ?`, a.name, name).Scan(&stored)
		if err == nil && stored != end.UnixMilli() {
			t.judge.blameFor("end", "%q was declared to end at %s, and ends at %s", name, clock(end), clock(time.UnixMilli(stored)))
		}
	}
}

// cancelExactly cancels a long run now and then, and a pending one.
func (t *torture) cancelExactly(ctx context.Context) {
	a := t.exactApps[0]
	sleepUntil(ctx, t.from)
	for t.hasTimeFor(5*time.Second) && sleepUntil(ctx, time.Now().Add(2*time.Second)) {
		t.cancelRuns(ctx, 1, `APPLICATION = ? AND STATE = 'RUNNING' AND JOB_ID IN (SELECT ID FROM QRTZ_JOB WHERE JOB_CLASS IN (?, ?))`, a.name, enduring, telling)
		at := t.clock.atMost(time.Now()).Add(2 * time.Second)
		t.try(ctx, "enqueue", func(ctx context.Context) error {
			_, err := a.Enqueue(ctx, "resting until it is asked", nil, qrtz.StartAt(at))
			return err
		})
		t.cancelRuns(ctx, 1, `APPLICATION = ? AND STATE = 'PENDING' AND EXECUTE_ID IS NULL`, a.name)
	}
}

// cancelRuns asks by SQL for some runs to be cancelled, and keeps for the judge which and when.
func (t *torture) cancelRuns(ctx context.Context, most int, where string, args ...any) {
	var ids []int64
	t.try(ctx, "cancel", func(ctx context.Context) error {
		return t.judge.db.SelectContext(ctx, &ids, `SELECT ID FROM QRTZ_RUN WHERE CANCEL_AT IS NULL AND `+where+fmt.Sprintf(` ORDER BY ID LIMIT %d`, most), args...)
	})
	for _, id := range ids {
		asked := time.Now()
		if t.exec(ctx, `UPDATE QRTZ_RUN SET CANCEL_AT = 1 WHERE ID = ? AND STATE IN ('PENDING', 'RUNNING')`, id) {
			t.judge.watched.addCancel(cancel{run: id, asked: asked, at: time.Now()})
		}
	}
}

// beUnlucky asks for a run that is killed, with its node, whenever it goes, until it is recovered no more.
func (t *torture) beUnlucky(ctx context.Context) {
	a, p := t.exactApps[1], t.exact[2]
	sleepUntil(ctx, t.from)
	for ctx.Err() == nil && t.hasTimeFor(3*time.Second) {
		if !t.try(ctx, "enqueue", func(ctx context.Context) error {
			_, err := a.Enqueue(ctx, unlucky, nil)
			return err
		}) {
			t.wait(ctx, time.Second)
			continue
		}
		for kills := 0; t.hasTimeFor(time.Second); {
			var running, live int
			err := t.db.QueryRowContext(ctx, `SELECT COALESCE(SUM(STATE = 'RUNNING' AND STARTED_AT IS NOT NULL), 0), COUNT(*) FROM QRTZ_RUN WHERE APPLICATION = ? AND STATE IN ('PENDING', 'RUNNING')`,
				a.name).Scan(&running, &live)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
			case live == 0:
				t.note("%s: killed %d times, and no more", unlucky, kills)
				t.wait(ctx, t.pace.nodeTimeout())
			case running > 0:
				kills++
				p.away.Store(true)
				p.kill()
				t.comeBack(p) //nolint:contextcheck // a worker lives until it is stopped
				p.away.Store(false)
			}
			if err == nil && live == 0 || !sleepUntil(ctx, time.Now().Add(700*time.Millisecond)) {
				break
			}
		}
	}
}
