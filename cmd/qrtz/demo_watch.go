package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// fire is one start of a handler, as the handler noted it.
type fire struct {
	ID        int64  `db:"ID"`
	ExecuteID int64  `db:"EXECUTE_ID"`
	FireTime  int64  `db:"FIRE_TIME"`  // in milliseconds
	StartedAt int64  `db:"STARTED_AT"` // in milliseconds
	Node      string `db:"NODE"`
}

func (f fire) late() time.Duration { return time.Duration(f.StartedAt-f.FireTime) * time.Millisecond }

// watch shows what happens, and makes the thing happen that the demo is about.
type watch struct {
	*demo
	seen   map[int64]bool // ids of the fires shown
	lastBy map[int64]fire // the latest fire of each execute
	total  map[string]int // fires by node
	events []demoEvent    // still to come
	victim *demoNode      // that is killed
	left   map[int64]bool // executes that the victim ran when it was killed, not yet taken over
	dead   bool           // the victim has been killed, and not come back
	killAt time.Time      // by the database's clock
	back   time.Time      // when it was started again; zero before, and once its return has been shown

	recovered map[int64]bool // runs that were recoveries, and have been shown

	taken     int           // executes of the victim that another node ran while it was dead
	takenLate time.Duration // the latest of their first fires
}

// demoEvent is something that the demo does to the cluster.
type demoEvent struct {
	at time.Duration // after the start
	do func(context.Context) error
}

// midNap is after a full second, when the jobs that nap are at it: a node that is killed then leaves some of their runs.
const midNap = 300 * time.Millisecond

func newWatch(d *demo) *watch {
	w := &watch{demo: d, seen: map[int64]bool{}, lastBy: map[int64]fire{}, total: map[string]int{}, left: map[int64]bool{}, recovered: map[int64]bool{}, victim: d.nodes[1]}
	w.events = []demoEvent{{d.length*4/10 + midNap, w.kill}, {d.length * 7 / 10, w.restart}}
	return w
}

// run shows a line a second until all schedules have ended and all runs with them.
func (w *watch) run(ctx context.Context) error {
	over, cancel := context.WithTimeoutCause(ctx, time.Until(w.end.Add(-w.ahead+lastRunsLimit)),
		fmt.Errorf("the last runs have not ended within %s", lastRunsLimit))
	defer cancel()
	lines := 0
	return every(over, 100*time.Millisecond, func() (bool, error) {
		elapsed := w.now().Sub(w.start)
		if err := w.unexpectedEnd(); err != nil {
			return false, err
		}
		ended, err := w.ended(ctx, elapsed)
		if err != nil {
			return false, err
		}
		if n := int(elapsed / time.Second); n > lines || ended {
			lines = n
			if err := w.show(ctx); err != nil {
				return false, err
			}
		}
		return ended, w.happen(ctx, elapsed)
	})
}

// happen does what is due to be done to the cluster.
func (w *watch) happen(ctx context.Context, elapsed time.Duration) error {
	for len(w.events) > 0 && elapsed >= w.events[0].at {
		event := w.events[0]
		w.events = w.events[1:]
		if err := event.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

const openSQL = `
SELECT (SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE = 'EXECUTING')
     + (SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING')
     + (SELECT COUNT(*) FROM QRTZ_RUN R JOIN QRTZ_NODE N ON N.INSTANCE = R.INSTANCE WHERE R.STATE = 'RUNNING')`

// ended tells whether nothing is left to do.
func (w *watch) ended(ctx context.Context, elapsed time.Duration) (bool, error) {
	if elapsed < w.length {
		return false, nil
	}
	var open int
	if err := w.db.GetContext(ctx, &open, w.prefix.SQL(openSQL)); err != nil {
		return false, fmt.Errorf("look for open runs: %w", err)
	}
	return open == 0, nil
}

// show prints who has fired what since the last time, and what was special about it.
func (w *watch) show(ctx context.Context) error {
	fires, err := w.read(ctx)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	var late []time.Duration
	for _, f := range fires {
		counts[f.Node]++
		w.total[f.Node]++
		late = append(late, f.late())
	}
	if len(fires) > 0 {
		slices.Sort(late)
		w.say("%s late p50 %s, max %s", w.perNode(counts), ms(late[(len(late)-1)/2]), ms(late[len(late)-1]))
	}
	for _, f := range fires {
		w.notable(f)
		w.lastBy[f.ExecuteID] = f
	}
	return w.showRecoveries(ctx)
}

const recoveriesSQL = `
SELECT R.ID, R.EXECUTE_ID, R.FIRE_TIME, R.HOST_IP AS NODE, L.HOST_IP AS LOST_WITH
  FROM QRTZ_RUN R JOIN QRTZ_RUN L ON L.ID = R.RECOVERS WHERE R.STATE IN ('RUNNING', 'SUCCEEDED') ORDER BY R.ID`

// showRecoveries prints which runs that were lost with a node have been started again.
func (w *watch) showRecoveries(ctx context.Context) error {
	var recoveries []struct {
		fire
		LostWith string `db:"LOST_WITH"`
	}
	if err := w.db.SelectContext(ctx, &recoveries, w.prefix.SQL(recoveriesSQL)); err != nil {
		return fmt.Errorf("read recoveries: %w", err)
	}
	for _, r := range recoveries {
		if !w.recovered[r.ID] {
			w.say("   recovered: %s of %s, lost with %s, is run again by %s", w.names[r.ExecuteID], time.UnixMilli(r.FireTime).Format("15:04:05.000"), r.LostWith, r.Node)
		}
		w.recovered[r.ID] = true
	}
	return nil
}

const firesSQL = `SELECT ID, EXECUTE_ID, FIRE_TIME, STARTED_AT, NODE FROM demo_fire WHERE ID > ? ORDER BY STARTED_AT, ID`

// behind is how many ids back to look for rows that were committed after later ones.
const behind = 500

// read reads the fires that have not been shown.
func (w *watch) read(ctx context.Context) ([]fire, error) {
	last := int64(0)
	for id := range w.seen {
		last = max(last, id)
	}
	maps.DeleteFunc(w.seen, func(id int64, _ bool) bool { return id <= last-behind })
	var fires []fire
	if err := w.db.SelectContext(ctx, &fires, firesSQL, last-behind); err != nil {
		return nil, fmt.Errorf("read the record of fires: %w", err)
	}
	fires = slices.DeleteFunc(fires, func(f fire) bool { return w.seen[f.ID] })
	for _, f := range fires {
		w.seen[f.ID] = true
	}
	return fires, nil
}

func (w *watch) perNode(counts map[string]int) string {
	var b strings.Builder
	for _, n := range w.nodes {
		count := fmt.Sprint(counts[n.id])
		if n.process == nil && counts[n.id] == 0 {
			count = "-"
		}
		fmt.Fprintf(&b, "%s %3s   ", n.id, count)
	}
	return b.String()
}

// notable says what is special about a fire.
func (w *watch) notable(f fire) {
	name := w.names[f.ExecuteID]
	text := fmt.Sprintf("%s of %s by %s, %s late", name, time.UnixMilli(f.FireTime).Format("15:04:05.000"), f.Node, ms(f.late()))
	afterKill := w.dead && f.FireTime > w.killAt.UnixMilli()
	switch {
	case w.left[f.ExecuteID] && afterKill && f.Node != w.victim.id:
		delete(w.left, f.ExecuteID)
		w.taken++
		w.takenLate = max(w.takenLate, f.late())
		w.say("   taken over from %s: %s", w.victim.id, text)
	case f.Node == w.victim.id && !w.back.IsZero() && f.StartedAt > w.back.UnixMilli():
		w.say("   %s is back: %s", w.victim.id, text)
		w.back = time.Time{}
	case strings.HasPrefix(name, "one-off"):
		w.say("   %s", text)
	}
}

const runningSQL = `
SELECT R.HOST_IP, COUNT(*) AS N, CAST(SUM(J.RECOVERY) AS SIGNED) AS RECOVERABLE
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE R.STATE = 'RUNNING' AND R.HOST_IP IS NOT NULL GROUP BY R.HOST_IP`

// inHands are the runs under way on a node, and how many of them will be run again if it dies.
type inHands struct {
	Node        string `db:"HOST_IP"`
	N           int    `db:"N"`
	Recoverable int    `db:"RECOVERABLE"`
}

// kill kills the node that has the most to lose at the moment.
func (w *watch) kill(ctx context.Context) error {
	running, err := w.running(ctx)
	if err != nil {
		return err
	}
	w.victim = slices.MaxFunc(w.nodes, func(a, b *demoNode) int {
		return cmp.Or(cmp.Compare(running[a.id].Recoverable, running[b.id].Recoverable), cmp.Compare(running[a.id].N, running[b.id].N), cmp.Compare(w.total[a.id], w.total[b.id]))
	})
	if err := w.show(ctx); err != nil {
		return err
	}
	w.killAt, w.dead = w.now(), true
	w.victim.kill()
	for id, f := range w.lastBy {
		if f.Node == w.victim.id {
			w.left[id] = true
		}
	}
	w.say("KILLED %s (SIGKILL) while it had %d runs; it had run %d of the recorded schedules last", w.victim.id, running[w.victim.id].N, len(w.left))
	return nil
}

// running counts the runs under way by node.
func (w *watch) running(ctx context.Context) (map[string]inHands, error) {
	var counts []inHands
	if err := w.db.SelectContext(ctx, &counts, w.prefix.SQL(runningSQL)); err != nil {
		return nil, fmt.Errorf("read running runs: %w", err)
	}
	running := map[string]inHands{}
	for _, c := range counts {
		running[c.Node] = c
	}
	return running, nil
}

// restart starts the killed node again.
func (w *watch) restart(ctx context.Context) error {
	if err := w.show(ctx); err != nil { // what it did not do while it was dead
		return err
	}
	if err := w.victim.start(); err != nil {
		return fmt.Errorf("start %s again: %w", w.victim.id, err)
	}
	w.dead, w.back = false, w.now()
	w.say("STARTED %s again, process %d", w.victim.id, w.victim.process.PID())
	return nil
}

// shares says how many of the recorded fires each node ran.
func (w *watch) shares() string {
	var parts []string
	recorded := 0
	for _, n := range w.nodes {
		parts = append(parts, fmt.Sprintf("%s %d", n.id, w.total[n.id]))
		recorded += w.total[n.id]
	}
	return fmt.Sprintf("%d of them on the handlers' record: %s", recorded, strings.Join(parts, ", "))
}
