package misfire

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
)

var errAway = errors.New("away")

const (
	interval     = 15 * time.Second
	misfireAfter = time.Minute
)

// cluster is all that the handler needs, in memory. Calls are recorded in order.
type cluster struct {
	calls   []string
	writes  int
	mu      sync.Mutex       // of err
	err     map[string]error // by call
	log     bytes.Buffer
	entered []time.Time

	awayFrom, awayUntil time.Time // the database
	told                []run.Stuck

	theirs    bool // another node has the lock-time window
	previous  time.Time
	dead      []node.Node
	view      node.View
	abandoned []int64
	lost      []int64
	held      map[int64]int // how many runs of each; nil: two
	derive    int           // calls of DeriveJobStates that leave more to do
	hangs     bool          // DeriveJobStates does, until it is given up
	cleaned   time.Time     // of CleanHistory

	rows    map[int64]*execute.Execute
	stuck   map[int64]bool // cannot be moved
	moves   []execute.Move
	batches []int             // how many moves each call of Move had
	skipped []run.SkippedFire // that a call of Move tells of
	due     []run.Stuck
	work    time.Duration // how long every statement takes
}

func (c *cluster) call(name string) error {
	c.calls = append(c.calls, name)
	time.Sleep(c.work)
	if now := time.Now(); now.After(c.awayFrom) && now.Before(c.awayUntil) {
		return errAway
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err[name]
}

// errors changes err while the handler runs.
func (c *cluster) errors(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// count is how often something was called.
func (c *cluster) count(name string) (n int) {
	for _, call := range c.calls {
		if call == name {
			n++
		}
	}
	return n
}

func (c *cluster) write(name string) error {
	c.writes++
	return c.call(name)
}

func (c *cluster) Now() time.Time      { return time.Now().UTC() }
func (c *cluster) Self() node.Instance { return node.Instance{NodeID: "n1", ID: 7} }

func (c *cluster) Enter(context.Context, time.Time, time.Duration) (app.Window, error) {
	c.entered = append(c.entered, time.Now())
	return app.Window{Mine: !c.theirs, Previous: c.previous}, c.call("enter")
}

func (c *cluster) ReadView(context.Context) (node.View, error) { return c.view, c.call("view") }
func (c *cluster) SyncSwitches(context.Context) error          { return c.write("sync switches") }
func (c *cluster) Adopt(context.Context) error                 { return c.write("adopt") }
func (c *cluster) MarkPaused(context.Context) error            { return c.write("mark paused") }
func (c *cluster) FreeOverlapKeys(context.Context) error       { return c.write("free overlap keys") }

func (c *cluster) Abandoned(context.Context) (ids []int64, err error) {
	return c.abandoned, c.call("abandoned")
}

func (c *cluster) Bury(context.Context) ([]node.Node, error) { return c.dead, c.write("bury") }

func (c *cluster) Lose(_ context.Context, instance int64, _ string) ([]run.LostRun, error) {
	c.lost = append(c.lost, instance)
	if c.held != nil {
		return make([]run.LostRun, c.held[instance]), c.write("lose")
	}
	return make([]run.LostRun, 2), c.write("lose")
}

func (c *cluster) CleanHistory(_ context.Context, now time.Time) (int, bool, error) {
	c.cleaned = now
	return 3, false, c.write("clean history")
}

func (c *cluster) DeriveJobStates(ctx context.Context) (bool, error) {
	if c.hangs {
		<-ctx.Done()
		return false, ctx.Err()
	}
	c.derive--
	return c.derive >= 0, c.write("derive")
}

func (c *cluster) find(name string, limit int, keep func(*execute.Execute) bool) ([]*execute.Execute, error) {
	err := c.call(name)
	var found []*execute.Execute
	for _, e := range c.rows {
		if keep(e) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *execute.Execute) int { return int(a.ID - b.ID) })
	return found[:min(limit, len(found))], err
}

func (c *cluster) OverdueAfter(_ context.Context, state execute.State, classes []string, after execute.Cursor, until time.Time, limit int) ([]*execute.Execute, error) {
	return c.after("overdue", after, until, limit, func(e *execute.Execute) bool {
		return e.State == state && slices.Contains(classes, e.Class)
	})
}

func (c *cluster) PausedAfter(_ context.Context, after execute.Cursor, until time.Time, limit int) ([]*execute.Execute, error) {
	return c.after("paused overdue", after, until, limit, func(e *execute.Execute) bool { return e.State == execute.Paused })
}

func (c *cluster) after(name string, after execute.Cursor, until time.Time, limit int, keep func(*execute.Execute) bool) ([]*execute.Execute, error) {
	found, err := c.find(name, len(c.rows), func(e *execute.Execute) bool {
		at := e.Cursor()
		return keep(e) && !e.Next.After(until) && (at.Next > after.Next || at.Next == after.Next && at.ID > after.ID)
	})
	slices.SortStableFunc(found, func(a, b *execute.Execute) int { return a.Next.Compare(b.Next) })
	return found[:min(limit, len(found))], err
}

func (c *cluster) New(_ context.Context, classes []string, limit int) ([]*execute.Execute, error) {
	return c.find("new", limit, func(e *execute.Execute) bool {
		return e.State == execute.Executing && e.Next.IsZero() && slices.Contains(classes, e.Class)
	})
}

func (c *cluster) Broken(_ context.Context, after int64, limit int) ([]*execute.Execute, error) {
	return c.find("broken", limit, func(e *execute.Execute) bool { return e.State == execute.Error && e.ID > after })
}

func (c *cluster) StuckExecutes(context.Context, time.Time) ([]run.Stuck, error) {
	return c.due, c.call("stuck executes")
}

func (c *cluster) StuckRuns(context.Context, time.Time) ([]run.Stuck, error) {
	return nil, c.write("stuck runs")
}

func (c *cluster) Move(_ context.Context, who node.Instance, from execute.State, moves []execute.Move) (done execute.Applied, err error) {
	if who != c.Self() {
		panic("not this instance")
	}
	if len(moves) == 0 {
		return done, nil
	}
	if err := c.write("move"); err != nil {
		return done, err
	}
	c.batches, done.Skipped = append(c.batches, len(moves)), c.skipped
	for _, m := range moves {
		if e := c.rows[m.Execute.ID]; e.State == from && !c.stuck[e.ID] {
			moved := *m.Execute
			moved.State, moved.Prev, moved.Next, moved.ResumedAt, moved.Problem = m.State, m.Prev, m.Next, time.Time{}, nil
			c.rows[e.ID] = &moved
			c.moves = append(c.moves, m)
			done.Moved = append(done.Moved, &moved)
		}
	}
	return done, nil
}

// add adds an active execute of a class with a fixed rate.
func (c *cluster) add(id int64, class string, rate time.Duration, next time.Time) *execute.Execute {
	var s execute.Schedules
	start := next
	if next.IsZero() {
		start = time.Now()
	}
	schedule, err := s.Parse(execute.Spec{Kind: execute.Simple, Every: rate, Repeat: execute.Forever, Start: start})
	if err != nil {
		panic(err)
	}
	e := &execute.Execute{ID: id, Class: class, State: execute.Executing, Misfire: execute.FireOnce, CatchUpLimit: 100, Schedule: schedule, Next: next}
	c.rows[id] = e
	return e
}

// in runs a test in a bubble, with a cluster of this node, which claims "tick", and one that is off, which handles "off".
func in(t *testing.T, test func(t *testing.T, c *cluster, h *Handler, now time.Time)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		c := &cluster{
			rows: map[int64]*execute.Execute{}, stuck: map[int64]bool{}, err: map[string]error{},
			view: node.View{At: now, AppOn: true, Nodes: []node.Node{
				{ID: "n1", On: true, Instance: 7, Heartbeat: now, Classes: []string{"tick"}},
				{ID: "n2", On: false, Instance: 8, Heartbeat: now, Classes: []string{"off", "tick"}},
				{ID: "n3", On: true, Heartbeat: now, Classes: []string{"gone"}},
			}},
		}
		h := New(c, c, c, c, Config{
			Interval: interval, MisfireAfter: misfireAfter, Log: zerolog.New(&c.log),
			Stuck: func(stuck []run.Stuck) { c.told = append(c.told, stuck...) },
		})
		test(t, c, h, now)
	})
}
