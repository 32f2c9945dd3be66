package qrtztest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qrtz-go/qrtz"
)

// Expect fails the test unless what has become of the runs and fires of a class so far is exactly this, in order: qrtz.Succeeded,
// Failed, Lost, Cancelled, or Skipped, which stands for all the fires of one record. The failure says what ran, was skipped or is
// still to come, and why. It returns the events.
func (k *Kit) Expect(class string, want ...qrtz.RunState) []qrtz.Event {
	k.tb.Helper()
	events := k.filter(func(e qrtz.Event) bool { return e.Class == class })
	got := make([]qrtz.RunState, len(events))
	for i, e := range events {
		got[i] = e.State
	}
	if !slices.Equal(got, want) {
		k.tb.Fatalf("qrtztest: of class %q\n  want: %s\n  have: %s\n%s", class, list(want), list(got), k.account(class))
	}
	return events
}

// RequireRan fails the test unless exactly n runs of a class have ended so far, and returns them.
func (k *Kit) RequireRan(class string, n int) []qrtz.Event {
	k.tb.Helper()
	ran := k.Ran(class)
	if len(ran) != n {
		k.tb.Fatalf("qrtztest: %d runs of class %q have ended, want %d\n%s", len(ran), class, n, k.account(class))
	}
	return ran
}

func list(states []qrtz.RunState) string {
	if len(states) == 0 {
		return "nothing"
	}
	return strings.Trim(fmt.Sprint(states), "[]")
}

// Account says in plain text what has happened so far, what has not ended, and what is to come: for the log of a test.
func (k *Kit) Account() string {
	k.tb.Helper()
	return k.account("")
}

const mostEvents = 30 // in an account

// account is that of one class, or of all.
func (k *Kit) account(class string) string {
	k.tb.Helper()
	var b strings.Builder
	of, others := k.told, 0
	if class != "" {
		of = k.filter(func(e qrtz.Event) bool { return e.Class == class })
		others = len(k.told) - len(of)
	}
	fmt.Fprintf(&b, "It is %s. What has happened so far:\n", say(k.Now()))
	if more := len(of) - mostEvents; more > 0 {
		fmt.Fprintf(&b, "  … %d before these\n", more)
		of = of[more:]
	}
	for _, e := range of {
		fmt.Fprintf(&b, "  %s\n", line(e))
	}
	switch {
	case others > 0:
		fmt.Fprintf(&b, "  %d ends of runs and records of other classes\n", others)
	case len(of) == 0:
		b.WriteString("  nothing\n")
	}
	lines := append(k.alive(class), k.toCome(class)...)
	if len(lines) == 0 && class == "" {
		lines = []string{"no job is declared"}
	} else if len(lines) == 0 {
		lines = []string{k.noJob(class)}
	}
	b.WriteString("What is to come:\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func say(t time.Time) string { return t.Format("2006-01-02 15:04:05.999 MST") }

func line(e qrtz.Event) string {
	what := fmt.Sprintf("class %q", e.Class)
	if e.Job != "" {
		what = fmt.Sprintf("job %q", e.Job)
	}
	if e.Schedule != "" {
		what = "schedule" + quoted(e.Schedule) + " of " + what
	}
	text := fmt.Sprintf("%s  %s %s", say(e.FireTime), what, e.State)
	if e.State == qrtz.Skipped {
		text += fmt.Sprintf(" (%d of its fires)", e.Count)
	} else {
		text += fmt.Sprintf(" (run %d, attempt %d, on %s)", e.RunID, e.Attempt, e.Node)
	}
	if first, _, more := strings.Cut(e.Message, "\n"); first != "" {
		text += ": " + first
		if more {
			text += " …"
		}
	}
	if !e.RetryAt.IsZero() {
		text += "; next attempt at " + say(e.RetryAt)
	}
	return text
}

// alive says which runs have not ended, and why those that are due do not run.
func (k *Kit) alive(class string) (lines []string) {
	k.tb.Helper()
	rows, err := k.DB.QueryContext(k.tb.Context(), k.prefix.SQL(`
SELECT R.ID, COALESCE(J.NAME, ''), R.STATE, R.ATTEMPT, R.AVAILABLE_AT, COALESCE(R.HOST_IP, ''), COALESCE(V.WHY, '')
  FROM QRTZ_RUN R JOIN QRTZ_V_RUN V ON V.ID = R.ID LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.APPLICATION = ? AND R.STATE IN ('PENDING', 'RUNNING') AND (? = '' OR J.JOB_CLASS = ?) ORDER BY R.ID LIMIT 20`), k.cfg.App, class, class)
	k.check(err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, available int64
		var attempt int
		var job, state, node, why string
		k.check(rows.Scan(&id, &job, &state, &attempt, &available, &node, &why))
		text := fmt.Sprintf("run %d of job %q, attempt %d, is %s", id, job, attempt, state)
		if state == string(qrtz.Running) {
			text += " on " + node
		} else {
			text += ", not before " + say(time.UnixMilli(available).UTC())
		}
		lines = append(lines, because(text, why))
	}
	k.check(rows.Err())
	return lines
}

// toCome says when each schedule fires next, and why one does not.
func (k *Kit) toCome(class string) (lines []string) {
	k.tb.Helper()
	rows, err := k.DB.QueryContext(k.tb.Context(), k.prefix.SQL(`
SELECT J.NAME, COALESCE(E.NAME, ''), COALESCE(E.STATE, ''), COALESCE(E.NEXT_FIRE_TIME, 0), COALESCE(V.WHY, '')
  FROM QRTZ_JOB J LEFT JOIN QRTZ_EXECUTE E ON E.PID = J.ID LEFT JOIN QRTZ_V_EXECUTE V ON V.ID = E.ID
 WHERE J.APPLICATION = ? AND (? = '' OR J.JOB_CLASS = ?) ORDER BY J.NAME, E.NAME LIMIT 50`), k.cfg.App, class, class)
	k.check(err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var job, name, state, why string
		var next int64
		k.check(rows.Scan(&job, &name, &state, &next, &why))
		text := fmt.Sprintf("job %q has no schedule", job)
		if state != "" {
			text = fmt.Sprintf("the schedule%s of job %q is %s", quoted(name), job, state)
		}
		if fire := time.UnixMilli(next).UTC(); fire.After(k.Now()) && state == "EXECUTING" {
			text += ", next fire " + say(fire)
		}
		lines = append(lines, because(text, why))
	}
	k.check(rows.Err())
	return lines
}

func quoted(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" %q", name)
}

func because(text, why string) string {
	if why != "" {
		text += ": " + why
	}
	return text
}

// noJob says which classes there are in place of one that no job has.
func (k *Kit) noJob(class string) string {
	k.tb.Helper()
	classes, err := column(k.tb.Context(), k.DB, k.prefix.SQL(`SELECT DISTINCT JOB_CLASS FROM QRTZ_JOB WHERE APPLICATION = ? ORDER BY 1`), k.cfg.App)
	k.check(err)
	if len(classes) == 0 {
		return fmt.Sprintf("no job has the class %q, for none is declared", class)
	}
	return fmt.Sprintf("no job has the class %q; jobs have the classes %q", class, classes)
}
