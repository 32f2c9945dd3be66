package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz"
)

// The faults of rows: what is in them makes no sense, or cannot be written into them.

// poisons are the executes of which nothing can be said.
type poisons struct {
	mu  sync.Mutex
	ids []int64
}

func (p *poisons) add(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids = append(p.ids, id)
}

func (p *poisons) has(id int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.ids, id)
}

// poisonPrefix begins the names of jobs whose rows are poisoned.
const poisonPrefix = "poison"

// dropConstraintsSQL lists the constraints that would refuse poison.
const dropConstraintsSQL = `
SELECT TABLE_NAME, CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS
 WHERE TABLE_SCHEMA = DATABASE() AND CONSTRAINT_TYPE = 'CHECK' AND TABLE_NAME LIKE 'QRTZ\\_%'`

// prepareTables drops the constraints that would refuse poison, and adds one that refuses a message.
func (t *torture) prepareTables(ctx context.Context) error {
	rows, err := t.db.QueryContext(ctx, dropConstraintsSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	var ddl []string
	for rows.Next() {
		var table, name string
		if err := rows.Scan(&table, &name); err != nil {
			return err
		}
		ddl = append(ddl, fmt.Sprintf("ALTER TABLE `%s` DROP CONSTRAINT `%s`", table, name))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	ddl = append(ddl,
		`ALTER TABLE QRTZ_RUN MODIFY MESSAGE TEXT CHARACTER SET utf8mb3 NULL`, // a crab has four bytes
		`ALTER TABLE QRTZ_RUN ADD CONSTRAINT TORTURE_MESSAGE CHECK (MESSAGE NOT LIKE '%`+refusedMessage+`%')`)
	for _, statement := range ddl {
		if _, err := t.db.ExecContext(ctx, statement); err != nil {
			t.note("%s: %v", statement, err) // a constraint of a column, for example
		}
	}
	return nil
}

// columnsSQL lists the columns that a number can be put into. Those that identify a row are left alone.
const columnsSQL = `
SELECT COLUMN_NAME, DATA_TYPE, IS_NULLABLE = 'YES' FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND DATA_TYPE IN ('tinyint', 'smallint', 'int', 'bigint')
   AND EXTRA NOT LIKE '%GENERATED%' AND COLUMN_NAME NOT IN ('ID', 'PID', 'JOB_ID', 'EXECUTE_ID', 'OVERLAP_KEY', 'NEXT_RELEASE') ORDER BY COLUMN_NAME`

var limits = map[string][2]string{
	"tinyint": {"-128", "127"}, "smallint": {"-32768", "32767"}, "int": {"-2147483648", "2147483647"},
	"bigint": {"-9223372036854775808", "9223372036854775807"},
}

// poisonRow adds a job with a schedule, a run or a node of its own, puts nonsense into a column or two, and removes them after a
// while.
func (t *torture) poisonRow(ctx context.Context, f fault) {
	a := t.anyApp(f)
	a.mu.Lock()
	a.declared++
	name := fmt.Sprintf("%s %d", poisonPrefix, a.declared)
	a.mu.Unlock()
	s := qrtz.Every(time.Second)
	s.Start, s.End = t.clock.atMost(time.Now()).Add(-5*time.Second), t.until
	if !t.try(ctx, "declare", func(ctx context.Context) error {
		return a.Declare(ctx, qrtz.Job{Name: name, Class: "quick", Schedules: []qrtz.Schedule{s}})
	}) {
		return
	}
	job := t.anyID(ctx, f, `SELECT ID FROM QRTZ_JOB WHERE NAME = '`+name+`' AND APPLICATION = ?`, a.name)
	execute := t.anyID(ctx, f, fmt.Sprintf(`SELECT ID FROM QRTZ_EXECUTE WHERE PID = %d AND APPLICATION = ?`, job), a.name)
	t.poisons.add(execute)
	defer t.removePoison(context.WithoutCancel(ctx), a, name, job)
	table := pick(f.dice, "QRTZ_EXECUTE", "QRTZ_EXECUTE", "QRTZ_RUN", "QRTZ_RUN", "QRTZ_NODE", "QRTZ_JOB")
	where := fmt.Sprintf(`ID = %d`, job)
	switch table {
	case "QRTZ_EXECUTE":
		where = fmt.Sprintf(`ID = %d`, execute)
	case "QRTZ_RUN":
		where = fmt.Sprintf(`JOB_ID = %d`, job)
		state := pick(f.dice, "PENDING", "PENDING", "RUNNING")
		t.exec(ctx, `INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, ATTEMPT, STATE, AVAILABLE_AT, MESSAGE) VALUES (?, ?, ?, 1, 1, ?, 0, 'poison')`,
			a.name, job, execute, state)
	case "QRTZ_NODE":
		where = `HOST_IP = '` + name + `'`
		t.exec(ctx, `INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE, HEARTBEAT_AT, HANDLERS) VALUES (?, ?, 'poison', 'N', 0, ?, ?, '["poison"]')`,
			a.name, name, 1+f.dice.Int64N(1<<40), time.Now().UnixMilli())
		defer func() { t.exec(context.WithoutCancel(ctx), `DELETE FROM QRTZ_NODE WHERE HOST_IP = ?`, name) }()
	}
	for range 1 + f.dice.IntN(3) {
		t.poisonColumn(ctx, f, table, where)
	}
	t.wait(ctx, max(f.last, 5*time.Second))
}

func (t *torture) poisonColumn(ctx context.Context, f fault, table, where string) {
	type column struct {
		name, kind string
		null       bool
	}
	var columns []column
	t.try(ctx, "columns", func(ctx context.Context) error {
		rows, err := t.db.QueryContext(ctx, columnsSQL, table)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var c column
			if err := rows.Scan(&c.name, &c.kind, &c.null); err != nil {
				return err
			}
			columns = append(columns, c)
		}
		return rows.Err()
	})
	if len(columns) == 0 {
		return
	}
	c := pick(f.dice, columns...)
	least, most := limits[c.kind][0], limits[c.kind][1]
	values := []string{most, most, most, least, least, "0", "-1"}
	if c.name != "REPEAT_INTERVAL" { // a thousand fires a second are a load, not nonsense
		values = append(values, "1", "2")
	}
	if c.null {
		values = append(values, "NULL")
	}
	if c.kind == "bigint" {
		values = append(values, fmt.Sprint(time.Now().Unix())) // seconds
	}
	value := pick(f.dice, values...)
	t.note("poison: %s.%s = %s where %s", table, c.name, value, where)
	t.exec(ctx, fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s", table, c.name, value, where))
}

// removePoison deletes what was poisoned, as an operator would.
func (t *torture) removePoison(ctx context.Context, a *appUnder, name string, job int64) {
	for range 5 {
		if t.removePoisoned(ctx, job) {
			t.note("app %s: %q is removed", a.name, name)
			return
		}
		t.wait(ctx, 2*time.Second)
	}
}

// removePoisoned deletes a job with all its rows, the job last: as long as it is there, the end of the torture tries again.
func (t *torture) removePoisoned(ctx context.Context, job int64) bool {
	return t.exec(ctx, `DELETE FROM QRTZ_EXECUTE WHERE PID = ?`, job) && t.exec(ctx, `DELETE FROM QRTZ_RUN WHERE JOB_ID = ?`, job) &&
		t.exec(ctx, `DELETE FROM QRTZ_JOB WHERE ID = ?`, job)
}

// refuseResults has some runs end with a message that the table refuses.
func (t *torture) refuseResults(ctx context.Context, f fault) {
	t.declareCrowd(ctx, f, t.anyApp(f), "refused", 5+f.dice.IntN(10), 3*time.Second)
}

// holdConnections has handlers take more connections of a small pool than it has, in transactions, for longer than a node takes
// to be declared dead.
func (t *torture) holdConnections(ctx context.Context, f fault) {
	if !t.calmApp.change.take() {
		return // its slots are for one crowd at a time
	}
	defer t.calmApp.change.free()
	t.declareCrowd(ctx, f, t.calmApp, "holding", 60, time.Second)
	t.wait(ctx, 2*time.Second+2*t.pace.nodeTimeout())
}

// declareCrowd adds a job that fires n times within a while.
func (t *torture) declareCrowd(ctx context.Context, f fault, a *appUnder, class string, n int, within time.Duration) {
	a.mu.Lock()
	a.declared++
	j := qrtz.Job{Name: fmt.Sprintf("crowd %d", a.declared), Class: class}
	a.mu.Unlock()
	at := t.clock.atMost(time.Now()).Add(time.Second)
	for k := range n {
		s := qrtz.At(at.Add(time.Duration(f.dice.Int64N(int64(within)))))
		s.Name = fmt.Sprint(k)
		j.Schedules = append(j.Schedules, s)
	}
	t.note("app %s: %d fires of class %s within %s", a.name, n, class, short(within))
	t.try(ctx, "declare", func(ctx context.Context) error { return a.Declare(ctx, j) })
}
