package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz"
)

// The apps whose workers, lines and rows no fault touches: whatever is done to others, they continue as if nothing were wrong.

// allApps are those under torture and the calm ones.
func (t *torture) allApps() []*appUnder {
	return slices.Concat(t.apps, []*appUnder{t.calmApp}, t.exactApps)
}

// serverEnv is what the servers' environment is given, for faults that are planned.
func (t *torture) serverEnv() []string {
	for _, k := range kindsCalled(t.only) {
		if k.name == "step clock" {
			return t.clock.environment(filepath.Join(t.dir, "clock"))
		}
	}
	return nil
}

// addCalmApps adds app c.
func (t *torture) addCalmApps(ctx context.Context, dice *rand.Rand) error {
	var jobs []qrtz.Job
	for i := range 3 {
		j := qrtz.Job{Name: fmt.Sprintf("lasting %d", i), Class: "quick"}
		for k := range 3 {
			s := every(dice, 700*time.Millisecond, 2*time.Second, t.from)
			s.Name, s.End = fmt.Sprint(k), t.until
			j.Schedules = append(j.Schedules, s)
		}
		jobs = append(jobs, j)
	}
	queue := every(dice, 2*time.Second, 3*time.Second, t.from)
	queue.End = t.until
	jobs = append(jobs, qrtz.Job{
		Name: "lasting queue", Class: "exclusive", Schedules: []qrtz.Schedule{queue},
		Options: qrtz.Options{Overlap: qrtz.OverlapQueue, QueueLimit: 5, Recovery: true},
	})
	if err := t.addApp(ctx, "c", jobs); err != nil {
		return fmt.Errorf("app c: %w", err)
	}
	t.calmApp, t.apps = t.apps[len(t.apps)-1], t.apps[:len(t.apps)-1]
	return nil
}

// addCalmWorkers starts the workers of app c, one of which has a small pool of connections. Guests and twins are started by
// faults.
func (t *torture) addCalmWorkers() error {
	small := t.newProcess("c", "small", t.dsns[0], 64, 1)
	small.spec.Pool = 20
	t.calm = append(t.calm, small, t.newProcess("c", "large", t.dsns[len(t.dsns)-1], 64, 2))
	for _, app := range []string{"a", "b"} {
		t.guests = append(t.guests, t.newProcess(app, "guest", "", 16, 3))
	}
	for i, id := range []string{"one", "two"} {
		p := t.newProcess("c", id, t.dsns[i%len(t.dsns)], 16, uint64(4+i))
		p.spec.ID, p.spec.Namespace = "", true
		t.twins = append(t.twins, p)
	}
	for _, p := range t.calm {
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

// twoNamespaces starts two workers that have no id but the machine's address, each in a namespace of process ids of its own, as
// two containers that share the machine's network: neither sees the other's process.
func (t *torture) twoNamespaces(ctx context.Context, f fault) {
	if !canHaveNamespace() {
		t.note("two namespaces: they are not permitted here")
		return
	}
	if !t.twinning.take() {
		return
	}
	defer t.twinning.free()
	last := f.last + t.pace.nodeTimeout()
	t.note("two workers of one address join app c, in namespaces of their own, for %s", short(last))
	for _, p := range t.twins {
		if err := p.start(); err != nil { //nolint:contextcheck // a worker lives until it is stopped
			t.judge.blame("cannot start a worker: %v", err)
			return
		}
		t.wait(ctx, time.Duration(f.dice.Int64N(int64(time.Second))))
	}
	t.wait(ctx, last)
	for _, p := range t.twins {
		if err := p.stop(stopLimit + t.pace.config.DrainTimeout); err != nil {
			t.judge.blame("%v", err)
			p.kill()
		}
	}
	t.note("the two of one address have left")
}
