package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/internal/proof/check"
	"github.com/qrtz-go/qrtz/schema"
)

// judge checks what the cluster did.
type judge struct {
	t  *torture
	db *sqlx.DB

	instances instances
	queues    queues
	watched   watched // what the rules have seen before

	mu       sync.Mutex
	blames   []finding            // what faults saw go wrong
	switches []*switchOff         // that were thrown
	clean    map[string]time.Time // of an app: fires before may have no row any more
	ended    map[int64]runRow     // finished runs as they were first seen
	looks    int
}

// finding is something that is wrong.
type finding struct {
	what    string
	execute int64     // 0 if it is about none
	at      time.Time // around which to look
	detail  string
}

func (f finding) String() string {
	return fmt.Sprintf("%s: execute %d, %s: %s", f.what, f.execute, clock(f.at), f.detail)
}

func newJudge(t *torture) *judge {
	return &judge{t: t, db: sqlx.NewDb(t.db, "mysql"), clean: map[string]time.Time{}, ended: map[int64]runRow{}}
}

// blame adds a finding of a fault's.
func (j *judge) blame(format string, args ...any) { j.blameFor("fault", format, args...) }

// blameFor adds a finding of a kind.
func (j *judge) blameFor(what, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.blames = append(j.blames, finding{what: what, at: time.Now(), detail: fmt.Sprintf(format, args...)})
}

func (j *judge) cleaned(app string, before time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.clean[app] = before
}

// look checks the last while, in which things still go wrong.
func (j *judge) look(ctx context.Context) error {
	now := j.t.clock.atMost(time.Now())
	late := j.t.pace.lateAfter()
	found, summary, err := j.findings(ctx, later(j.t.from, now.Add(-2*late)), now, late)
	if err != nil {
		j.t.note("not checked: %v", err) // no server answers, for example
		return nil
	}
	if len(found) > 0 {
		return j.fail(ctx, found)
	}
	if j.looks++; j.looks%5 == 0 {
		j.t.note("checked %d times; %s", j.looks, summary)
	}
	return nil
}

// final checks everything, once all is over.
func (j *judge) final(ctx context.Context) error {
	found, summary, err := j.findings(ctx, j.t.from, j.t.until, 0)
	if err != nil {
		return fmt.Errorf("final check: %w", err)
	}
	if len(found) > 0 {
		return j.fail(ctx, found)
	}
	if err := j.reportUse(ctx); err != nil {
		return err
	}
	j.t.note("all is well: %s; %s", summary, j.contention(ctx))
	return j.account(ctx)
}

// findings checks the fires of a span.
func (j *judge) findings(ctx context.Context, from, until time.Time, lateAfter time.Duration) (found []finding, summary string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var sums []string
	for _, a := range j.t.allApps() {
		from := later(from, j.cleanedBefore(a.name))
		if until.Before(from) {
			continue // all that it did is cleaned away
		}
		passing, err := j.passing(ctx, a.name)
		if err != nil {
			return nil, "", err
		}
		report, err := check.Run(ctx, j.t.db, string(schema.DefaultPrefix), check.Options{
			App: a.name, From: from, Until: until, LateAfter: lateAfter, Off: j.offSpans(a.name), Except: poisonPrefix,
			Record: func() ([]check.Start, error) { return j.t.starts(a.name) },
		})
		if err != nil {
			return nil, "", err
		}
		sums = append(sums, fmt.Sprintf("app %s: %d fires, %d run, %d lost, %d skipped, late p50 %s, p99 %s, max %s", a.name,
			report.Expected, report.Run, report.Lost, report.Skipped, report.P50, report.P99, report.Max))
		if !report.Ok() {
			news, err := j.passing(ctx, a.name)
			if err != nil {
				return nil, "", err
			}
			brief, err := j.brief(ctx, a.name)
			if err != nil {
				return nil, "", err
			}
			found = append(found, j.ofReport(report, append(passing, news...), brief)...)
		}
	}
	own, err := j.ownChecks(ctx, from)
	if err != nil {
		return nil, "", err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Concat(found, own, j.blames), strings.Join(sums, "; "), nil
}

// passing are the executes of an app that come and go, or are paused now and then.
func (j *judge) passing(ctx context.Context, app string) (ids []int64, err error) {
	err = j.db.SelectContext(ctx, &ids,
		`SELECT E.ID FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID WHERE J.APPLICATION = ? AND (J.NAME LIKE 'passing%' OR J.NAME LIKE 'resting%')`, app)
	return ids, err
}

// brief are the executes of an app whose runs are kept for less than the torture takes.
func (j *judge) brief(ctx context.Context, app string) (ids []int64, err error) {
	err = j.db.SelectContext(ctx, &ids,
		`SELECT E.ID FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID WHERE J.APPLICATION = ? AND J.KEEP_FOR BETWEEN 1 AND 86400000`, app)
	return ids, err
}

// ofReport are the offences in a report, without what is only worth a note. What a schedule owed that was changed several
// times, cannot be said; nor whether two runs overlapped by stamps of a clock that stepped back between them, or how old a run was then that
// has been deleted.
func (j *judge) ofReport(r check.Report, passing, brief []int64) []finding {
	var found []finding
	for _, o := range r.Offenders {
		if slices.Contains([]string{"lost", "unscheduled", "unreadable"}, o.Kind) || o.Kind == "missing" && slices.Contains(passing, o.ExecuteID) {
			continue
		}
		if (o.Kind == "missing" || o.Kind == "no run") && slices.Contains(brief, o.ExecuteID) && j.t.clock.steppedBack(o.At, j.t.pace.lateAfter()) {
			continue
		}
		if o.Kind == "overlap" && j.t.clock.steppedBack(o.At, j.t.pace.lateAfter()) {
			continue
		}
		found = append(found, finding{o.Kind, o.ExecuteID, o.Fire, o.Detail})
	}
	return found
}

func (j *judge) cleanedBefore(app string) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.clean[app]
}

// offSpans are the times in which an app was off. One that was on in between, and on for good no later than nodes may go
// without looking, may have been so unseen: the row keeps only the last switch. See "What is known to be wrong" in
// docs/reliability.md.
func (j *judge) offSpans(app string) []check.Span {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.t.clock.atMost(time.Now())
	var spans []check.Span
	for _, s := range j.switches {
		if s.app == app && s.node == "" {
			off := s.outer()
			if off.until.IsZero() {
				off.until = now // it still is
			}
			if n := len(spans); n > 0 && s.onFrom(now).Sub(spans[n-1].Until) < j.t.pace.unseen() {
				spans[n-1].Until = off.until
				continue
			}
			spans = append(spans, check.Span{From: off.from, Until: off.until})
		}
	}
	return spans
}

// unfinishedSQL lists what is not over yet once all schedules have ended.
const unfinishedSQL = `
SELECT 'unfinished' AS WHAT, E.ID AS EXECUTE_ID, COALESCE(E.NEXT_FIRE_TIME, 0) AS AT,
       CONCAT('execute of job ', J.NAME, ' is ', E.STATE, ', next ', COALESCE(E.NEXT_FIRE_TIME, 'never'), ', end ', COALESCE(E.END_TIME, 'never')) AS DETAIL
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID WHERE E.STATE <> 'COMPLETE' AND J.NAME LIKE 'lasting%'
UNION ALL
SELECT 'unfinished', COALESCE(EXECUTE_ID, 0), FIRE_TIME,
       CONCAT('run ', ID, ' is ', STATE, ', attempt ', ATTEMPT, ', on ', COALESCE(HOST_IP, 'none'), ', instance ', COALESCE(INSTANCE, 'none'))
  FROM QRTZ_RUN WHERE STATE IN ('PENDING', 'RUNNING')
 LIMIT 20`

// unfinished deletes the jobs that come and go, and lists what is not over yet.
func (j *judge) unfinished(ctx context.Context) ([]finding, error) {
	for _, a := range j.t.allApps() {
		var names []string
		if err := j.db.SelectContext(ctx, &names, `SELECT NAME FROM QRTZ_JOB WHERE APPLICATION = ? AND NAME LIKE 'passing%'`, a.name); err != nil {
			return nil, err
		}
		for _, name := range names {
			j.t.deleteJob(ctx, a, name)
		}
	}
	var poisoned []int64 // whose rows were locked when they were to be removed
	if err := j.db.SelectContext(ctx, &poisoned, `SELECT ID FROM QRTZ_JOB WHERE NAME LIKE '`+poisonPrefix+`%'`); err != nil {
		return nil, err
	}
	for _, job := range poisoned {
		j.t.removePoisoned(ctx, job)
	}
	return j.listed(ctx, unfinishedSQL)
}

// listed are findings as a query lists them.
func (j *judge) listed(ctx context.Context, query string) ([]finding, error) {
	var rows []struct {
		What    string `db:"WHAT"`
		Execute int64  `db:"EXECUTE_ID"`
		At      int64  `db:"AT"`
		Detail  string `db:"DETAIL"`
	}
	if err := j.db.SelectContext(ctx, &rows, query); err != nil {
		return nil, err
	}
	found := make([]finding, len(rows))
	for i, r := range rows {
		found[i] = finding{r.What, r.Execute, time.UnixMilli(r.At), r.Detail}
	}
	return found, nil
}

// contention is how often transactions met, since the servers were last started.
func (j *judge) contention(ctx context.Context) string {
	count := func(name string) (n int64) {
		var ignored string
		err := j.db.QueryRowContext(ctx, `SHOW GLOBAL STATUS LIKE '`+name+`'`).Scan(&ignored, &n)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			j.t.note("%s: %v", name, err)
		}
		return n
	}
	return fmt.Sprintf("%d deadlocks and %d lock waits since the server was last started", count("Innodb_deadlocks"), count("Innodb_row_lock_waits"))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// fail prints what was found, with everything known about it, and returns it as an error.
func (j *judge) fail(ctx context.Context, found []finding) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_, _ = fmt.Fprintf(j.t.out, "\n%d THINGS ARE WRONG\n", len(found))
	kinds := map[string]int{}
	explained := map[int64]bool{}
	for _, f := range found {
		_, _ = fmt.Fprintln(j.t.out, " ", f)
		if kinds[f.what]++; kinds[f.what] <= 2 && !explained[f.execute] {
			explained[f.execute] = true
			_, _ = fmt.Fprintln(j.t.out, j.explain(ctx, f))
		}
	}
	return fmt.Errorf("%d things are wrong: %s", len(found), strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
}
