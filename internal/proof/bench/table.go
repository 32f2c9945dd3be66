package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// table is a part of a report for people.
type table struct {
	title, note string
	head        []string
	rows        [][]string
}

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		switch v := c.(type) {
		case float64:
			row[i] = figure(v)
		case int:
			row[i] = figure(float64(v))
		case int64:
			row[i] = figure(float64(v))
		default:
			row[i] = fmt.Sprint(v)
		}
	}
	t.rows = append(t.rows, row)
}

// figure shows a number with about three digits that mean something, thousands apart.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1000:
		text := strconv.FormatFloat(v, 'f', 0, 64)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	case v >= 100 || v == float64(int(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 4, 64)
}

// tables are the report for people.
func (r *Report) tables() []table {
	var all []table
	for _, t := range []table{
		r.conditionTable(), r.floorTable(), r.claimTimeTable(), r.claimTable(), r.latenessTable(), r.everydayTable(), r.enqueueTable(), r.queuedTable(), r.backlogTable(), r.restTable(), r.memoryTable(), r.failoverTable(), r.startupTable(),
		r.growthTable(), r.nodesAtRestTable(), r.passAtRestTable(),
	} {
		if len(t.rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

func (r *Report) conditionTable() table {
	t := table{title: "Conditions", head: []string{"", ""}}
	t.add("measured", r.At.Format("2006-01-02 15:04"))
	for _, name := range slices.Sorted(maps.Keys(r.Conditions)) {
		t.add(name, r.Conditions[name])
	}
	return t
}

func (r *Report) floorTable() table {
	t := table{title: "The floor: the bare SQL of a claim, from plain connections", head: []string{"what", "batch", "connections", "fires/s", "server cores"}}
	for _, f := range r.Floor {
		t.add(f.What, f.Batch, f.Connections, f.Fires, f.ServerCPU)
	}
	return t
}

func (r *Report) claimTimeTable() table {
	t := table{
		title: "One claim, in milliseconds, with some delay between process and server",
		note:  "The delay is there and back, for every time that the process waits for an answer; without one, it is the server's socket.",
		head:  []string{"delay ms", "fires", "claims", "median", "p99"},
	}
	for _, c := range r.ClaimTimes {
		t.add(c.DelayMs, c.Fires, c.Claims, c.MedianMs, c.P99Ms)
	}
	return t
}

func (r *Report) claimTable() table {
	t := table{
		title: "qrtz: sustained fires a second, no-op handlers, a fire a second of each execute",
		note: "Kept up with: the heaviest load tried that started in time, to 99 %. Under heavy load: what started when many more were due, as many " +
			"for each number of nodes. Most: the most that started under any load. Floor: how many times as much the bare SQL above does at its best. " +
			"The columns behind it are of the load with the most.",
		head: []string{
			"nodes", "history", "kept up with", "under heavy load", "most", "floor", "statements/fire", "commits/fire", "fsyncs/fire", "lock waits", "deadlocks",
			"node cores", "server cores",
		},
	}
	for _, c := range r.Claims {
		ratio := "-"
		if best := r.bestFloor(c.History); best > 0 && c.Most.Fires > 0 {
			ratio = fmt.Sprintf("%.2f ×", best/c.Most.Fires)
		}
		m := c.Most
		t.add(c.Nodes, strings.ToLower(c.History), c.Kept.Offered, fmt.Sprintf("%s of %s", figure(c.Heavy.Fires), figure(float64(c.Heavy.Offered))), m.Fires, ratio, m.Statements, m.Commits, m.Syncs, m.LockWaits, m.Deadlocks, m.NodeCores, m.ServerCPU)
	}
	return t
}

// bestFloor is the most that the bare SQL does with the rows that a rule of history writes; 0 if it was not measured.
func (r *Report) bestFloor(history string) float64 {
	what, best := floorHistory, 0.0
	if history == historyNone {
		what = floorNone
	}
	for _, f := range r.Floor {
		if f.What == what {
			best = max(best, f.Fires)
		}
	}
	return best
}

func (r *Report) latenessTable() table {
	t := table{
		title: "Lateness: from a fire's time to its handler's first line, in milliseconds",
		note:  "Early counts handlers that started before their time, which must not be.",
		head:  []string{"fires", "nodes", "workers", "due", "started", "early", "p50", "p90", "p99", "p99.9", "max"},
	}
	for _, l := range r.Lateness {
		t.add(l.Load, l.Nodes, l.Workers, l.Due, l.Fires, l.Early, l.P50, l.P90, l.P99, l.P999, l.Max)
	}
	return t
}

func (r *Report) everydayTable() table {
	t := table{
		title: "Everyday rates: what a fire costs, with default settings and history",
		note: "Each execute fires once a second. Behind each figure, without what the same nodes cost at rest. Milliseconds are of processor time, " +
			"but for the last four columns, which are from a fire's time to its handler's first line.",
		head: []string{"fires a second", "nodes", "statements/fire", "commits/fire", "server ms/fire", "nodes ms/fire", "lock waits", "missing", "early", "p50", "p99", "p99.9", "max"},
	}
	for _, e := range r.Everyday {
		both := func(all, beyond float64) string { return fmt.Sprintf("%s (%s)", figure(all), figure(max(0, beyond))) }
		t.add(e.Rate, e.Nodes, both(e.Fire.Statements, e.Beyond.Statements), both(e.Fire.Commits, e.Beyond.Commits),
			both(e.Fire.ServerMs, e.Beyond.ServerMs), both(e.Fire.NodeMs, e.Beyond.NodeMs), e.Waits, e.Missing, e.Early, e.P50, e.P99, e.P999, e.Max)
	}
	return t
}

func (r *Report) enqueueTable() table {
	t := table{
		title: "Enqueueing, by a program without handlers",
		note:  "One call after the other on each connection. More than one run at once is EnqueueMany.",
		head:  []string{"connections", "runs at once", "runs/s"},
	}
	for _, e := range r.Enqueue {
		t.add(e.Connections, e.AtOnce, e.PerSecond)
	}
	return t
}

func (r *Report) queuedTable() table {
	t := table{
		title: "Enqueued runs: from the return of Enqueue, or of the caller's COMMIT, to the handler's first line, in milliseconds",
		note:  "The nodes have default settings. The others are pending runs of a class that no node handles. A transaction of the caller's takes up to 10 ms longer than what is enqueued in it.",
		head:  []string{"enqueued a second", "by", "nodes", "behind others", "runs", "p50", "p90", "p99", "p99.9", "max"},
	}
	for _, q := range r.Queued {
		t.add(q.Rate, q.From, q.Nodes, q.Behind, q.Fires, q.P50, q.P90, q.P99, q.P999, q.Max)
	}
	return t
}

func (r *Report) backlogTable() table {
	t := table{
		title: "A backlog of pending runs, with no-op handlers",
		note:  "Counted from the first handler's start to the last result on record.",
		head:  []string{"runs", "nodes", "workers", "runs/s", "statements/run", "node cores", "server cores"},
	}
	for _, b := range r.Backlog {
		t.add(b.Runs, b.Nodes, b.Workers, b.PerSecond, b.Statements, b.NodeCPU, b.ServerCPU)
	}
	return t
}

func (r *Report) restTable() table {
	t := table{
		title: "At rest: one node, nothing due for days",
		note:  fmt.Sprintf("A poll that finds %d executes due, and a sweep that finds nothing, are timed from outside, with their round trip.", polled),
		head:  []string{"executes stored", "statements/s", "server cores", "node cores", "poll ms", "sweep ms", "heap MB", "resident MB"},
	}
	for _, one := range r.Rest {
		t.add(one.Stored, one.Statements, one.ServerCPU, one.NodeCPU, one.PollMs, one.SweepMs, one.HeapMB, one.ResidentMB)
	}
	return t
}

func (r *Report) memoryTable() table {
	t := table{title: "Memory of one node", head: []string{"fires in its window", "heap MB", "resident MB", "at most MB"}}
	if m := r.Memory; m != nil {
		t.add(m.Planned, m.HeapMB, m.ResidentMB, m.PeakMB)
	}
	return t
}

func (r *Report) failoverTable() table {
	t := table{
		title: fmt.Sprintf("Fail-over: one of %d nodes under %d fires a second", failNodes, failRate),
		note:  fmt.Sprintf("Late is a fire by more than %d ms. Seconds count from the blow; - is what did not happen while it was watched.", failLate),
		head:  []string{"the node is", "fires late", "latest ms", "last of them due s", "runs lost", "on record s", "recovered s"},
	}
	for _, f := range r.Failover {
		t.add(f.What, f.LateFires, f.MaxLateMs, seen(f.UntilS), f.Lost, seen(f.LostS), seen(f.RecoveryS))
	}
	return t
}

// seen is a time after the blow, or - for what was not seen.
func seen(seconds float64) any {
	if seconds == 0 {
		return "-"
	}
	return seconds
}

func (r *Report) startupTable() table {
	t := table{title: "Starting and stopping a node, in milliseconds", head: []string{"process start to first fire", "SIGTERM to exit"}}
	if s := r.Startup; s != nil {
		t.add(s.FirstFireMs, s.StopMs)
	}
	return t
}

func (r *Report) growthTable() table {
	t := table{
		title: "Growth: one load, with more history, more executes or more nodes",
		note: "With finished runs in the table, each execute fires once a second, on a server that has just been filled. The executes share one load, " +
			"without history: the fewer there are, the more often each fires.",
		head: []string{
			"grown", "nodes", "due/s", "started/s", "p50 ms", "p99 ms", "statements/fire", "server ms/fire", "lock waits", "deadlocks", "node cores", "server cores",
		},
	}
	for _, g := range r.Growth {
		t.add(figure(float64(g.Size))+" "+g.What, g.Nodes, g.Offered, g.Fires, g.Late.P50, g.Late.P99, g.Statements, g.serverMs(), g.LockWaits, g.Deadlocks, g.NodeCores, g.ServerCPU)
	}
	return t
}

func (r *Report) nodesAtRestTable() table {
	t := table{
		title: "Growth: nodes at rest, nothing due for days",
		head:  []string{"nodes", "statements/s", "server cores", "node cores"},
	}
	for _, n := range r.NodesAtRest {
		t.add(n.Nodes, n.Statements, n.ServerCPU, n.NodeCPU)
	}
	return t
}

func (r *Report) passAtRestTable() table {
	t := table{
		title: "Growth: a pass of the misfire handler that finds nothing to do",
		note:  "With a look at what is due. The pending runs are of a class that no node handles. Server ms is its processor time.",
		head:  []string{"stored", "ms", "statements", "server ms"},
	}
	for _, p := range r.PassAtRest {
		t.add(p.What, p.Ms, p.Statements, p.ServerMs)
	}
	return t
}

// Print writes the report for a terminal.
func (r *Report) Print(out io.Writer) error {
	for _, t := range r.tables() {
		printf(out, "%s\n", t.title)
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		for _, row := range append([][]string{t.head}, t.rows...) {
			if line := strings.Join(row, "\t"); strings.TrimSpace(line) != "" {
				printf(w, "  %s\n", line)
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
		printf(out, "\n")
	}
	return nil
}

// Markdown writes the report for docs/performance.md.
func (r *Report) Markdown(out io.Writer) error {
	var b strings.Builder
	for _, t := range r.tables() {
		printf(&b, "### %s\n\n", t.title)
		if t.note != "" {
			printf(&b, "%s\n\n", t.note)
		}
		printf(&b, "| %s |\n|%s\n", strings.Join(t.head, " | "), strings.Repeat(" --- |", len(t.head)))
		for _, row := range t.rows {
			printf(&b, "| %s |\n", strings.Join(row, " | "))
		}
		printf(&b, "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
