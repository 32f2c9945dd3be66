package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// The faults of processes, lines and servers. Each is over when it returns, and everything is as it was.

// onProcess does something to a worker that no other fault has.
func (t *torture) onProcess(f fault, do func(p *process)) {
	for _, i := range f.dice.Perm(len(t.processes)) {
		if p := t.processes[i]; p.take() {
			defer p.free()
			do(p)
			return
		}
	}
	t.note("%s: every worker is in trouble already", f.kind.name)
}

func (t *torture) kill(ctx context.Context, f fault) {
	t.onProcess(f, func(p *process) {
		t.note("SIGKILL %s-%s, back in %s", p.app, p.id, short(f.last))
		p.kill()
		end := p.absent.begin()
		t.wait(ctx, f.last)
		end()
		t.comeBack(p) //nolint:contextcheck // a worker lives until it is stopped
	})
}

func (t *torture) comeBack(p *process) {
	t.note("%s-%s is started again", p.app, p.id)
	if err := p.start(); err != nil {
		t.judge.blame("cannot start a worker: %v", err)
	}
}

func (t *torture) freeze(ctx context.Context, f fault) {
	t.onProcess(f, func(p *process) {
		t.note("SIGSTOP %s-%s for %s", p.app, p.id, short(f.last))
		p.freeze()
		end := p.absent.begin()
		t.wait(ctx, f.last)
		end()
		p.thaw()
		t.note("SIGCONT %s-%s", p.app, p.id)
	})
}

func (t *torture) restart(ctx context.Context, f fault) {
	t.onProcess(f, func(p *process) { t.restartProcess(ctx, p, f.last) })
}

func (t *torture) restartProcess(ctx context.Context, p *process, away time.Duration) {
	t.note("SIGTERM %s-%s, back after %s", p.app, p.id, short(away))
	if err := p.stop(stopLimit + t.pace.config.DrainTimeout); err != nil {
		t.judge.blame("%v", err)
		p.kill()
	}
	t.wait(ctx, away)
	t.comeBack(p) //nolint:contextcheck // a worker lives until it is stopped
}

// upgrade is a rolling one: the schema first, as the next release would, then one process after the other.
func (t *torture) upgrade(ctx context.Context, _ fault) {
	t.note("rolling upgrade: columns and an index of the next release, then every worker in turn")
	for _, ddl := range []string{
		`ALTER TABLE QRTZ_EXECUTE ADD COLUMN NEXT_RELEASE INT NULL`,
		`ALTER TABLE QRTZ_RUN ADD COLUMN NEXT_RELEASE VARCHAR(20) NOT NULL DEFAULT 'x'`,
		`ALTER TABLE QRTZ_NODE ADD COLUMN NEXT_RELEASE INT NULL`,
		`ALTER TABLE QRTZ_RUN ADD KEY QRTZ_RUN_NEXT_RELEASE (STATE, FIRE_TIME)`,
		`INSERT INTO QRTZ_SCHEMA (VERSION, NAME) VALUES (1000, 'next release')`,
	} {
		if err := t.change(ctx, ddl); err != nil {
			t.note("not upgraded: %v", err)
			return
		}
	}
	for _, p := range t.processes {
		if p.take() {
			t.restartProcess(ctx, p, 0)
			p.free()
		}
	}
}

// change changes a table while no transaction is left open: it would wait for that, and everything else for it.
func (t *torture) change(ctx context.Context, ddl string) error {
	t.tables.Lock()
	defer t.tables.Unlock()
	defer t.changing.begin()()
	return t.insist(ctx, ddl)
}

// insist tries a statement again while there is no server to take it.
func (t *torture) insist(ctx context.Context, query string, args ...any) error {
	return t.persist(ctx, func(ctx context.Context) error {
		_, err := t.db.ExecContext(ctx, query, args...)
		return err
	})
}

// persist tries something again while there is no server, for a minute and a half at least.
func (t *torture) persist(ctx context.Context, do func(ctx context.Context) error) (err error) {
	for range 100 {
		try, cancel := context.WithTimeout(ctx, 30*time.Second)
		err = do(try)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		t.wait(ctx, time.Second+rand.N(200*time.Millisecond))
	}
	return err
}

// onLine does something to a line that no other fault has.
func (t *torture) onLine(f fault, do func(l *line, p *process)) {
	for _, i := range f.dice.Perm(len(t.lines)) {
		if l := t.lines[i]; l.take() {
			defer l.free()
			do(l, t.processes[i])
			return
		}
	}
	t.note("%s: every line is disturbed already", f.kind.name)
}

// onWell reserves a worker of whom, and of whose app's others, nothing is wrong, and its line.
func (t *torture) onWell(f fault, do func(l *line, p *process)) {
	now := time.Now()
	for _, i := range f.dice.Perm(len(t.lines)) {
		l, p := t.lines[i], t.processes[i]
		alone := slices.ContainsFunc(t.processesOf(p.app), func(other *process) bool { return !t.well(other, now, now) })
		if alone || !l.reserve() {
			continue
		}
		defer l.free()
		if p.reserve() {
			defer p.free()
			do(l, p)
			return
		}
	}
	t.note("%s: there is no worker without trouble", f.kind.name)
}

// cut ends all connections of a worker and refuses new ones.
func (t *torture) cut(ctx context.Context, f fault) {
	t.onLine(f, func(l *line, p *process) {
		t.note("%s-%s is cut off from the database for %s", p.app, p.id, short(f.last))
		l.cut()
		end := p.absent.begin()
		t.wait(ctx, f.last)
		end()
		if err := l.join(); err != nil {
			t.judge.blame("proxy: %v", err)
		}
		t.note("%s-%s reaches the database again", p.app, p.id)
	})
}

// tear ends connections in the middle of whatever is on its way, so that a COMMIT may or may not have been heard, and
// its answer not.
func (t *torture) tear(ctx context.Context, f fault) {
	direction := pick(f.dice, "upstream", "downstream")
	t.poison(ctx, f, fmt.Sprintf("its connections break in the middle, %s", direction),
		toxic{"tear", "limit_data", direction, map[string]int{"bytes": 1 + f.dice.IntN(20000)}})
}

// loseCommits ends connections at a COMMIT: before the server has it, or before its answer is here.
func (t *torture) loseCommits(ctx context.Context, f fault) {
	passed, what := f.dice.IntN(2), "lost"
	if passed == 1 {
		what = "passed on and not answered"
	}
	t.poison(ctx, f, "COMMITs are "+what, toxic{"commit", lostCommitType, "upstream", map[string]int{"passed": passed, "oneIn": 1 + f.dice.IntN(10)}})
}

// slowReads has the answers of polls come late, beside COMMITs without an answer: what is claimed has been read long ago, and
// what it claims is in doubt.
func (t *torture) slowReads(ctx context.Context, f fault) {
	t.poison(ctx, f, "polls are answered late, and COMMITs are not answered",
		toxic{"reads", slowReadsType, "downstream", map[string]int{"latency": 700, "jitter": 700, "columns": wideQuery}},
		toxic{"commit", lostCommitType, "upstream", map[string]int{"passed": 1, "oneIn": 3}})
}

func (t *torture) delay(ctx context.Context, f fault) {
	direction := pick(f.dice, "upstream", "downstream")
	latency := 1 + f.dice.IntN(500)
	t.poison(ctx, f, fmt.Sprintf("%d ms of delay %s", latency, direction),
		toxic{"delay", "latency", direction, map[string]int{"latency": latency, "jitter": latency / 2}})
}

// deadLine swallows what is sent: neither side learns that the connection is gone.
func (t *torture) deadLine(ctx context.Context, f fault) {
	direction := pick(f.dice, "upstream", "downstream")
	t.poison(ctx, f, "its line is dead "+direction, toxic{"dead", "timeout", direction, map[string]int{"timeout": 0}})
}

func (t *torture) poison(ctx context.Context, f fault, what string, toxics ...toxic) {
	t.onLine(f, func(l *line, p *process) {
		t.note("%s-%s: %s for %s", p.app, p.id, what, short(f.last))
		defer t.poisonLine(ctx, l, toxics...)()
		t.wait(ctx, f.last)
		t.note("%s-%s: its line is good again", p.app, p.id)
	})
}

// poisonLine does things to a line until the function it returns is called.
func (t *torture) poisonLine(ctx context.Context, l *line, toxics ...toxic) (heal func()) {
	for _, x := range toxics {
		if err := l.poison(x); err != nil {
			t.judge.blame("proxy: %v", err)
		}
	}
	return func() {
		for _, x := range toxics {
			if err := l.heal(context.WithoutCancel(ctx), x); err != nil {
				t.judge.blame("proxy: %v", err)
			}
		}
	}
}

// killServer kills a database server, and starts it again. Only one is away at a time.
func (t *torture) killServer(ctx context.Context, f fault) {
	if !t.serverDown.take() {
		t.note("kill server: one is down already")
		return
	}
	defer t.serverDown.free()
	i := f.dice.IntN(t.servers.Nodes())
	t.note("SIGKILL database server %d for %s", i+1, short(f.last))
	t.setDown(i, true)
	t.servers.Kill(i)
	t.moveLines(ctx, f, i)
	t.wait(ctx, f.last)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	if err := t.servers.Rejoin(ctx, i); err != nil {
		t.judge.blame("start server %d again: %v", i+1, err)
		return
	}
	t.setDown(i, false)
	t.note("database server %d is back", i+1)
}

// moveLines leads the lines to a dead server elsewhere, if there is an elsewhere, as a load balancer would, after a while.
func (t *torture) moveLines(ctx context.Context, f fault, dead int) {
	if t.servers.Nodes() == 1 {
		return
	}
	t.wait(ctx, time.Duration(f.dice.Int64N(int64(2*time.Second))))
	from, err := address(t.dsns[dead])
	if err != nil {
		t.judge.blame("%v", err)
		return
	}
	to, err := address(t.dsns[(dead+1+f.dice.IntN(t.servers.Nodes()-1))%t.servers.Nodes()])
	if err != nil {
		t.judge.blame("%v", err)
		return
	}
	for _, l := range t.lines {
		if l.take() {
			if l.proxy.Upstream == from {
				if err := l.lead(to); err != nil {
					t.judge.blame("proxy: %v", err)
				}
			}
			l.free()
		}
	}
}

// wait lets time pass, unless all is over: what is tested is what happens meanwhile.
func (t *torture) wait(ctx context.Context, d time.Duration) { sleepUntil(ctx, time.Now().Add(d)) }

func short(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }
