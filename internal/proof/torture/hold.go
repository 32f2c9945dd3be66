package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The faults that hold locks: a transaction that is left open.

// lock is what an open transaction of an operator holds.
type lock struct {
	span     *spans
	what     string
	executes []int64 // rows, or rows of the job
	app      string  // its row
	all      bool    // the rows of all nodes
}

// locks are those that are or were held.
type locks struct {
	mu  sync.Mutex
	all []*lock
}

func (l *locks) add(one *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, one)
}

// onExecute tells whether an execute had to wait at some time between two, by its own row, its job's or the switches'.
func (l *locks) onExecute(app string, id int64, from, until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(one *lock) bool {
		return (one.all || one.app == app || slices.Contains(one.executes, id)) && one.span.touch(from, until)
	})
}

// any tells whether a fault held any row at some time between two.
func (l *locks) any(from, until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(one *lock) bool { return one.span.touch(from, until) })
}

// onSwitches tells whether a fault held the row of an app, or those of the nodes, at some time between two.
func (l *locks) onSwitches(app string, from, until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(one *lock) bool { return (one.all || one.app == app) && one.span.touch(from, until) })
}

// onNodes tells whether a fault held the rows of all nodes.
func (l *locks) onNodes(from, until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(one *lock) bool { return one.all && one.span.touch(from, until) })
}

// opening is a statement that an operator leaves without a COMMIT.
type opening struct {
	what  string
	query string
	// ids finds the row that it is about; empty if it is about none by id.
	ids      string
	app, all bool
}

var openings = []opening{
	{
		what: "a row of QRTZ_EXECUTE", query: `UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE ID = ?`,
		ids: `SELECT E.ID FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID WHERE J.APPLICATION = ? AND J.NAME LIKE 'lasting%' AND E.STATE = 'EXECUTING'`,
	},
	{what: "the row of QRTZ_APP", query: `UPDATE QRTZ_APP SET STATE = 'N' WHERE APPLICATION = ?`, app: true},
	{what: "all rows of QRTZ_NODE, by a scan", query: `UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_NAME = 'elsewhere'`, all: true},
	{
		what: "a RUNNING row of QRTZ_RUN", query: `UPDATE QRTZ_RUN SET CANCEL_AT = 1 WHERE ID = ?`,
		ids: `SELECT ID FROM QRTZ_RUN WHERE APPLICATION = ? AND STATE = 'RUNNING'`,
	},
	{
		what: "a PENDING row of QRTZ_RUN", query: `UPDATE QRTZ_RUN SET CANCEL_AT = 1 WHERE ID = ?`,
		ids: `SELECT ID FROM QRTZ_RUN WHERE APPLICATION = ? AND STATE = 'PENDING'`,
	},
	{
		what: "a row of QRTZ_JOB", query: `UPDATE QRTZ_JOB SET JOB_DESCRIPTION = 'open' WHERE ID = ?`,
		ids: `SELECT ID FROM QRTZ_JOB WHERE APPLICATION = ? AND NAME LIKE 'lasting%'`,
	},
}

// openTransaction changes rows of a table and neither commits nor rolls back for longer than a node takes to be declared dead.
func (t *torture) openTransaction(ctx context.Context, f fault) {
	a, o := t.anyApp(f), openings[f.dice.IntN(len(openings))]
	if o.app || o.all {
		if !t.wide.take() {
			o = openings[0] // what holds up everything leaves time for what must not
		} else {
			defer t.wide.free()
			defer t.wait(ctx, f.last) // after the tables are free again
		}
	}
	one := &lock{span: &spans{}, what: o.what, all: o.all}
	var args []any
	if o.app {
		one.app, args = a.name, []any{a.name}
	}
	if o.ids != "" {
		id := t.anyID(ctx, f, o.ids, a.name)
		if id == 0 {
			t.note("open transaction: there is no such row: %s", o.what)
			return
		}
		args = []any{id}
		if one.executes = []int64{id}; o.what == "a row of QRTZ_JOB" {
			_ = t.judge.db.SelectContext(ctx, &one.executes, `SELECT ID FROM QRTZ_EXECUTE WHERE PID = ?`, id) // if not, the next check says so
		}
		if o.what == "a RUNNING row of QRTZ_RUN" || o.what == "a PENDING row of QRTZ_RUN" {
			one.executes = nil
		}
	}
	last := max(f.last, t.pace.nodeTimeout()*13/10)
	t.tables.RLock()
	defer t.tables.RUnlock()
	t.try(ctx, "open transaction", func(ctx context.Context) error { return t.leaveOpen(ctx, one, last, o.query, args...) })
}

// leaveOpen holds a lock for a while. ctx bounds the statements, not the while.
func (t *torture) leaveOpen(ctx context.Context, one *lock, last time.Duration, query string, args ...any) error {
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	end := one.span.begin()
	defer end()
	t.locks.add(one)
	if _, err := conn.ExecContext(ctx, `BEGIN`); err != nil {
		return err
	}
	result, err := conn.ExecContext(ctx, query, args...)
	if err == nil {
		n, _ := result.RowsAffected()
		t.note("an operator leaves a transaction open for %s: %s (%v, %d rows)", short(last), one.what, args, n)
		t.wait(context.WithoutCancel(ctx), last)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), operation)
	defer cancel()
	_, back := conn.ExecContext(late, `ROLLBACK`)
	if err == nil {
		t.note("the operator rolls back: %s", one.what)
		err = back
	}
	return err
}

// anyID picks one of the ids that a query finds for an app; 0 if there is none.
func (t *torture) anyID(ctx context.Context, f fault, query, app string) (id int64) {
	t.try(ctx, "find a row", func(ctx context.Context) error {
		err := t.db.QueryRowContext(ctx, `SELECT ID FROM (`+query+`) X ORDER BY MOD(ID * 7919, ?) LIMIT 1`, app, 11+f.dice.IntN(1000)).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return id
}

// inside is what a worker is in the middle of when it is stopped.
var inside = [][]string{
	{"UPDATE QRTZ_EXECUTE"}, {"UPDATE QRTZ_EXECUTE"}, {"UPDATE QRTZ_EXECUTE"}, {"INSERT INTO QRTZ_RUN"}, {"UPDATE QRTZ_RUN"}, {"UPDATE QRTZ_APP"},
}

var howText = [ambushes]string{"while the server carries it out", "when half of it is on its way", "when a statement in its middle has waited too long for a lock"}

// catchInside waits until a worker of whom nothing else is wrong is in the middle of a transaction, and does something to it.
func (t *torture) catchInside(ctx context.Context, f fault, do func(l *line, p *process, where string, last time.Duration)) {
	t.onWell(f, func(l *line, p *process) {
		marks, how := pick(f.dice, inside...), f.dice.IntN(ambushes)
		id, v := lieInWait(marks...)
		defer waiting.Delete(id)
		defer t.poisonLine(ctx, l, toxic{"ambush", ambushType, "upstream", map[string]int{"id": int(id), "how": how}})()
		timer := time.NewTimer(t.pace.nodeTimeout())
		defer timer.Stop()
		select {
		case <-v.sprung:
			l.strike()
			p.strike()
			do(l, p, fmt.Sprintf("inside %s, %s", marks[0], howText[how]), max(f.last, t.pace.nodeTimeout()*13/10))
		case <-timer.C:
			t.note("%s: %s-%s did not say %s", f.kind.name, p.app, p.id, marks[0])
		case <-ctx.Done():
		}
	})
}

// freezeInside stops a worker in the middle of a transaction.
func (t *torture) freezeInside(ctx context.Context, f fault) {
	t.catchInside(ctx, f, func(_ *line, p *process, where string, last time.Duration) {
		p.freeze()
		end := p.absent.begin()
		t.note("SIGSTOP %s-%s %s, for %s", p.app, p.id, where, short(last))
		t.wait(ctx, last)
		end()
		p.thaw()
		t.note("SIGCONT %s-%s", p.app, p.id)
	})
}

// deadInside swallows everything that a worker and its server tell each other from the middle of a transaction on.
func (t *torture) deadInside(ctx context.Context, f fault) {
	t.catchInside(ctx, f, func(l *line, p *process, where string, last time.Duration) {
		heal := t.poisonLine(ctx, l, toxic{"deadUp", "timeout", "upstream", map[string]int{"timeout": 0}},
			toxic{"deadDown", "timeout", "downstream", map[string]int{"timeout": 0}})
		end := p.absent.begin()
		t.note("%s-%s: its line is dead %s, for %s", p.app, p.id, where, short(last))
		t.wait(ctx, last)
		end()
		heal()
		t.note("%s-%s: its line is good again", p.app, p.id)
	})
}
