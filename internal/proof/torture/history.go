package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/internal/proof/firetimes"
	"github.com/qrtz-go/qrtz/schema"
)

// history is what happened, as the rules see it: what one snapshot of the tables says, what handlers have said since, and what
// was done to the cluster. Times of rows are by the database's clock, those of accounts and of what was done by ours.
type history struct {
	now      time.Time // of the snapshot
	read     time.Time // by the same clock, when it had been taken: what is not in it may have been deleted until then
	taken    time.Time // its beginning by our clock
	from     time.Time // runs of earlier fires are not among runs
	pace     pace
	runs     []ruleRun
	jobs     map[int64]ruleJob
	executes map[int64]ruleExecute
	fired    map[int64]fired // of executes with a limited number of fires
	accounts []*account
	byRun    map[int64][]*account
	earlier  map[int64]ruleRun // as the look before saw them
	cancels  []cancel
	rests    []rest
	waits    []waited
	world    world
}

// world is what is known besides: what stood still, and what was wrong with whom.
type world interface {
	stood(from, until time.Time) time.Duration          // how long all stood still between two times
	disturbed(a *account, from, until time.Time) bool   // something was wrong with a handler's process, its line or the server
	frozen(a *account, from, until time.Time) bool      // its process stood still
	lives(a *account) bool                              // its process is still there
	stopping(a *account) (s span, ok bool)              // when its process was asked to stop, and had stopped
	drainTimeout(a *account) time.Duration              // of its process
	stepped(from, until time.Time) bool                 // the database's clock, between two times of its own
	nodeTrouble(app string, from, until time.Time) bool // something was wrong with one of an app's processes, by the database's clock
}

// exact tells whether no fault touches an app but what package-wide faults do.
func exact(app string) bool { return app == exactApp || app == unluckyApp }

// ruleRun is a run as it is stored.
type ruleRun struct {
	ID         int64          `db:"ID"`
	App        string         `db:"APPLICATION"`
	Job        int64          `db:"JOB_ID"`
	Execute    int64          `db:"EXECUTE_ID"`
	Fire       int64          `db:"FIRE_TIME"`
	Attempt    int            `db:"ATTEMPT"`
	State      string         `db:"STATE"`
	Available  int64          `db:"AVAILABLE_AT"`
	Node       sql.NullString `db:"HOST_IP"`
	Fence      int64          `db:"FENCE"`
	Claimed    sql.NullInt64  `db:"CLAIMED_AT"`
	Finished   sql.NullInt64  `db:"FINISHED_AT"`
	LastFire   sql.NullInt64  `db:"LAST_FIRE_TIME"`
	Count      int64          `db:"FIRE_COUNT"`
	Message    string         `db:"MESSAGE"`
	Recovers   int64          `db:"RECOVERS"`
	Recoveries int            `db:"RECOVERIES"`
	Cancel     sql.NullInt64  `db:"CANCEL_AT"`
	Progress   sql.NullInt64  `db:"PROGRESS"`
	Origin     int64          `db:"ORIGIN"`
	Attempts   int            `db:"ATTEMPTS"` // its own; 0 for its job's
}

func (r ruleRun) over() bool          { return r.State != "PENDING" && r.State != "RUNNING" }
func (r ruleRun) finished() time.Time { return time.UnixMilli(r.Finished.Int64) }
func (r ruleRun) spent() int          { return max(1, r.Attempt-r.Recoveries) }

func (r ruleRun) finding(what, format string, args ...any) finding {
	return finding{what, r.Execute, time.UnixMilli(r.Fire), fmt.Sprintf("run %d, attempt %d, %s: ", r.ID, r.Attempt, r.State) + fmt.Sprintf(format, args...)}
}

// ruleJob is what a job asks of its runs.
type ruleJob struct {
	ID         int64  `db:"ID"`
	App        string `db:"APPLICATION"`
	Name       string `db:"NAME"`
	Class      string `db:"JOB_CLASS"`
	Recovery   bool   `db:"RECOVERY"`
	Overlap    string `db:"OVERLAP"`
	MaxRunning int    `db:"MAX_RUNNING"`
	Timeout    int64  `db:"RUN_TIMEOUT"`
	Attempts   int    `db:"ATTEMPTS"`
	Backoff    int64  `db:"BACKOFF"`
	MaxBackoff int64  `db:"MAX_BACKOFF"`
	History    string `db:"HISTORY"`
	KeepFor    int64  `db:"KEEP_FOR"`
	KeepRuns   int    `db:"KEEP_RUNS"`
}

// keepsAll tells whether no row of a finished run is ever deleted, while the torture lasts.
func (j ruleJob) keepsAll() bool {
	return j.History == "ALL" && j.KeepRuns == 0 && j.KeepFor > 24*time.Hour.Milliseconds() && j.App != "b" // whose history is cleaned
}

// ruleExecute is a schedule.
type ruleExecute struct {
	ID      int64          `db:"ID"`
	Job     int64          `db:"PID"`
	State   string         `db:"STATE"`
	Kind    string         `db:"JOB_TYPE"`
	Cron    sql.NullString `db:"CRON"`
	Zone    sql.NullString `db:"ZONE_ID"`
	Repeat  sql.NullInt64  `db:"REPEAT_COUNT"`
	Every   sql.NullInt64  `db:"REPEAT_INTERVAL"`
	Start   int64          `db:"START_TIME"`
	End     sql.NullInt64  `db:"END_TIME"`
	Misfire string         `db:"MISFIRE"`
	CatchUp int            `db:"CATCH_UP_LIMIT"`
}

// fires are those of the schedule between two times in ms, both included.
func (e ruleExecute) fires(from, until int64) []int64 {
	s := firetimes.Schedule{Every: time.Duration(e.Every.Int64) * time.Millisecond, Start: time.UnixMilli(max(e.Start, 0))}
	if e.Kind == "CRON" {
		s.Cron, s.Zone = e.Cron.String, e.Zone.String
	}
	if e.End.Valid && e.End.Int64 > 0 {
		s.End = time.UnixMilli(e.End.Int64)
	}
	seq, err := s.Fires(time.UnixMilli(from), time.UnixMilli(until))
	if err != nil {
		return nil
	}
	var all []int64
	for fire := range seq {
		all = append(all, fire.UnixMilli())
	}
	return all
}

// limit is how many of missed fires the misfire policy runs.
func (e ruleExecute) limit() int {
	switch e.Misfire {
	case "SKIP":
		return 0
	case "CATCH_UP":
		return min(max(e.CatchUp, 0), 1000)
	}
	return 1
}

// fired is how many fires of an execute are on record.
type fired struct {
	Execute int64 `db:"EXECUTE_ID"`
	Fires   int64 `db:"FIRES"`
}

// cancel is a request to cancel a run: its UPDATE was sent and answered by then.
type cancel struct {
	run       int64
	asked, at time.Time
}

// watched is what the rules know from earlier looks, and from what was done.
type watched struct {
	mu      sync.Mutex
	runs    map[int64]ruleRun
	cancels []cancel
	rests   []rest
}

func (w *watched) addCancel(c cancel) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancels = append(w.cancels, c)
}

func (w *watched) addRest(r rest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rests = append(w.rests, r)
}

const (
	ruleRunsSQL = `
SELECT R.ID, R.APPLICATION, R.JOB_ID, COALESCE(R.EXECUTE_ID, 0) AS EXECUTE_ID, R.FIRE_TIME, R.ATTEMPT, R.STATE, R.AVAILABLE_AT, R.HOST_IP, R.FENCE,
       R.CLAIMED_AT, R.FINISHED_AT, R.LAST_FIRE_TIME, R.FIRE_COUNT, LEFT(COALESCE(R.MESSAGE, ''), 100) AS MESSAGE,
       COALESCE(R.RECOVERS, 0) AS RECOVERS, R.RECOVERIES, R.CANCEL_AT, R.PROGRESS, COALESCE(R.ORIGIN, R.ID) AS ORIGIN, COALESCE(R.ATTEMPTS, 0) AS ATTEMPTS
  FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE R.FIRE_TIME >= ? AND (J.NAME IS NULL OR J.NAME NOT LIKE '` + poisonPrefix + `%') ORDER BY R.ID`

	ruleJobsSQL = `
SELECT ID, APPLICATION, NAME, JOB_CLASS, RECOVERY <> 0 AS RECOVERY, OVERLAP, MAX_RUNNING, RUN_TIMEOUT, ATTEMPTS, BACKOFF, MAX_BACKOFF, HISTORY, KEEP_FOR, KEEP_RUNS
  FROM QRTZ_JOB WHERE NAME NOT LIKE '` + poisonPrefix + `%'`

	ruleExecutesSQL = `
SELECT E.ID, E.PID, E.STATE, E.JOB_TYPE, E.CRON, E.ZONE_ID, E.REPEAT_COUNT, E.REPEAT_INTERVAL, E.START_TIME, E.END_TIME, E.MISFIRE, E.CATCH_UP_LIMIT
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID WHERE J.NAME LIKE 'lasting%' OR J.NAME LIKE 'resting%'`

	firedSQL = `
SELECT E.ID AS EXECUTE_ID, CAST(COALESCE(SUM(IF(R.STATE = 'SKIPPED', R.FIRE_COUNT, 1)), 0) AS SIGNED) AS FIRES
  FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID JOIN QRTZ_RUN R ON R.EXECUTE_ID = E.ID AND R.ATTEMPT = 1
 WHERE E.REPEAT_COUNT >= 0 AND (J.NAME LIKE 'lasting%' OR J.NAME LIKE 'resting%') GROUP BY E.ID`
)

// readHistory takes a snapshot of the tables.
func (j *judge) readHistory(ctx context.Context, from time.Time) (*history, error) {
	h := &history{from: from, pace: j.t.pace, jobs: map[int64]ruleJob{}, executes: map[int64]ruleExecute{}, fired: map[int64]fired{}, world: (*tortured)(j.t)}
	h.taken = time.Now()
	now, err := schema.Now(ctx, j.db)
	if err != nil {
		return nil, err
	}
	h.now = now
	tx, err := j.db.BeginTxx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // it has only read
	if err := readAll(ctx, tx, h, from); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if h.read, err = schema.Now(ctx, tx); err != nil {
		return nil, err
	}
	h.waits = j.queues.all()
	w := &j.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	h.earlier, h.cancels, h.rests = w.runs, slices.Clone(w.cancels), slices.Clone(w.rests)
	w.runs = make(map[int64]ruleRun, len(h.runs))
	for _, r := range h.runs {
		w.runs[r.ID] = r
	}
	return h, nil
}

func readAll(ctx context.Context, tx *sqlx.Tx, h *history, from time.Time) error {
	var jobs []ruleJob
	var executes []ruleExecute
	var counted []fired
	if err := tx.SelectContext(ctx, &h.runs, ruleRunsSQL, from.UnixMilli()); err != nil {
		return err
	}
	if err := tx.SelectContext(ctx, &jobs, ruleJobsSQL); err != nil {
		return err
	}
	if err := tx.SelectContext(ctx, &executes, ruleExecutesSQL); err != nil {
		return err
	}
	if err := tx.SelectContext(ctx, &counted, firedSQL); err != nil {
		return err
	}
	for _, one := range jobs {
		h.jobs[one.ID] = one
	}
	for _, one := range executes {
		h.executes[one.ID] = one
	}
	for _, one := range counted {
		h.fired[one.Execute] = one
	}
	return nil
}

// chains are the attempts of each fire, or of each run that was asked for, in order.
func (h *history) chains() map[int64][]ruleRun {
	all := map[int64][]ruleRun{}
	for _, r := range h.runs {
		all[r.Origin] = append(all[r.Origin], r)
	}
	for _, chain := range all {
		slices.SortFunc(chain, func(a, b ruleRun) int { return cmp.Compare(a.Attempt, b.Attempt) })
	}
	return all
}

// said is the account of a run that has ended by it; nil if there is none.
func (h *history) said(r ruleRun) *account {
	for _, a := range h.byRun[r.ID] {
		if a.ended {
			return a
		}
	}
	return nil
}

// obeys tells whether a handler of a class ends when its context does.
func obeys(class string) bool { return class != stubborn && class != paying && class != "refused" }

// tortured is the torture, as the rules see it.
type tortured torture

func (t *tortured) stood(from, until time.Time) time.Duration { return t.stalls.within(from, until) }

func (t *tortured) disturbed(a *account, from, until time.Time) bool {
	return !(*torture)(t).well((*torture)(t).processOf(a.life), from, until) || t.locks.any(from, until)
}

func (t *tortured) frozen(a *account, from, until time.Time) bool {
	return (*torture)(t).processOf(a.life).stoodStill(from, until)
}

func (t *tortured) lives(a *account) bool {
	p := (*torture)(t).processOf(a.life)
	return p.lifeName() == a.life && p.life().Running()
}

func (t *tortured) stopping(a *account) (span, bool) {
	return (*torture)(t).processOf(a.life).drained(a.life)
}

func (t *tortured) drainTimeout(a *account) time.Duration {
	return (*torture)(t).processOf(a.life).spec.Drain
}

func (t *tortured) stepped(from, until time.Time) bool {
	around := until.Sub(from) + 10*time.Second // what a node reads may be as old
	return t.clock.steppedBack(from, around) || t.clock.steppedBack(until, around) || t.clock.skipped(from) || t.clock.skipped(until)
}

func (t *tortured) nodeTrouble(app string, from, until time.Time) bool {
	for _, when := range t.clock.ours(from, until) {
		for _, p := range slices.Concat(t.processes, t.calm, t.exact) {
			if p.app == app && !(*torture)(t).well(p, when.from, when.until) {
				return true
			}
		}
	}
	return false
}
