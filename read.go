package qrtz

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/text"
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
		if err := knownState(f.State, execute.States); err != nil {
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
		if err := knownState(f.State, execute.States); err != nil {
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

// knownState refuses the state of a filter that nothing is ever in.
func knownState[S ~string](state S, all []S) error {
	if state == "" || slices.Contains(all, state) {
		return nil
	}
	return fmt.Errorf("State (%q): want one of %s, or none for any", state, text.List(all)) //nolint:staticcheck // the name of a field
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
		Why: cmp.Or(orZero(e.Reason), e.Why), Misfire: e.Misfire, Start: e.Start.In(zone), End: e.End.In(zone), Count: Unlimited, Fired: e.Fired,
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
		if err := knownState(f.State, run.States); err != nil {
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
		FireCount: r.Fires, LastFire: r.LastFire.In(zone), Progress: orZero(r.Progress), Data: asJSON(r.Data), Message: orZero(r.Message),
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
