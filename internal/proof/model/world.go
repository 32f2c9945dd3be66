package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/schema"
)

const (
	appName = "model"
	startAt = ms(1893456000000) // 2030-01-01, a Tuesday
	procs   = 3
)

// classesOf are the classes that a process has handlers for.
var classesOf = [procs][]string{{"c1", "c2", "c3"}, {"c1", "c2", "c3"}, {"c1"}}

func classOfJob(id int64) string { return fmt.Sprintf("c%d", id) }

// world is the engine under test: processes, and a database in which nothing happens but what the steps say.
type world struct {
	ctx     context.Context
	cfg     *mysql.Config
	clock   *clock
	db      *sql.DB // of operators, and for comparing
	client  *qrtz.Scheduler
	taps    [procs]*tap
	pools   [procs]*sql.DB
	manuals [procs]*qrtz.Manual
	lives   [procs]int
	modes   map[string]string
	ids     map[int]int64 // of the runs that were asked for
	asked   map[int64]int
	asks    int
	runIDs  map[string]int64 // of the rows, by their names and attempts
	origins map[string]int64 // of their first attempts
}

// newWorld works in a database that has the tables.
func newWorld(ctx context.Context, cfg *mysql.Config) (*world, error) {
	w := &world{ctx: ctx, cfg: cfg, clock: &clock{now: startAt}, modes: map[string]string{}}
	c, err := newConnector(cfg, w.clock, nil)
	if err != nil {
		return nil, err
	}
	w.db = sql.OpenDB(c)
	w.db.SetMaxOpenConns(4)
	w.db.SetMaxIdleConns(4)
	for i := range procs {
		w.taps[i] = &tap{}
		c, err := newConnector(cfg, w.clock, w.taps[i])
		if err != nil {
			return nil, err
		}
		own := sql.OpenDB(c)
		w.pools[i] = schema.Borrow(own).Pool(3).DB
	}
	if w.client, err = qrtz.Open(w.db, w.config("")); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *world) config(node string) qrtz.Config {
	log := zerolog.Nop()
	return qrtz.Config{App: appName, NodeID: node, Logger: &log}
}

var tables = []string{"QRTZ_RUN", "QRTZ_EXECUTE", "QRTZ_JOB", "QRTZ_HEARTBEAT", "QRTZ_NODE", "QRTZ_APP"}

// reset empties the tables, and has no process live.
func (w *world) reset() error {
	for i := range procs {
		w.kill(i)
		w.lives[i] = 0
		*w.taps[i] = tap{}
	}
	w.clock.now = startAt
	clear(w.modes)
	w.ids, w.asked, w.asks = map[int]int64{}, map[int64]int{}, 0
	w.runIDs, w.origins = map[string]int64{}, map[string]int64{}
	_, err := w.db.ExecContext(w.ctx, "DELETE FROM "+strings.Join(tables, "; DELETE FROM "))
	return err
}

func (w *world) close() {
	for i := range procs {
		w.kill(i)
		_ = w.pools[i].Close()
	}
	_ = w.db.Close()
}

func (w *world) kill(i int) {
	if w.manuals[i] != nil {
		w.manuals[i].Abandon()
		w.manuals[i] = nil
	}
}

var errHandler = errors.New("the handler has failed")

func (w *world) handler(class string) func(context.Context, *qrtz.Run, struct{}) error {
	return func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
		switch w.modes[class] {
		case "fail":
			return errHandler
		case "noretry":
			return qrtz.NoRetry(errHandler)
		case "retry5":
			return qrtz.RetryAfter(errHandler, 5*time.Second)
		case "obey":
			return ctx.Err()
		}
		return nil
	}
}

const joinLimit = 20 * time.Second

// join has a process begin to live.
func (w *world) join(i int, id string) error {
	s, err := qrtz.Open(w.pools[i], w.config(id))
	if err != nil {
		return err
	}
	for _, class := range classesOf[i] {
		qrtz.Handle(s, class, w.handler(class))
	}
	ctx, cancel := context.WithTimeout(w.ctx, joinLimit) // it waits for ever for a node that it does not know to be dead
	defer cancel()
	w.manuals[i], err = s.Manual(ctx, "")
	if err != nil {
		w.manuals[i] = nil
	}
	return err
}

func (w *world) exec(query string, args ...any) error {
	_, err := w.db.ExecContext(w.ctx, query, args...)
	return err
}

func yn(on bool) string {
	if on {
		return "Y"
	}
	return "N"
}

// addJob and addExec add rows by SQL.
func (w *world) addJob(j job) error {
	o := j.opts
	return w.exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, NAME, JOB_CLASS, RECOVERY, OVERLAP, QUEUE_LIMIT, MAX_RUNNING, PRIORITY, RUN_TIMEOUT,
		ATTEMPTS, BACKOFF, MAX_BACKOFF, HISTORY, KEEP_RUNS) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		j.id, appName, j.class, j.class, o.recovery, o.overlap, o.queueLimit, o.maxRunning, o.priority, o.timeout, o.attempts, o.backoff, o.maxBackoff, o.history, o.keepRuns)
}

func (w *world) addExec(e exec) error {
	kind, end := "SIMPLE", e.spec.end
	if e.spec.cron != "" {
		kind = "CRON"
	}
	if end == 0 {
		end = -1
	}
	var of any
	if e.adopted {
		of = appName
	}
	return w.exec(`INSERT INTO QRTZ_EXECUTE (ID, PID, APPLICATION, JOB_TYPE, CRON, ZONE_ID, REPEAT_COUNT, REPEAT_INTERVAL, START_TIME, END_TIME, MISFIRE,
		CATCH_UP_LIMIT, STATE) VALUES (?, ?, ?, ?, ?, 'UTC', ?, ?, ?, ?, ?, ?, ?)`,
		e.id, e.job, of, kind, e.spec.cron, e.spec.repeat, e.spec.every, e.spec.start, end, e.misfire, e.catchUp, e.state)
}

// noteRequest keeps the id of a run that was asked for.
func (w *world) noteRequest(id int64) {
	w.asks++
	w.ids[w.asks], w.asked[id] = id, w.asks
}

func (w *world) enqueue(job int64, s Step) (request int, taken bool, err error) {
	var options []qrtz.EnqueueOption
	if s.By > 0 {
		options = append(options, qrtz.StartAt(time.UnixMilli(w.clock.now+s.By)))
	}
	if s.Text != "" {
		if s.On {
			options = append(options, qrtz.Once(s.Text))
		} else {
			options = append(options, qrtz.WithKey(s.Text))
		}
	}
	if tries := s.N % 4; tries > 0 {
		options = append(options, qrtz.WithAttempts(tries))
	}
	if prio := s.N / 4 % 4; prio > 0 {
		options = append(options, qrtz.WithPriority(qrtz.Priority(prio-2)))
	}
	if s.N/16%2 == 1 {
		options = append(options, qrtz.WithTimeout(3*time.Second))
	}
	id, err := w.client.Enqueue(w.ctx, classOfJob(job), nil, options...)
	if errors.Is(err, qrtz.ErrKeyTaken) {
		return w.asked[id], true, nil
	}
	if err != nil {
		return 0, false, err
	}
	w.noteRequest(id)
	return w.asks, false, nil
}

// compared is what is read after each step.
const compared = `
SELECT CONCAT_WS(' ', 'app', STATE, COALESCE(CAST(UNIX_TIMESTAMP(SWITCHED_AT) * 1000 AS SIGNED), 0), TIME_PRE, TIME_NEXT) FROM QRTZ_APP;
SELECT CONCAT_WS(' ', 'node', HOST_IP, STATE, STOPPED_BY_APP, INSTANCE IS NOT NULL, COALESCE(CAST(UNIX_TIMESTAMP(SWITCHED_AT) * 1000 AS SIGNED), 0),
       COALESCE(OFF_SINCE, 0), COALESCE(OFF_SEEN_AT, 0), COALESCE(APP_OFF_SINCE, 0), COALESCE(APP_OFF_SEEN_AT, 0)) FROM QRTZ_NODE ORDER BY HOST_IP;
SELECT CONCAT_WS(' ', 'job', ID, STATE) FROM QRTZ_JOB ORDER BY ID;
SELECT CONCAT_WS(' ', 'exec', ID, COALESCE(APPLICATION, '-'), STATE, STATE_REASON IS NOT NULL, 'prev', GREATEST(PREV_FIRE_TIME, 0), 'next', COALESCE(NEXT_FIRE_TIME, 0),
       'fired', GREATEST(TIME_TRIGGERED, 0), 'paused', COALESCE(PAUSED_AT, 0)) FROM QRTZ_EXECUTE ORDER BY ID;
SELECT ID, COALESCE(EXECUTE_ID, 0), FIRE_TIME, ATTEMPT, COALESCE(ORIGIN, ID), COALESCE(RECOVERS, 0), CONCAT_WS(' ', 'job', JOB_ID, STATE, 'at', AVAILABLE_AT, COALESCE(HOST_IP, '-'),
       'claimed', COALESCE(CLAIMED_AT, 0), 'started', COALESCE(STARTED_AT, 0), 'finished', COALESCE(FINISHED_AT, 0), 'count', FIRE_COUNT, COALESCE(LAST_FIRE_TIME, 0),
       'recoveries', RECOVERIES, 'cancel', COALESCE(CANCEL_AT, 0), 'slot', OVERLAP_KEY IS NOT NULL, 'key', COALESCE(RUN_KEY, '-'), COALESCE(KEY_LIVE, 0), KEY_ONCE)
  FROM QRTZ_RUN ORDER BY ID`

// dump is what the tables say, line by line, in words that the model has, too.
func (w *world) dump() ([]string, error) {
	rows, err := w.db.QueryContext(w.ctx, compared)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for set := 0; set < 4; set++ {
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				return nil, err
			}
			all = append(all, line)
		}
		if !rows.NextResultSet() {
			return nil, errors.Join(rows.Err(), errors.New("the answer ended early"))
		}
	}
	type row struct {
		id, exec, fire, attempt, origin, recovers int64
		rest                                      string
	}
	var runs []row
	names := map[int64]string{}
	clear(w.runIDs)
	clear(w.origins)
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.id, &r.exec, &r.fire, &r.attempt, &r.origin, &r.recovers, &r.rest); err != nil {
			return nil, err
		}
		runs = append(runs, r)
		request := 0
		if r.exec == 0 {
			request = w.asked[r.origin]
		}
		names[r.id] = runName(r.exec, r.fire, request, int(r.attempt))
		w.runIDs[names[r.id]], w.origins[names[r.id]] = r.id, r.origin
	}
	for _, r := range runs {
		recovers := "-"
		if r.recovers != 0 {
			if recovers = names[r.recovers]; recovers == "" {
				recovers = "gone"
			}
		}
		all = append(all, fmt.Sprintf("run %s fire %d %s recovers %s", names[r.id], r.fire, r.rest, recovers))
	}
	slices.Sort(all)
	return all, rows.Err()
}

func runName(exec int64, fire ms, request, attempt int) string {
	if exec == 0 {
		return fmt.Sprintf("asked %d #%d", request, attempt)
	}
	return fmt.Sprintf("exec %d at %d #%d", exec, fire, attempt)
}

func (r *run) label() string { return runName(r.exec, r.fire, r.request, r.attempt) }

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func or(s, none string) string {
	if s == "" {
		return none
	}
	return s
}

// dump is what the tables are to say.
func (m *model) dump() []string {
	var all []string
	if m.app.there {
		all = append(all, fmt.Sprintf("app %s %d %d %d", yn(m.app.on), m.app.switched, m.app.pre, m.app.next))
	}
	for _, n := range m.nodes {
		all = append(all, fmt.Sprintf("node %s %s %d %d %d %d %d %d %d", n.id, yn(n.on), bit(n.byApp), bit(n.instance != 0), n.switched, n.offSince, n.offSeen, n.appOffSince, n.appSeen))
	}
	for _, j := range m.jobs {
		all = append(all, fmt.Sprintf("job %d %s", j.id, j.state))
	}
	for _, e := range m.execs {
		of := appName
		if !e.adopted {
			of = "-"
		}
		all = append(all, fmt.Sprintf("exec %d %s %s %d prev %d next %d fired %d paused %d", e.id, of, e.state, bit(e.reason), e.prev, e.next, e.fired, e.pausedAt))
	}
	labels := map[int]string{}
	for i := range m.runs {
		labels[m.runs[i].seq] = m.runs[i].label()
	}
	for i := range m.runs {
		r := &m.runs[i]
		recovers := "-"
		if r.recovers != 0 {
			recovers = or(labels[r.recovers], "gone")
		}
		all = append(all, fmt.Sprintf("run %s fire %d job %d %s at %d %s claimed %d started %d finished %d count %d %d recoveries %d cancel %d slot %d key %s %d %d recovers %s",
			r.label(), r.fire, r.job, r.state, r.available, or(r.host, "-"), r.claimedAt, r.started, r.finished, r.count, r.lastFire, r.recoveries, r.cancelAt,
			bit(r.slot != 0), or(r.key, "-"), bit(r.keyLive), bit(r.once), recovers))
	}
	slices.Sort(all)
	return all
}
