package qrtz

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// The limits of what is read at a time.
const (
	defaultLimit = 100
	maxLimit     = 1000
	maxFires     = 1000
)

// Page is a part of a list.
type Page[T any] struct {
	Rows []T

	// Next is where the next part begins: the After of the same filter. It is empty if this was the last part.
	Next string
}

// AppInfo is an app: a row of QRTZ_APP. Times are in UTC, and zero if there is none.
type AppInfo struct {
	Name       string
	On         bool      // its switch
	SwitchedAt time.Time // when the switch was last thrown
	CheckedAt  time.Time // the last pass of the misfire handler, which one node makes every Config.MisfireInterval
	Nodes      int       // in the cluster
	Jobs       int       // counted up to 1000; 1001 stands for more
}

// NodeState says whether a node is there.
type NodeState string

// The states of a node.
const (
	NodeAlive NodeState = "ALIVE" // its last heartbeat is not older than Config.NodeTimeout of the program that asks
	NodeDead  NodeState = "DEAD"  // it has sent no heartbeat for longer, or the others have declared it dead
	NodeLeft  NodeState = "LEFT"  // it has stopped in order, or was never there
)

// NodeInfo is a node: a row of QRTZ_NODE. Times are in UTC, and zero if there is none.
type NodeInfo struct {
	ID           string
	HostName     string
	State        NodeState
	On           bool // its own switch; while its app is off, it is off too
	StoppedByApp bool // it is off because its app is, and will be on again with it
	JoinedAt     time.Time
	HeartbeatAt  time.Time     // by the database's clock
	ClockSkew    time.Duration // how far its machine's clock is ahead of the database's
	Classes      []string      // it has handlers for, sorted
	Running      int           // its runs that are RUNNING and have a row
	ProcessID    int64
	Version      string // of this module, as far as its build tells
}

// JobState is what a job or a schedule is in. A job's state follows from those of its schedules, within a pass of the misfire
// handler.
type JobState = execute.State

// The states of jobs and schedules.
const (
	JobInit      = execute.Init      // not started
	JobExecuting = execute.Executing // active
	JobPaused    = execute.Paused    // stopped by an operator or a program
	JobComplete  = execute.Complete  // its last fire has been claimed
	JobError     = execute.Error     // it cannot be used; ScheduleInfo.Why says why
)

// JobInfo is a job as it is stored: a row of QRTZ_JOB.
type JobInfo struct {
	ID          int64
	Name        string // empty for a job that was added by SQL without one
	Class       string
	Description string
	State       JobState
	Why         string          // why its runs cannot run by themselves, such as that no live node has a handler for its class; empty if they can
	Data        json.RawMessage // nil for none, and for more than 64 KiB
	Schedules   int             // counted up to 1000; 1001 stands for more
	NextFire    time.Time       // of its active schedules, in UTC; zero for none, or if there are more than 1000 schedules
	Differs     []Difference    // what an operator has changed since the job was declared; FindJob names deleted schedules, too

	Options // as they are stored, with the defaults filled in; Timeout, MaxRunning and KeepRuns are 0 for no limit
}

// ScheduleInfo is a schedule as it is stored: a row of QRTZ_EXECUTE. Its times are in its time zone, which is UTC for a fixed rate,
// and zero if there is none.
type ScheduleInfo struct {
	ID       int64
	JobID    int64
	Job      string // the name of its job, or else the class
	Name     string
	Schedule string // a cron expression, "every 2000 ms" or "once"
	Zone     string // of a cron expression; empty is UTC
	State    JobState
	Why      string // why it is in JobError, or cannot fire by itself; empty otherwise
	Misfire  Misfire
	Start    time.Time
	End      time.Time
	Count    int64 // how many fires there are in all; -1 for no limit
	Fired    int64 // how many of them are behind it
	PrevFire time.Time
	NextFire time.Time
	Fires    []time.Time     // its next fires, as many as ScheduleFilter.Fires asks for
	Data     json.RawMessage // in place of the job's; nil for none
	Differs  []Difference    // what an operator has changed since the schedule was declared
}

// Difference is a column of a job or a schedule whose stored value is not the one that the program declared last.
type Difference = execute.Differs

// RunInfo is a run as it is on record: a row of QRTZ_RUN. FireTime and LastFire are in the time zone of its schedule, or in UTC if it
// has none. The other times are in UTC. What there is not is zero.
type RunInfo struct {
	ID          int64
	Origin      int64 // the first attempt; its own ID if it is that
	Attempt     int   // from 1
	JobID       int64
	Job         string // the name of its job, or else the class; "(deleted)" once the job is gone
	Class       string // empty once the job is gone
	ScheduleID  int64  // 0 for a run that belongs to none
	Schedule    string // the name of its schedule
	Key         string // that the program gave it
	State       RunState
	Why         string // why it cannot run by itself, such as that no live node has a handler for its class; empty if it can
	Node        string // where it runs or ran
	Fence       int64
	FireTime    time.Time // when it was due
	AvailableAt time.Time // from when on this attempt may be claimed
	ClaimedAt   time.Time
	StartedAt   time.Time // when its handler was called; written within a second, or with the result
	FinishedAt  time.Time
	RecoveryOf  int64           // the run, LOST, that this one is a recovery of
	Cancelling  bool            // it is RUNNING, and has been asked to stop
	Fires       int64           // how many fires it stands for; more than 1 only for skipped ones, the last of which is LastFire
	LastFire    time.Time       //
	Progress    int             // in percent, as its handler says; 0 if it does not
	Data        json.RawMessage // its own, or else its schedule's, or its job's; in lists nil if it is larger than 64 KiB
	Message     string          // the error of a failed run, or what its handler says
}

// Ended tells whether this attempt has ended. Another one may follow: see Client.Wait and Client.Attempts.
func (r RunInfo) Ended() bool { return r.State != Pending && r.State != Running }

// JobFilter says which jobs Client.Jobs lists. The zero value is the first hundred.
type JobFilter struct {
	State JobState // empty: any
	After string   // Page.Next of the part before
	Limit int      // at most 1000; defaults to 100
}

// ScheduleFilter says which schedules Client.Schedules lists. The zero value is the hundred that fire next.
type ScheduleFilter struct {
	Job   string   // the name of a job; empty: any
	State JobState // empty: any
	Fires int      // how many fires to compute for each, at most 1000; defaults to none
	After string   // Page.Next of the part before
	Limit int      // at most 1000; defaults to 100
}

// RunFilter says which runs Client.Runs lists. The zero value is the hundred that were available last.
type RunFilter struct {
	Job        string   // the name of a job; empty: any
	ScheduleID int64    // ScheduleInfo.ID; 0: any
	Key        string   // that the program gave the run; needs Job
	State      RunState // empty: any

	// Since and Until bound the time from when on the runs could be claimed (AvailableAt), or with ScheduleID when they were due
	// (FireTime). Since is included, Until is not. Zero for no bound.
	Since, Until time.Time

	After string // Page.Next of the part before
	Limit int    // at most 1000; defaults to 100
}

// read reads with a query outside a transaction, or in the caller's.
func (c *Client) read(ctx context.Context, doing string, fn func(on schema.On) error) error {
	var q sqlx.ExtContext = c.db
	if c.tx != nil {
		if c.tx.Tx == nil {
			return c.failed(doing, errNilTx)
		}
		q = c.tx
	}
	_, err := schema.SafeNow(ctx, q) // values may be put into statements here
	if err == nil {
		err = fn(c.on())
	}
	if err != nil {
		var gone schema.NotFoundError
		if errors.As(err, &gone) {
			err = fmt.Errorf("%w: app %q has no %s", ErrNotFound, c.scheduler.cfg.App, gone.What)
		}
	}
	return c.failed(doing, err)
}

// on is the tables by way of the caller's transaction, or else by the caller's pool: reading must not take a connection from claims.
func (c *Client) on() schema.On { return c.onTables(c.db) }

func (c *Client) onTables(pool *sqlx.DB) schema.On {
	tables := schema.Tables{DB: c.db, Prefix: schema.Prefix(c.scheduler.cfg.Prefix)}
	if c.tx != nil {
		return tables.On(c.tx)
	}
	return tables.On(pool)
}

func (c *Client) handled(on schema.On) *node.Handled {
	return node.NewHandled(on, c.scheduler.cfg.NodeTimeout)
}

// pageOf reads the limit and the beginning of a part of a list.
func pageOf(limit int, after string) (int, schema.Cursor, error) {
	if limit < 0 || limit > maxLimit {
		return 0, schema.Cursor{}, fmt.Errorf("Limit (%d) must be 1 to %d, or 0 for %d", limit, maxLimit, defaultLimit) //nolint:staticcheck // the name of a field
	}
	from, err := schema.ParseCursor(after)
	if err != nil {
		return 0, from, fmt.Errorf("After (%q): %w", after, err) //nolint:staticcheck // the name of a field
	}
	return cmp.Or(limit, defaultLimit), from, nil
}

func asPage[R, T any](part schema.Part[R], info func(R) T) Page[T] {
	page := Page[T]{Rows: make([]T, len(part.Rows)), Next: part.Next.String()}
	for i, r := range part.Rows {
		page.Rows[i] = info(r)
	}
	return page
}

// Apps lists all apps in the tables, by name.
func (c *Client) Apps(ctx context.Context) (apps []AppInfo, err error) {
	err = c.read(ctx, "list apps", func(on schema.On) error {
		rows, err := app.List(ctx, on)
		for _, a := range rows {
			apps = append(apps, AppInfo{
				Name: a.Name, On: a.State == "Y", SwitchedAt: a.SwitchedAt.In(time.UTC), CheckedAt: a.CheckedAt.In(time.UTC), Nodes: a.Nodes, Jobs: a.Jobs,
			})
		}
		return err
	})
	return apps, err
}

// Nodes lists the nodes of the app, by id. Those that have left stay on record.
func (c *Client) Nodes(ctx context.Context) (nodes []NodeInfo, err error) {
	err = c.read(ctx, "list nodes", func(on schema.On) error {
		rows, err := node.List(ctx, on, c.scheduler.cfg.App)
		for _, n := range rows {
			nodes = append(nodes, c.nodeInfo(n))
		}
		return err
	})
	return nodes, err
}

func (c *Client) nodeInfo(n node.Record) NodeInfo {
	state := NodeAlive
	switch {
	case n.Instance == nil && n.HeartbeatAt.IsZero():
		state = NodeLeft
	case n.Instance == nil, millis(n.HeartbeatAge) > c.scheduler.cfg.NodeTimeout:
		state = NodeDead
	}
	return NodeInfo{
		ID: n.ID, HostName: n.HostName, State: state, On: n.State == "Y", StoppedByApp: n.StoppedByApp,
		JoinedAt: n.JoinedAt.In(time.UTC), HeartbeatAt: n.HeartbeatAt.In(time.UTC), ClockSkew: millis(n.ClockSkew), Classes: n.Classes,
		Running: n.Running, ProcessID: orZero(n.Process), Version: orZero(n.Version),
	}
}

// Jobs lists the jobs of the app, by id.
func (c *Client) Jobs(ctx context.Context, f JobFilter) (page Page[JobInfo], err error) {
	err = c.read(ctx, "list jobs", func(on schema.On) error {
		limit, after, err := pageOf(f.Limit, f.After)
		if err != nil {
			return err
		}
		part, err := execute.ListJobs(ctx, on, c.handled(on), execute.JobFilter{App: c.scheduler.cfg.App, State: f.State, After: after, Limit: limit})
		page = asPage(part, jobInfo)
		return err
	})
	return page, err
}

// FindJob is a job of the app, by its name. ErrNotFound says that there is none.
func (c *Client) FindJob(ctx context.Context, name string) (job JobInfo, err error) {
	err = c.read(ctx, "find job", func(on schema.On) error {
		id, err := execute.FindJobID(ctx, on, c.scheduler.cfg.App, name)
		if err != nil {
			return err
		}
		found, err := execute.FindJob(ctx, on, c.handled(on), c.scheduler.cfg.App, id)
		job = jobInfo(found)
		return err
	})
	return job, err
}

func jobInfo(j execute.JobRecord) JobInfo {
	info := JobInfo{
		ID: j.ID, Name: orZero(j.Name), Class: j.Class, Description: orZero(j.Description), State: j.State, Why: j.Why, Data: asJSON(j.Data),
		Schedules: j.Executes, NextFire: j.Next.In(time.UTC), Differs: j.Differs,
		Options: Options{
			Recovery: j.Recovery, Overlap: Overlap(j.Overlap), QueueLimit: j.QueueLimit, MaxRunning: j.MaxRunning, Priority: Priority(j.Priority),
			Timeout: millis(&j.Timeout), Attempts: j.Attempts, Backoff: millis(&j.Backoff), MaxBackoff: millis(&j.MaxBackoff),
			History: History(j.History), KeepFor: millis(&j.KeepFor), KeepRuns: j.KeepRuns,
		},
	}
	info.asDeclared()
	return info
}

// asDeclared makes stored options what a program says to have them.
func (o *Options) asDeclared() {
	if o.KeepFor == 0 {
		o.KeepFor = Forever
	}
	if o.Backoff == 0 {
		o.Backoff = NoBackoff
	}
	for _, limit := range []*int{&o.Attempts, &o.QueueLimit} {
		if *limit == math.MaxInt32 {
			*limit = Unlimited
		}
	}
}

// Schedules lists the schedules of the app, the next to fire first and those without a next fire last; of one job, they are listed by
// id.
func (c *Client) Schedules(ctx context.Context, f ScheduleFilter) (page Page[ScheduleInfo], err error) {
	err = c.read(ctx, "list schedules", func(on schema.On) error {
		limit, after, err := pageOf(f.Limit, f.After)
		if err != nil {
			return err
		}
		if f.Fires < 0 || f.Fires > maxFires {
			return fmt.Errorf("Fires (%d) must be 0 to %d", f.Fires, maxFires) //nolint:staticcheck // the name of a field
		}
		filter := execute.Filter{App: c.scheduler.cfg.App, State: f.State, After: after, Limit: limit}
		if filter.JobID, err = c.jobID(ctx, on, f.Job); err != nil {
			return err
		}
		part, err := execute.List(ctx, on, c.handled(on), filter)
		page = asPage(part, func(e execute.Record) ScheduleInfo { return scheduleInfo(e, f.Fires) })
		return err
	})
	return page, err
}

// jobID is the id of a job by its name; 0 for no name.
func (c *Client) jobID(ctx context.Context, on schema.On, name string) (int64, error) {
	if name == "" {
		return 0, nil
	}
	return execute.FindJobID(ctx, on, c.scheduler.cfg.App, name)
}

func scheduleInfo(e execute.Record, fires int) ScheduleInfo {
	zone := e.Location()
	s := ScheduleInfo{
		ID: e.ID, JobID: e.JobID, Job: e.Job(), Name: orZero(e.Name), Schedule: e.Schedule, Zone: orZero(e.Zone), State: e.State,
		Why: cmp.Or(orZero(e.Reason), e.Why), Misfire: e.Misfire, Start: e.Start.In(zone), End: e.End.In(zone), Count: -1, Fired: e.Fired,
		PrevFire: e.Prev.In(zone), NextFire: e.Next.In(zone), Fires: e.Fires(fires),
		Data: asJSON(e.Data), Differs: e.Differs,
	}
	if e.Count != nil && *e.Count >= 0 {
		s.Count = *e.Count
	}
	return s
}

// Runs lists the runs of the app, the newest first: of a schedule by fire time, of a job by id, else by the time from when on they could
// be claimed.
func (c *Client) Runs(ctx context.Context, f RunFilter) (page Page[RunInfo], err error) {
	err = c.read(ctx, "list runs", func(on schema.On) error {
		limit, after, err := pageOf(f.Limit, f.After)
		if err != nil {
			return err
		}
		if f.Key != "" && (f.Job == "" || f.ScheduleID != 0) {
			return errors.New("a Key belongs to a job: want Job with it, and no ScheduleID")
		}
		filter := run.Filter{
			App: c.scheduler.cfg.App, State: f.State, ExecuteID: f.ScheduleID, Key: f.Key, Since: f.Since, Until: f.Until, After: after, Limit: limit,
		}
		if filter.JobID, err = c.jobID(ctx, on, f.Job); err != nil {
			return err
		}
		part, err := run.List(ctx, on, c.handled(on), filter)
		page = asPage(part, runInfo)
		return err
	})
	return page, err
}

// FindRun is a run of the app, by its id: that attempt, whatever became of it. ErrNotFound says that it is not on record.
func (c *Client) FindRun(ctx context.Context, runID int64) (found RunInfo, err error) {
	err = c.read(ctx, "find run", func(on schema.On) error {
		r, err := c.ownRun(run.Find(ctx, on, c.handled(on), runID))
		found = runInfo(r)
		return err
	})
	return found, err
}

// ownRun is a run that was read, if it is the app's.
func (c *Client) ownRun(r run.Record, err error) (run.Record, error) {
	if err == nil && r.App != c.scheduler.cfg.App {
		return run.Record{}, schema.NotFoundError{What: fmt.Sprintf("run %d", r.ID)}
	}
	return r, err
}

// Attempts lists all attempts of a run, from the first to the latest, by the id of any of them: the run itself, its retries and its
// recoveries. Attempts that its job no longer keeps are missing. ErrNotFound says that there is no run of that id.
func (c *Client) Attempts(ctx context.Context, runID int64) (attempts []RunInfo, err error) {
	err = c.read(ctx, "list attempts", func(on schema.On) error {
		handled := c.handled(on)
		r, err := c.ownRun(run.Look(ctx, on, handled, runID))
		if err != nil {
			return err
		}
		rows, err := run.Attempts(ctx, on, handled, r)
		for _, r := range rows {
			attempts = append(attempts, runInfo(r))
		}
		return err
	})
	return attempts, err
}

func runInfo(r run.Record) RunInfo {
	zone := r.Location()
	return RunInfo{
		ID: r.ID, Origin: r.Origin, Attempt: r.Attempt, JobID: r.JobID, Job: r.Job(), Class: orZero(r.Class), ScheduleID: orZero(r.ExecuteID),
		Schedule: orZero(r.Schedule), Key: orZero(r.Key), State: r.State, Why: r.Why, Node: orZero(r.Node), Fence: r.Fence,
		FireTime: r.Fire.In(zone), AvailableAt: r.AvailableAt.In(time.UTC), ClaimedAt: r.ClaimedAt.In(time.UTC),
		StartedAt: r.StartedAt.In(time.UTC), FinishedAt: r.FinishedAt.In(time.UTC), RecoveryOf: orZero(r.Recovers), Cancelling: r.Cancelling,
		Fires: r.Fires, LastFire: r.LastFire.In(zone), Progress: orZero(r.Progress), Data: asJSON(r.Data), Message: orZero(r.Message),
	}
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func millis(ms *int64) time.Duration { return time.Duration(orZero(ms)) * time.Millisecond }

func asJSON(text *string) json.RawMessage {
	if text == nil {
		return nil
	}
	return json.RawMessage(*text)
}

// SwitchApp switches the app on or off. Off, its nodes start nothing new from the moment this takes effect, and running handlers
// continue; on again, what was due in between is passed over. ErrNotFound says that no node of the app has ever joined.
func (c *Client) SwitchApp(ctx context.Context, on bool) error {
	return c.change(ctx, "switch app", func(tx *sqlx.Tx, _ time.Time) error {
		_, err := app.NewStore(c.db, schema.Prefix(c.scheduler.cfg.Prefix), c.scheduler.cfg.App).Switch(ctx, tx, on)
		return c.orNotFound(err, "no row, since none of its nodes has joined yet")
	})
}

// SwitchNode switches a node of the app on or off, by its id, as SwitchApp does the app. Its process stays, and is still off when it
// is started again. ErrNotFound says that there is no such node.
func (c *Client) SwitchNode(ctx context.Context, nodeID string, on bool) error {
	return c.change(ctx, "switch node", func(tx *sqlx.Tx, _ time.Time) error {
		_, err := node.NewStore(c.db, schema.Prefix(c.scheduler.cfg.Prefix), c.scheduler.cfg.App).Switch(ctx, tx, nodeID, on)
		return c.orNotFound(err, fmt.Sprintf("no node %q", nodeID))
	})
}

// orNotFound is ErrNotFound for a row that is not there.
func (c *Client) orNotFound(err error, what string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: app %q has %s", ErrNotFound, c.scheduler.cfg.App, what)
	}
	return err
}
