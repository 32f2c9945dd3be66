package poller

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
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/pool"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

const interval = 5 * time.Second

var errAway = errors.New("away")

// every is an execute with a fixed rate whose next fire is next.
func every(id int64, rate time.Duration, next time.Time) *execute.Execute {
	var s execute.Schedules
	schedule, err := s.Parse(execute.Spec{Kind: execute.Simple, Every: rate, Repeat: execute.Forever, Start: next})
	if err != nil {
		panic(err)
	}
	return &execute.Execute{ID: id, Class: "tick", State: execute.Executing, Schedule: schedule, Next: next}
}

// fakeStore holds executes and runs in memory. A claim is won if the execute still is where the claimer saw it.
type fakeStore struct {
	mu       sync.Mutex
	rows     map[int64]*execute.Execute
	fresh    []int64 // without a next fire
	lost     map[int64]bool
	claims   []claimed
	moved    []execute.Move
	handed   []int64
	pending  []run.PendingRun
	unseen   map[int64]bool // of these, what is not committed yet
	page     int            // how many of them a page has; 0: all
	read     int            // how many of them have been read, page by page
	looks    []execute.Look
	glance   execute.Glance
	calls    map[string]int
	err      error
	claimErr error         // of Claim and ClaimPending, once, after they have been carried out
	hang     bool          // ClaimPending gets no answer
	deaf     bool          // PendingPage does not
	hollow   int           // pages, of 50 ms each, of which nothing is for this node
	slow     time.Duration // how long a claim takes
	runID    int64
}

type claimed struct {
	at time.Time
	run.Run
}

func newFakeStore(rows ...*execute.Execute) *fakeStore {
	s := &fakeStore{rows: map[int64]*execute.Execute{}, lost: map[int64]bool{}, calls: map[string]int{}}
	s.glance.AppOn, s.glance.NodeOn = true, true
	for _, e := range rows {
		s.rows[e.ID] = e
	}
	return s
}

// call counts a call and fails it while the database is away. It leaves the store locked.
func (s *fakeStore) call(name string) error {
	s.mu.Lock()
	s.calls[name]++
	return s.err
}

func (s *fakeStore) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *fakeStore) between(from, until time.Time) (found []*execute.Execute) {
	for _, e := range s.rows {
		if e.State == execute.Executing && !e.Next.Before(from) && !e.Next.After(until) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *execute.Execute) int { return int(a.ID - b.ID) })
	return found
}

func (s *fakeStore) Due(_ context.Context, from, until time.Time, mayBe func(int64) bool, keep func(int64, string) bool) ([]*execute.Execute, error) {
	defer s.mu.Unlock()
	if err := s.call("Due"); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(s.between(from, until), func(e *execute.Execute) bool { return mayBe != nil && !mayBe(e.ID) || !keep(e.ID, e.Class) }), nil
}

func (s *fakeStore) Overdue(_ context.Context, _ execute.State, classes []string, from, until time.Time, _ int) ([]*execute.Execute, error) {
	defer s.mu.Unlock()
	if err := s.call("Overdue"); err != nil || len(classes) == 0 {
		return nil, err
	}
	return s.between(from, until), nil
}

func (s *fakeStore) New(context.Context, []string, int) (all []*execute.Execute, err error) {
	defer s.mu.Unlock()
	err = s.call("New")
	for _, id := range s.fresh {
		all = append(all, s.rows[id])
	}
	return all, err
}

func (s *fakeStore) Changed(_ context.Context, _, from, until time.Time, _ int) ([]*execute.Execute, error) {
	defer s.mu.Unlock()
	return s.between(from, until), s.call("Changed")
}

func (s *fakeStore) Glance(_ context.Context, l execute.Look) (execute.Glance, error) {
	defer s.mu.Unlock()
	err := s.call("Glance")
	s.looks = append(s.looks, l)
	g := s.glance
	g.Overdue = len(s.between(l.From, l.Until)) > 0
	g.New = len(s.fresh) > 0
	g.Pending = slices.ContainsFunc(s.pending, func(r run.PendingRun) bool { return !r.AvailableAt.After(l.Now) && !s.unseen[r.ID] })
	return g, err
}

func (s *fakeStore) Adopt(context.Context) error { defer s.mu.Unlock(); return s.call("Adopt") }

func (s *fakeStore) MarkPaused(context.Context) error {
	defer s.mu.Unlock()
	return s.call("MarkPaused")
}

func (s *fakeStore) Claim(ctx context.Context, who node.Instance, moves []execute.Move) (won execute.Applied, err error) {
	select {
	case <-ctx.Done():
		return won, ctx.Err()
	case <-time.After(s.slow):
	}
	defer s.mu.Unlock()
	if err := s.call("Claim"); err != nil {
		return won, err
	}
	won = s.move(who, moves)
	for _, r := range won.Runs {
		s.claims = append(s.claims, claimed{time.Now().UTC(), r})
	}
	if err, s.claimErr = s.claimErr, nil; err != nil {
		if errors.Is(err, schema.ErrCommitUnknown) {
			return execute.Applied{InDoubt: moves}, err
		}
		return execute.Applied{}, err
	}
	return won, nil
}

func (s *fakeStore) Move(_ context.Context, who node.Instance, _ execute.State, moves []execute.Move) (execute.Applied, error) {
	defer s.mu.Unlock()
	if err := s.call("Move"); err != nil {
		return execute.Applied{}, err
	}
	s.moved = append(s.moved, moves...)
	return s.move(who, moves), nil
}

func (s *fakeStore) move(who node.Instance, moves []execute.Move) (won execute.Applied) {
	for _, m := range moves {
		row := s.rows[m.Execute.ID]
		if s.lost[m.Execute.ID] || row == nil || !row.Next.Equal(m.Execute.Next) || row.State != m.Execute.State {
			continue
		}
		moved := *m.Execute
		moved.State, moved.Prev, moved.Next, moved.ResumedAt = m.State, m.Prev, m.Next, time.Time{}
		moved.Fired += m.Fires
		s.rows[moved.ID] = &moved
		s.fresh = slices.DeleteFunc(s.fresh, func(id int64) bool { return id == moved.ID })
		won.Moved = append(won.Moved, &moved)
		for _, r := range m.Runs {
			s.runID++
			won.Runs = append(won.Runs, run.Run{ID: s.runID, ExecuteID: moved.ID, Class: moved.Class, FireTime: r.FireTime, Attempt: 1, Instance: who.ID})
		}
	}
	slices.SortFunc(won.Runs, func(a, b run.Run) int { return a.FireTime.Compare(b.FireTime) })
	return won
}

func (s *fakeStore) Pending(context.Context, []string, time.Time, int) ([]run.PendingRun, error) {
	defer s.mu.Unlock()
	err := s.call("Pending")
	return slices.Clone(s.pending), err
}

func (s *fakeStore) PendingPage(ctx context.Context, _ []string, until time.Time, from run.Place) (page run.PendingPage, err error) {
	defer s.mu.Unlock()
	if err = s.call("PendingPage"); s.deaf {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return page, ctx.Err()
	}
	if s.hollow > 0 {
		s.hollow--
		s.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
		s.mu.Lock()
		return run.PendingPage{More: true}, err
	}
	for _, r := range s.pending {
		if !r.AvailableAt.After(until) && !s.unseen[r.ID] {
			page.Runs = append(page.Runs, r)
		}
	}
	if s.page > 0 {
		page.Runs = page.Runs[min(s.read, len(page.Runs)):]
		page.More = len(page.Runs) > s.page
		page.Runs = page.Runs[:min(s.page, len(page.Runs))]
		if s.read += len(page.Runs); !page.More {
			s.read = 0
		}
	}
	return page, err
}

func (s *fakeStore) UrgentPage(_ context.Context, _ []string, until time.Time, above run.Priority, _ run.Place) (page run.PendingPage, err error) {
	defer s.mu.Unlock()
	err = s.call("UrgentPage")
	for _, r := range s.pending {
		if !r.AvailableAt.After(until) && r.Priority > above {
			page.Runs = append(page.Runs, r)
		}
	}
	return page, err
}

func (s *fakeStore) PendingByID(_ context.Context, _ []string, ids []int64) (found []run.PendingRun, seen []int64, err error) {
	defer s.mu.Unlock()
	err = s.call("PendingByID")
	for _, r := range s.pending {
		if slices.Contains(ids, r.ID) && !s.unseen[r.ID] {
			found, seen = append(found, r), append(seen, r.ID)
		}
	}
	return found, seen, err
}

func (s *fakeStore) ClaimPending(ctx context.Context, who node.Instance, runs []run.PendingRun) (c run.Claimed, err error) {
	if s.hang {
		<-ctx.Done()
		return c, ctx.Err()
	}
	time.Sleep(s.slow)
	defer s.mu.Unlock()
	if err := s.call("ClaimPending"); err != nil {
		return c, err
	}
	s.pending = slices.DeleteFunc(s.pending, func(w run.PendingRun) bool {
		if !slices.ContainsFunc(runs, func(r run.PendingRun) bool { return r.ID == w.ID }) {
			return false
		}
		r := run.Run{ID: w.ID, Class: w.Class, FireTime: w.AvailableAt, Attempt: 1, Instance: who.ID}
		c.Runs = append(c.Runs, r)
		s.claims = append(s.claims, claimed{time.Now().UTC(), r})
		return true
	})
	if err, s.claimErr = s.claimErr, nil; err != nil {
		if errors.Is(err, schema.ErrCommitUnknown) {
			return run.Claimed{InDoubt: runs}, err
		}
		return run.Claimed{}, err
	}
	return c, nil
}

func (s *fakeStore) HandBack(_ context.Context, runs []run.Run) ([]run.Run, error) {
	defer s.mu.Unlock()
	if err := s.call("HandBack"); err != nil {
		return runs, err
	}
	for _, r := range runs {
		s.handed = append(s.handed, r.ID)
	}
	return nil, nil
}

func (s *fakeStore) HandBackPending(_ context.Context, _ node.Instance, runs []run.PendingRun) ([]run.PendingRun, error) {
	defer s.mu.Unlock()
	if err := s.call("HandBackPending"); err != nil {
		return runs, err
	}
	for _, r := range runs {
		s.handed = append(s.handed, r.ID)
	}
	return nil, nil
}

func (s *fakeStore) LeaveForOthers(_ context.Context, runs []run.Run) error {
	defer s.mu.Unlock()
	if len(runs) == 0 {
		s.mu.Lock()
		return nil
	}
	err := s.call("LeaveForOthers")
	for _, r := range runs {
		s.handed = append(s.handed, r.ExecuteID)
	}
	return err
}

func (s *fakeStore) HandBackFires(_ context.Context, _ node.Instance, moves []execute.Move) ([]execute.Move, error) {
	defer s.mu.Unlock()
	if err := s.call("HandBackFires"); err != nil {
		return moves, err
	}
	for _, m := range moves {
		s.handed = append(s.handed, m.Execute.ID)
	}
	return nil, nil
}

// bench is a poller on fakes, in the time of a synctest bubble.
type bench struct {
	*Poller
	t       *testing.T
	store   *fakeStore
	cluster *fakeCluster
	pool    *pool.Pool

	mu      sync.Mutex
	log     bytes.Buffer
	started []claimed // what has begun, and when
	hold    chan struct{}
	takes   func() // how long a run takes; nil: no time
	stop    func()
}

func (b *bench) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *bench) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

// benched runs a test with a poller that has yet to be started. now is the bubble's, in whole seconds.
func benched(t *testing.T, slots int, test func(b *bench, now time.Time)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, store: newFakeStore(), cluster: &fakeCluster{}, pool: pool.New(slots), stop: func() {}}
		b.Poller = New(b.store, b.store, b.cluster, b.pool, Config{
			Interval: interval, MisfireAfter: time.Minute, Classes: []string{"tick"}, Log: zerolog.New(b),
			Unhandled: func(string) {}, Run: b.run,
		})
		defer func() { b.stop() }()
		test(b, time.Now().UTC())
	})
}

func (b *bench) run(r run.Run, startedAt time.Time) {
	b.mu.Lock()
	b.started = append(b.started, claimed{startedAt, r})
	hold := b.hold
	b.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if b.takes != nil {
		b.takes()
	}
}

func (b *bench) begun() []claimed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.started)
}

func (b *bench) start() {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() { b.Run(ctx); close(done) }()
	b.stop = sync.OnceFunc(func() { cancel(); <-done })
}

// rest lets time pass, and everything come to rest.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) put(rows ...*execute.Execute) {
	b.store.set(func() {
		for _, e := range rows {
			b.store.rows[e.ID] = e
		}
	})
}

func (b *bench) calls(name string) int {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	return b.store.calls[name]
}

func (b *bench) allFree(slots int) {
	b.t.Helper()
	require.Equal(b.t, slots, b.pool.Free(), "slots leak")
}

// fakeCluster is what a node knows of the others. Its clock may differ from the machine's.
type fakeCluster struct {
	mu         sync.Mutex
	offset     time.Duration
	off        bool
	rank       int
	joined     bool               // another node claims, too
	ranks      func(id int64) int // in place of rank
	position   int
	nodes      int // 0 for one
	owner      func(id int64) (string, int)
	onAgainAt  time.Time
	offSince   time.Time
	offSeen    time.Time // zero for until onAgainAt
	elsewhere  bool
	refreshed  int
	passedOver int
	onRefresh  func(*fakeCluster)

	looks       int // SwitchedOn
	lookTakes   time.Duration
	lookErr     error
	switchedOff bool // which only SwitchedOn says
}

func (c *fakeCluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *fakeCluster) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().UTC().Add(c.offset)
}

func (c *fakeCluster) Self() node.Instance { return node.Instance{NodeID: "n1", ID: 7} }

func (c *fakeCluster) Note(schema.ClockReading) {}

func (c *fakeCluster) Claiming() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.off && c.onAgainAt.IsZero()
}

func (c *fakeCluster) Switches() (bool, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return true, !c.off
}

func (c *fakeCluster) SwitchedOn(context.Context) (bool, error) {
	c.set(func() { c.looks++ })
	time.Sleep(c.lookTakes)
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.switchedOff && !c.off, c.lookErr
}

func (c *fakeCluster) PassingOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.onAgainAt.IsZero()
}

func (c *fakeCluster) TimesOff(string) []node.TimeOff {
	if c.elsewhere {
		return nil
	}
	seen := c.onAgainAt
	if !c.offSeen.IsZero() {
		seen = c.offSeen
	}
	return []node.TimeOff{{From: c.offSince, Seen: seen, Until: c.onAgainAt}}
}

func (c *fakeCluster) Rank(_ string, id int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ranks != nil {
		return c.ranks(id)
	}
	return c.rank
}

func (c *fakeCluster) Turn(_ string, id int64) (string, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner == nil {
		return "", c.rank
	}
	return c.owner(id)
}

func (c *fakeCluster) Alone() bool { return !c.joined }

func (c *fakeCluster) Position() (position, of int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.position, max(c.nodes, 1)
}

func (c *fakeCluster) MayOwn() func(int64) bool { return nil }

func (c *fakeCluster) Refresh(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshed++
	if c.onRefresh != nil {
		c.onRefresh(c)
	}
	return nil
}

func (c *fakeCluster) PassedOver(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passedOver++
	c.onAgainAt = time.Time{}
	return nil
}
