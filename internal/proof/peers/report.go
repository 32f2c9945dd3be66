package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/qrtz-go/qrtz/internal/proof/bench"
)

// Report is what was measured, and on what.
type Report struct {
	At         time.Time   `json:"at"`
	Quick      bool        `json:"quick"`
	Conditions [][2]string `json:"conditions"`
	Absent     []string    `json:"absent,omitempty"` // peers, and why
	Doubts     []string    `json:"doubts,omitempty"` // what else the reader should know
	Claims     []Claims    `json:"claims,omitempty"`
	Lateness   []Lateness  `json:"lateness,omitempty"`
	Enqueue    []Enqueue   `json:"enqueue,omitempty"`
	Queued     []Queued    `json:"queued,omitempty"`
	Backlog    []Backlog   `json:"backlog,omitempty"`
}

// Late is a distribution of lateness, in milliseconds.
type Late struct {
	Count int     `json:"count"`
	Early int     `json:"early"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

// lateness sums up microseconds.
func lateness(all []int64) Late {
	l := Late{Count: len(all)}
	if len(all) == 0 {
		return l
	}
	slices.Sort(all)
	for _, one := range all {
		if one < 0 {
			l.Early++
		}
	}
	at := func(percent int) float64 { return float64(all[max(0, (len(all)*percent+99)/100-1)]) / 1000 }
	l.P50, l.P99, l.Max = at(50), at(99), at(100)
	return l
}

const (
	nameQrtz   = "qrtz"
	nameQuartz = "Quartz"
	nameRiver  = "River"

	nameAsynqAlways = "asynq, fsync always"
	nameAsynqSecond = "asynq, fsync every second"
)

// table is a part of a report for people.
type table struct {
	title, note string
	head        []string
	rows        [][]string
}

func (t *table) add(cells ...any) {
	var row []string
	for _, c := range cells {
		switch v := c.(type) {
		case float64:
			row = append(row, bench.Figure(v))
		case int:
			row = append(row, bench.Figure(float64(v)))
		case int64:
			row = append(row, bench.Figure(float64(v)))
		default:
			row = append(row, fmt.Sprint(v))
		}
	}
	t.rows = append(t.rows, row)
}

// times is how many times b is in a; - where one of them is not known.
func times(a, b float64) string {
	if a <= 0 || b <= 0 {
		return "-"
	}
	if a/b >= 1 {
		return bench.Figure(a/b) + " ×"
	}
	return fmt.Sprintf("%.2f ×", a/b)
}

func (r *Report) tables() []table {
	var all []table
	for _, t := range []table{r.conditionTable(), r.claimTable(), r.latenessTable(), r.queuedTable(), r.backlogTable(), r.enqueueTable()} {
		if len(t.rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

func (r *Report) conditionTable() table {
	t := table{title: "Beside the peers: conditions", head: []string{"", ""}}
	t.add("measured", r.At.UTC().Format("2006-01-02 15:04")+" UTC"+map[bool]string{true: ", quickly (--quick)"}[r.Quick])
	for _, c := range r.Conditions {
		t.add(c[0], c[1])
	}
	for _, text := range r.Absent {
		t.add("not measured", text)
	}
	for _, text := range r.Doubts {
		t.add("note", text)
	}
	return t
}

func (r *Report) claimTable() table {
	t := table{
		title: "Beside Quartz: recurring fires a second, no-op handlers, a fire a second of each schedule",
		note: "Kept up with: the heaviest load tried that started in time, to 99 %. Most: the most that started under any load. The columns behind it " +
			"are of the load with the most. qrtz is: its most beside this one, with as many processes and its first settings.",
		head: []string{"scheduler", "settings", "processes", "kept up with", "most", "qrtz is", "statements/fire", "commits/fire", "server ms/fire", "process ms/fire"},
	}
	for _, c := range r.Claims {
		ratio := ""
		if c.Peer != nameQrtz {
			i := slices.IndexFunc(r.Claims, func(o Claims) bool { return o.Peer == nameQrtz && o.Nodes == c.Nodes })
			if ratio = "-"; i >= 0 {
				ratio = times(r.Claims[i].Most.Started, c.Most.Started)
			}
		}
		m := c.Most
		t.add(c.Peer, c.Settings, c.Nodes, c.Kept.Due, m.Started, ratio, m.Statements, m.Commits, m.ServerMs, m.NodeMs)
	}
	return t
}

func (r *Report) latenessTable() table {
	t := table{
		title: "Beside Quartz: from a fire's time to its handler's first line, in milliseconds",
		note:  "The last column is this p50 and p99 beside qrtz's.",
		head: []string{
			"fires a second", "scheduler", "settings", "processes", "started", "early", "p50", "p99", "max", "statements/fire", "commits/fire", "server ms/fire", "beside qrtz",
		},
	}
	for _, l := range r.Lateness {
		ratio := ""
		if l.Peer != nameQrtz {
			i := slices.IndexFunc(r.Lateness, func(o Lateness) bool { return o.Peer == nameQrtz && o.Nodes == l.Nodes && o.Due == l.Due })
			if ratio = "-"; i >= 0 {
				ratio = times(l.P50, r.Lateness[i].P50) + ", " + times(l.P99, r.Lateness[i].P99)
			}
		}
		t.add(l.Due, l.Peer, l.Settings, l.Nodes, l.Count, l.Early, l.P50, l.P99, l.Max, l.Statements, l.Commits, l.ServerMs, ratio)
	}
	return t
}

func (r *Report) queuedTable() table {
	t := table{
		title: "Beside River and asynq: from the return of the commit to the handler's first line, in milliseconds",
		note:  "The last column is this p50 and p99 beside qrtz's. Server and process milliseconds are of their processors.",
		head: []string{
			"enqueued a second", "by", "processes", "scheduler", "settings", "runs", "p50", "p99", "max", "server ms/run", "process ms/run", "beside qrtz",
		},
	}
	all := slices.Clone(r.Queued)
	slices.SortStableFunc(all, func(a, b Queued) int {
		if a.Rate != b.Rate {
			return a.Rate - b.Rate
		}
		if a.From != b.From {
			return strings.Compare(b.From, a.From)
		}
		return a.Nodes - b.Nodes
	})
	for _, q := range all {
		ratio := ""
		if q.Peer != nameQrtz {
			i := slices.IndexFunc(all, func(o Queued) bool {
				return o.Peer == nameQrtz && o.Rate == q.Rate && o.From == q.From && o.Nodes == q.Nodes
			})
			if ratio = "-"; i >= 0 {
				ratio = times(q.P50, all[i].P50) + ", " + times(q.P99, all[i].P99)
			}
		}
		t.add(q.Rate, q.From, q.Nodes, q.Peer, q.Settings, q.Count, q.P50, q.P99, q.Max, q.ServerMs, q.NodeMs, ratio)
	}
	return t
}

func (r *Report) backlogTable() table {
	t := table{
		title: "Beside River and asynq: a backlog of no-op runs",
		note:  "Counted from the first handler's start to the last result on record. qrtz is: its rate beside this one, with as many processes and settings of that kind.",
		head:  []string{"processes", "scheduler", "settings", "runs", "runs/s", "qrtz is", "server ms/run", "process ms/run"},
	}
	all := slices.Clone(r.Backlog)
	slices.SortStableFunc(all, func(a, b Backlog) int {
		if a.tuned() != b.tuned() {
			return map[bool]int{true: 1, false: -1}[a.tuned()]
		}
		return a.Nodes - b.Nodes
	})
	for _, b := range all {
		ratio := ""
		if b.Peer != nameQrtz {
			i := slices.IndexFunc(all, func(o Backlog) bool { return o.Peer == nameQrtz && o.Nodes == b.Nodes && o.tuned() == b.tuned() })
			if ratio = "-"; i >= 0 {
				ratio = times(all[i].PerSecond, b.PerSecond)
			}
		}
		t.add(b.Nodes, b.Peer, b.Settings, b.Runs, b.PerSecond, ratio, b.ServerMs, b.NodeMs)
	}
	return t
}

func (b Backlog) tuned() bool { return strings.HasPrefix(b.Settings, tuned) }

func (r *Report) enqueueTable() table {
	t := table{
		title: "Beside River and asynq: enqueueing, by a program without handlers",
		note:  "One call after the other on each connection. qrtz is: its rate beside this one.",
		head:  []string{"connections", "runs at once", "scheduler", "runs/s", "qrtz is"},
	}
	all := slices.Clone(r.Enqueue)
	slices.SortStableFunc(all, func(a, b Enqueue) int {
		if a.AtOnce != b.AtOnce {
			return a.AtOnce - b.AtOnce
		}
		return a.Connections - b.Connections
	})
	for _, e := range all {
		ratio := ""
		if e.Peer != nameQrtz {
			i := slices.IndexFunc(all, func(o Enqueue) bool {
				return o.Peer == nameQrtz && o.AtOnce == e.AtOnce && o.Connections == e.Connections
			})
			if ratio = "-"; i >= 0 {
				ratio = times(all[i].PerSecond, e.PerSecond)
			}
		}
		t.add(e.Connections, e.AtOnce, e.Peer, e.PerSecond, ratio)
	}
	return t
}

// Print writes the report for a terminal.
func (r *Report) Print(out io.Writer) error {
	for _, t := range r.tables() {
		printf(out, "%s\n", t.title)
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		for _, row := range append([][]string{t.head}, t.rows...) {
			if text := strings.Join(row, "\t"); strings.TrimSpace(text) != "" {
				printf(w, "  %s\n", text)
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
		printf(out, "\n")
	}
	return nil
}

// Markdown is the report for docs/performance.md.
func (r *Report) Markdown() string {
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
	return b.String()
}

// The tables go between these lines of a page that has them.
const (
	marksBegin = "<!-- qrtz beside the peers: what follows is generated -->\n"
	marksEnd   = "<!-- qrtz beside the peers: end -->\n"
)

// intoPage puts the tables between the marks of the page at path; to the end of one that has no marks.
func intoPage(path, tables string) error {
	page, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	before, rest, begins := strings.Cut(string(page), marksBegin)
	_, after, ends := strings.Cut(rest, marksEnd)
	if !begins || !ends {
		before, after = string(page), ""
	}
	return os.WriteFile(path, []byte(before+marksBegin+"\n"+tables+marksEnd+after), 0o644)
}

// printf writes for people. If they have stopped reading, that is no error.
func printf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
